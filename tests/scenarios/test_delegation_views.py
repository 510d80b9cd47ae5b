"""A delegation looks the same live and reloaded, whatever it is restored from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    ChatRequest,
    CompactRequest,
    ExecuteChatRequest,
    SteerSubagentRequest,
    WhenBusy,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind
from netaclaw.session.v1.session_command_service_pb2 import (
    DeleteBranchRequest,
    SwitchLeafRequest,
    UpdateSessionRequest,
)
from netaclaw_client.client import Client
from netaclaw_client.comparison import differences, equal
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import Call, FakeOpenAI, Hang, Item, Reply, Text, Thinking, Wait
from tests.scenarios.followers import Follower, followers
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.reading import chat, of_kind, state_name, until
from tests.scenarios.suites import OpenSuite, RunningSuite
from tests.scenarios.test_tools_shell import session_of

LATER = frozenset(
    {
        *("skill_start", "skill_end"),
        *("process_event", "progress", "pong"),
        *("session_list_changed", "heartbeat"),  # of the stream, not of a session
    }
)
"""Kinds of events that nothing sends into a session yet."""


def scripted(blocked: asyncio.Event) -> Goals:
    children = {
        "look": [Reply([Thinking("hm"), Call("list_files", "{}")]), Reply([Text("four files")])],
        "fail": [Reply(status=400, error={"message": "refused"})],
        "cut": [Reply([Text("this answer reaches its")], finish_reason="length")],
        "wait": [
            Reply([Text("I wait. "), Call("read_file", '{"path": "src/one.py"}')]),
            Reply([Wait(blocked), Text("a")]),
            Reply([Text("quickly")]),
        ],
    }
    answers: dict[str, Sequence[Item]] = {
        "think": [Thinking("let me see"), Text("seen")],
        "hang": [Text("half"), Hang()],
    }
    return Goals(children, answers)


def without_projection(view: SessionView) -> SessionView:
    """A view whose batches are compared by what the events carry: only the store projects."""
    for entry in view.entries.values():
        entry.ClearField("subagent_projection")
    return view


async def reloaded(suite: RunningSuite, client: Client, session_id: str) -> SessionView:
    return SessionView.from_tree(await suite.tree(client, session_id))


def the_one(view: SessionView, kind: EntryKind) -> Entry:
    [entry] = [each for each in view.entries.values() if each.kind == kind]
    return entry


async def settled(follower: Follower, suite: RunningSuite, client: Client) -> SessionView:
    """The stored session, once the follower has seen all of it."""
    stored = await reloaded(suite, client, follower.view.session_id)
    await follower.until(lambda: follower.view.seq >= stored.seq)
    return stored


async def test_a_card_is_the_same_live_from_the_batch_from_the_result_and_from_rows_alone(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    blocked = asyncio.Event()
    goals = model_server.rule = scripted(blocked)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            asked = ChatRequest(session_id=session_id, content=tasks("look", "fail", "wait", "cut", mode="clone"))
            turn = asyncio.create_task(until(chat(client, asked), "done"))
            await follower.until(lambda: goals.calls_of("wait") == 2 and ended_tasks(follower.events) == 3)
            running = await settled(follower, suite, client)
            live = SessionView.from_tree([])
            live.entries = {key: copied(entry) for key, entry in follower.view.entries.items()}
            live.session_id, live.seq, live.leaf_entry_id = running.session_id, running.seq, running.leaf_entry_id
            blocked.set()
            await turn
            await follower.until_kind("done")
            whole = await settled(follower, suite, client)
            assert equal(follower.view, whole) == []
        batch = the_one(running, EntryKind.ENTRY_KIND_SUBAGENT_BATCH)
        shown = [(panel.task.state, panel.final_output) for panel in batch.subagent_projection.task_panels]
        assert [final for _, final in shown] == ["four files", "", "", "this answer reaches its"]
        assert equal(without_projection(live), without_projection(running)) == []

        result = the_one(whole, EntryKind.ENTRY_KIND_SUBAGENT_RESULT)
        ended = the_one(whole, EntryKind.ENTRY_KIND_SUBAGENT_BATCH)
        assert [state_name(each.task) for each in result.subagent_result.final_results] == [
            "COMPLETED",
            "FAILED",
            "COMPLETED",
            "PARTIAL",
        ]
        assert list(differences("batch", result.subagent_result.batch, ended.subagent_batch.batch)) == []
        projections = [ended.subagent_projection, result.subagent_projection]
        await only_rows_left(suite)
        restored = the_one(await reloaded(suite, client, session_id), EntryKind.ENTRY_KIND_SUBAGENT_BATCH)
        assert list(differences("rows", restored.subagent_batch, ended.subagent_batch)) == []
        for projection in [*projections, restored.subagent_projection]:
            assert list(differences("card", projection, projections[0])) == []


async def test_every_kind_of_event_and_part_reloads_as_it_was_seen_live(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    blocked = asyncio.Event()
    goals = model_server.rule = scripted(blocked)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, shell_enabled=True)

        async def say(content: str) -> str:
            asked = ExecuteChatRequest(session_id=session_id, content=content)
            return (await client.chat.ExecuteChat(asked)).assistant_entry_id

        async with followers(session_id, suite) as (follower,):
            first = await say("think")
            await say('{"call": "list_files"}')
            await say('{"call": "read_file", "path": "nowhere"}')
            await say('{"call": "todo_write", "todos": [{"text": "look around", "status": "in_progress"}]}')
            await say('{"call": "clarify", "question": "What for?", "timeoutSeconds": 1}')
            await say('{"call": "run_shell", "command": "echo one; echo two"}')
            update = UpdateSessionRequest()
            update.session.session_id = session_id
            update.session.title = "all kinds"
            update.update_mask.paths.append("title")
            update.labels.add(entry_id=first, label="here")
            await client.commands.UpdateSession(update)
            turn = asyncio.create_task(
                until(chat(client, ChatRequest(session_id=session_id, content=tasks("wait"))), "done")
            )
            await follower.until(lambda: goals.calls_of("wait") == 2)
            queued = ChatRequest(
                session_id=session_id, content="later", request_id="q", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE
            )
            later = asyncio.create_task(until(chat(client, queued), "done"))
            await follower.until_kind("message_receipt")
            [started] = of_kind(follower.events, "subagent_run_started")
            [task] = started.subagent_run_started.batch.items
            steer = SteerSubagentRequest(
                session_id=session_id, task_id=task.task_id, request_id="s", content="be quick"
            )
            await client.chat.SteerSubagent(steer)
            blocked.set()
            await turn
            await later
            doomed = await say("more")
            await client.commands.SwitchLeaf(SwitchLeafRequest(session_id=session_id, leaf_entry_id=first))
            await client.commands.DeleteBranch(DeleteBranchRequest(session_id=session_id, entry_id=doomed))
            await until(chat(client, ChatRequest(session_id=session_id, content=tasks("fail"))), "done")
            await say("long " * 1000)
            await say("short")
            goals.refuse_summary = True
            with pytest.raises(grpc.aio.AioRpcError):
                await client.chat.Compact(CompactRequest(session_id=session_id))
            goals.refuse_summary = False
            await client.chat.Compact(CompactRequest(session_id=session_id))
            model_server.rule = lambda _: Reply(status=400, error={"message": "no more"})
            await until(chat(client, ChatRequest(session_id=session_id, content="fail")), "error")
            stored = await settled(follower, suite, client)
            assert equal(follower.view, stored) == []
            seen = {event.WhichOneof("event") for event in follower.events}
    assert {field.name for field in ChatEvent.DESCRIPTOR.oneofs_by_name["event"].fields} - seen == LATER
    parts = {part.WhichOneof("part") for entry in stored.entries.values() for part in entry.assistant.parts}
    assert parts == {"text", "thinking", "tool_call", "batch_reference"}


def ended_tasks(events: list[ChatEvent]) -> int:
    return sum(event.subagent_event.HasField("result") for event in events)


def copied(entry: Entry) -> Entry:
    copy = Entry()
    copy.CopyFrom(entry)
    return copy


async def only_rows_left(suite: RunningSuite) -> None:
    """Drop batch and result entries, as if nobody had written them."""
    connection = await asyncpg.connect(suite.database_url)
    try:
        kinds = [EntryKind.ENTRY_KIND_SUBAGENT_BATCH, EntryKind.ENTRY_KIND_SUBAGENT_RESULT]
        await connection.execute("DELETE FROM entry WHERE kind = ANY ($1::smallint[])", kinds)
    finally:
        await connection.close()
