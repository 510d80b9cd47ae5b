"""What has to be true after every fault."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Entry, ToolCallPart, ToolCallState
from netaclaw.session.v1.session_service_pb2 import ListSubagentEntriesRequest
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw_client.client import Client
from netaclaw_client.comparison import equal
from netaclaw_client.view import SessionView
from tests.processes import gone
from tests.scenarios.followers import Follower
from tests.scenarios.suites import RunningSuite

WORKERS_GONE_S = 15.0
"""The lease, the runner's grace, and a slow machine."""


async def check(suite: RunningSuite, client: Client, followed: Follower, sent: SessionView) -> None:
    """All of it for one session whose turn has ended for its clients."""
    session_id = followed.view.session_id
    stored = SessionView.from_tree(await suite.tree(client, session_id))
    await followed.until(lambda: followed.view.seq >= stored.seq)
    for view in (followed.view, sent):
        differs = equal(view, stored)
        assert not differs, differs
    journal = await suite.events(session_id)
    assert [event.seq for event in journal] == list(range(1, stored.seq + 1))
    acknowledged = [event for event in followed.events if event.seq]
    assert [_shape(event) for event in acknowledged] == [_shape(event) for event in journal]
    turns = [row for row in await suite.rows("turn", "turn_id") if row["session_id"] == session_id]
    assert {row["state"] for row in turns} == {"ended"}
    rows = [row for row in await suite.rows("subagent_session", "sort_order") if row["session_id"] == session_id]
    assert not {row["status"] for row in rows} & {"queued", "running"}
    await check_workers(followed.events)
    calls = [call async for call in _calls(client, session_id, stored.entries.values())]
    check_effects(calls, suite.workspace)


async def check_workers(events: Sequence[ChatEvent]) -> None:
    """No process of any child is left."""
    pids = {event.subagent_event.item.worker_pid for event in events} - {0}
    async with asyncio.timeout(WORKERS_GONE_S):
        for pid in pids:
            await gone(pid)


def check_effects(calls: Iterable[ToolCallPart], workspace: Path) -> None:
    """No effect happened twice, and each that is said to have happened did."""
    keys: Counter[str] = Counter()
    for call in calls:
        arguments = json.loads(call.arguments_json or "{}")
        if call.tool_name == "run_shell":
            path = workspace / str(arguments["command"]).rpartition(" ")[2]
            keys[path.name] += 1
            times = path.read_text().count("once") if path.exists() else 0
            assert times <= 1, f"{path.name} happened {times} times"
        elif call.tool_name == "write_file":
            path = workspace / str(arguments["path"])
        else:
            continue
        if call.state == ToolCallState.TOOL_CALL_STATE_COMPLETED and not call.result.is_error:
            assert path.exists(), f"{path.name} is said to have happened"
    assert not [key for key, count in keys.items() if count > 1], "the model was asked for an effect twice"


async def _calls(client: Client, session_id: str, entries: Iterable[Entry]) -> AsyncIterator[ToolCallPart]:
    """The main agent's calls, and its children's."""
    for entry in entries:
        for part in entry.assistant.parts:
            if part.HasField("tool_call"):
                yield part.tool_call
        for task in entry.subagent_batch.batch.items:
            async for call in _childs_calls(client, session_id, task):
                yield call


async def _childs_calls(client: Client, session_id: str, task: SubagentTask) -> AsyncIterator[ToolCallPart]:
    request = ListSubagentEntriesRequest(session_id=session_id, task_id=task.task_id)
    for item in (await client.sessions.ListSubagentEntries(request)).entries:
        for part in item.message.parts:
            if part.HasField("tool_call"):
                yield part.tool_call


def _shape(event: ChatEvent) -> tuple[int, str | None, str, str]:
    return (event.seq, event.WhichOneof("event"), event.entry_id, event.task_id)
