"""Eight children at once, each with two model calls of 0.4 s and one tool call."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.figures import Figure, median_figure
from bench.model_server import CHILD_S
from bench.processes import WORKSPACE, cpu_s, suite_and_floor
from bench.store import append_rate, rig
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw.session.v1.session_service_pb2 import ListProcessEventsRequest
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_client.client import Client

ROUNDS = 9
CHILDREN = 8
BATCH_ROUNDS = 3
BATCH_CHILDREN = 100
BATCH_EVENTS = 20
"""run_start, nine calls with their results, run_end."""


async def eight_at_once() -> Sequence[Figure]:
    """delegate8.wall: from the batch's start to its end, over one child's model time and its tool run alone."""
    walls: list[float] = []
    floors: list[float] = []
    async with (
        suite_and_floor(NETACLAW_SUBAGENT_MAX_CONCURRENT=str(CHILDREN)) as bench,
        Client(bench.gateway) as client,
    ):
        for number in range(-1, ROUNDS):
            wall = await _batch_s(client)
            floor = 2 * CHILD_S + await _tool_s()
            if number >= 0:
                walls.append(wall * 1000)
                floors.append(floor * 1000)
    return [median_figure("delegate8.wall", "ms", walls, floors, limit=1.1)]


async def batch_cost() -> Sequence[Figure]:
    """batch100.cost: CPU of the orchestrator per process event, in a batch of 100 children with 20 events each. Floor:
    the time that store.append takes per event."""
    costs: list[float] = []
    floors: list[float] = []
    async with (
        suite_and_floor(NETACLAW_SUBAGENT_MAX_CONCURRENT="32") as bench,
        Client(bench.gateway) as client,
        rig() as store,
    ):
        for number in range(-1, BATCH_ROUNDS):
            spent = await _batch_cpu_s(client, bench.orchestrator_pid)
            if number >= 0:
                costs.append(spent * 1e6 / (BATCH_CHILDREN * BATCH_EVENTS))
                floors.append(1e6 / await append_rate(store))
    return [median_figure("batch100.cost", "us/event", costs, floors, limit=2.0)]


async def _batch_cpu_s(client: Client, pid: int) -> float:
    made = await client.commands.CreateSession(CreateSessionRequest(workspace="repo"))
    before = cpu_s(pid)
    request = ExecuteChatRequest(session_id=made.session.session_id, content=f"delegate {BATCH_CHILDREN} busy")
    answer = await client.chat.ExecuteChat(request)
    spent = cpu_s(pid) - before
    [batch] = answer.subagent_batches
    if batch.counts.completed != BATCH_CHILDREN:
        raise RuntimeError(f"only {batch.counts.completed} of {BATCH_CHILDREN} children completed")
    listed = await client.sessions.ListProcessEvents(
        ListProcessEventsRequest(session_id=request.session_id, batch_entry_id=batch.batch_entry_id, page_size=1000)
    )
    if len(listed.process_events) != 1000 or not listed.next_page_token:
        raise RuntimeError("the children did not report what they did")
    return spent


async def _batch_s(client: Client) -> float:
    made = await client.commands.CreateSession(CreateSessionRequest(workspace="repo"))
    began = ended = 0.0
    request = ChatRequest(session_id=made.session.session_id, content=f"delegate {CHILDREN}")
    async for response in client.chat.Chat(request):
        for event in response.events:
            kind = event.WhichOneof("event")
            if kind == "tool_call_started":
                began = time.perf_counter()
            elif kind == "subagent_run_completed":
                ended = time.perf_counter()
                counts = event.subagent_run_completed.batch.counts
                if counts.completed != CHILDREN:
                    raise RuntimeError(f"only {counts.completed} of {CHILDREN} children completed")
    return ended - began


async def _tool_s() -> float:
    started = time.perf_counter()
    with Workspace.open(str(WORKSPACE)) as workspace:
        call = ToolCallPart(tool_name="list_files", arguments_json='{"path": ".", "limit": 5}')
        await file_handlers(workspace)["list_files"](call)
    return time.perf_counter() - started
