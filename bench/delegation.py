"""Eight children at once, each with two model calls of 0.4 s and one tool call."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.figures import Figure, median_figure
from bench.model_server import CHILD_S
from bench.processes import ROOT, suite_and_floor
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_client.client import Client

ROUNDS = 9
CHILDREN = 8


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
    return [median_figure("delegate8.wall", "ms", walls, floors)]


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
    with Workspace.open(str(ROOT)) as workspace:
        call = ToolCallPart(tool_name="list_files", arguments_json='{"path": ".", "limit": 5}')
        await file_handlers(workspace)["list_files"](call)
    return time.perf_counter() - started
