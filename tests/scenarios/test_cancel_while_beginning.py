"""Whoever presses stop while a turn is being begun, or taken over, has stopped it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState, ToolCallState
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_client.client import Client
from netaclaw_orchestrator.delegation.batch_journal import BatchJournal
from netaclaw_orchestrator.tree_reader import TreeReader
from netaclaw_store import journal_service
from netaclaw_store.append import append
from netaclaw_store.begin_turn import begin_turn
from tests.fakes.openai_server import FakeOpenAI, Reply, Text, Wait
from tests.scenarios.goals import Goals
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite, RunningSuite

CANCELLED = TurnOutcome.TURN_OUTCOME_CANCELLED


@dataclass
class Gate:
    """Holds the store's BeginTurn of one instance, before or after its commit, until it is let go."""

    after_commit: bool = False
    instance_id: str = ""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, database: Any, request: BeginTurnRequest) -> BeginTurnResponse:
        if self.instance_id not in ("", request.instance_id):
            return await begin_turn(database, request)
        if not self.after_commit:
            await self._hold()
        response = await begin_turn(database, request)
        if self.after_commit:
            await self._hold()
        return response

    async def _hold(self) -> None:
        self.reached.set()
        await self.opened.wait()


class Model:
    """Answers at once; "wait" is answered with a first word and no more."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, request: dict[str, Any]) -> Reply:
        self.asked.set()
        waits = request["messages"][-1]["content"] == "wait"
        return Reply([Text("first"), Wait(asyncio.Event())]) if waits else Reply([Text("whole answer")])


@asynccontextmanager
async def stopped(
    client: Client, suite: RunningSuite, gate: Gate, session_id: str, *, named: bool, stopper: Client | None = None
) -> AsyncIterator[list[str]]:
    """A turn that is stopped while the gate holds its beginning; yields the ids that the answers name."""
    sending = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="go")), "done"))
    await gate.reached.wait()
    running = (await suite.tree(client, session_id))[0].session.running_turn_id
    request = CancelTurnRequest(session_id=session_id, turn_id=running if named else "")
    stopping = asyncio.ensure_future((stopper or client).chat.CancelTurn(request))
    done, _ = await asyncio.wait([stopping], timeout=0.2)
    assert not done, "nobody knows yet that the turn is gone"
    gate.opened.set()
    (end,) = of_kind(await sending, "done")
    assert end.done.outcome == CANCELLED
    yield [end.turn_id, (await stopping).turn_id]


async def answers(client: Client, suite: RunningSuite, session_id: str) -> list[Entry]:
    pages = await suite.tree(client, session_id)
    assert not pages[0].session.running_turn_id
    return [entry for page in pages for entry in page.entries if entry.HasField("assistant")]


@pytest.mark.parametrize("owned", [True, False], ids=("owned", "new"))
@pytest.mark.parametrize(("after_commit", "named"), [(False, False), (True, False), (True, True)])
async def test_a_stop_in_the_instant_of_the_message_catches_its_turn(
    *,
    owned: bool,
    after_commit: bool,
    named: bool,
    open_suite: OpenSuite,
    model_server: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model_server.rule = Model()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        if owned:  # then the model is asked while the turn begins, and has answered long before it is stopped
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        gate = Gate(after_commit)
        monkeypatch.setattr(journal_service, "begin_turn", gate)
        async with stopped(client, suite, gate, session_id, named=named) as (turn_id, said):
            assert said == turn_id
        *_, answer = await answers(client, suite, session_id)
        used = (await client.sessions.GetUsage(GetUsageRequest(session_id=session_id))).total
        again = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))
    assert (answer.state, len(answer.assistant.parts)) == (EntryState.ENTRY_STATE_CANCELLED, 0)
    assert used.model_calls == len(model_server.requests) - 1, "a call that was made and dropped is counted"
    assert again.final_content == "whole answer"


async def test_a_stop_of_another_turn_leaves_the_one_that_is_being_begun(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        first = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        gate = Gate(after_commit=True)
        monkeypatch.setattr(journal_service, "begin_turn", gate)
        request = ExecuteChatRequest(session_id=session_id, content="count the files")
        sending = asyncio.ensure_future(client.chat.ExecuteChat(request))
        await gate.reached.wait()
        wrong = await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id, turn_id=first.turn_id))
        gate.opened.set()
        second = await sending
    assert wrong.turn_id == ""
    assert second.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED


async def test_a_stop_catches_the_turn_of_a_client_that_went_away_meanwhile(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    monkeypatch.setattr(journal_service, "begin_turn", gate)
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        call = client.chat.Chat(ChatRequest(session_id=session_id, content="delegate: HANG a"))
        reading = asyncio.create_task(anext(aiter(call), None))
        await gate.reached.wait()
        call.cancel()
        await asyncio.wait([reading])
        stopping = asyncio.ensure_future(client.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        done, _ = await asyncio.wait([stopping], timeout=0.2)
        gate.opened.set()
        said = (await stopping).turn_id
        (answer,) = await answers(client, suite, session_id)
    assert not done
    assert (answer.turn_id, answer.state) == (said, EntryState.ENTRY_STATE_CANCELLED)


@pytest.mark.parametrize("held_at", ["one", "two"])
@pytest.mark.parametrize("stopped_at", ["one", "two"])
async def test_a_stop_catches_a_turn_whose_message_came_to_the_wrong_instance(
    *, held_at: str, stopped_at: str, pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Model()
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as one,
        pair.two.client() as two,
    ):
        session_id = await pair.one.suite.new_session(one)
        await one.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        gate = Gate(instance_id=held_at)  # two's is refused with the owner's name, and the message is passed on to one
        monkeypatch.setattr(journal_service, "begin_turn", gate)
        sending = asyncio.create_task(until(chat(two, ChatRequest(session_id=session_id, content="go")), "done"))
        await gate.reached.wait()
        client = {"one": one, "two": two}[stopped_at]
        stopping = asyncio.ensure_future(client.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        await asyncio.wait([stopping], timeout=0.2)
        gate.opened.set()
        (end,) = of_kind(await sending, "done")
        said = (await stopping).turn_id
    assert end.done.outcome == CANCELLED
    # A message that is cancelled before it is passed on may be over before the one that stopped it can name its turn.
    assert said in {"one": {end.turn_id}, "two": {"", end.turn_id}}[held_at]


async def test_a_stop_at_one_instance_catches_what_is_being_begun_at_another(
    pair_of: OpenPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_of() as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.one.suite.new_session(one)
        gate = Gate(instance_id="one")
        monkeypatch.setattr(journal_service, "begin_turn", gate)
        async with stopped(one, pair.one.suite, gate, session_id, named=False, stopper=two) as (turn_id, said):
            assert said == turn_id
        nothing = await two.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
    assert nothing.turn_id == ""


async def test_a_stop_catches_a_turn_while_it_is_taken_over(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Model()
    path, reading, read = TreeReader.path, asyncio.Event(), asyncio.Event()

    async def held(reader: TreeReader, owner_id: str, session_id: str) -> list[Entry]:
        reading.set()
        await read.wait()
        return await path(reader, owner_id, session_id)

    opened = pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        begun = await until(chat(one, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
        monkeypatch.setattr(TreeReader, "path", held)
        await pair.one.kill()
        early = asyncio.ensure_future(two.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        await reading.wait()
        late = asyncio.ensure_future(two.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        await asyncio.wait([early, late], timeout=0.2)
        read.set()
        said = {(await early).turn_id, (await late).turn_id}
        (answer,) = await answers(two, pair.two.suite, session_id)
        (turn,) = await pair.two.suite.rows("turn", "turn_id")
    assert said == {begun[0].turn_id}
    assert answer.state == EntryState.ENTRY_STATE_CANCELLED
    assert (turn["state"], turn["outcome"], turn["takeovers"]) == ("ended", CANCELLED, 1)


async def test_a_call_that_is_stopped_before_its_start_is_committed_never_began(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Goals({})
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(database: Any, request: Any, parts: Any) -> Any:
        if any(write.event.event.HasField("tool_call_started") for write in request.writes):
            begun.set()
            await go_on.wait()
        return await append(database, request, parts)

    monkeypatch.setattr(journal_service, "append", slow)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        content = json.dumps({"call": "write_file", "path": "new.txt", "content": "new"})
        sending = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content=content)), "done"))
        async with asyncio.timeout(10):
            await begun.wait()
        stopping = asyncio.ensure_future(client.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        await asyncio.wait([stopping], timeout=0.2)
        go_on.set()
        await stopping
        events = await sending
        (answer,) = await answers(client, suite, session_id)
        assert not (suite.workspace / "new.txt").exists()
    (call,) = [part.tool_call for part in answer.assistant.parts if part.HasField("tool_call")]
    assert call.state == ToolCallState.TOOL_CALL_STATE_CANCELLED
    assert call.result.content == "never began: the turn was stopped"
    assert len(of_kind(events, "tool_call_completed")) == 1


async def test_a_stop_while_a_batch_is_begun_ends_its_tasks(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, committed = asyncio.Event(), asyncio.Event()
    begin = BatchJournal.begin

    async def held(journal: BatchJournal, tasks: Sequence[SubagentTask]) -> None:
        try:
            await begin(journal, tasks)
        finally:
            committed.set()

    async def slow(database: Any, request: Any, parts: Any) -> Any:
        if not begun.is_set() and any(kind == "subagent_task" for kind, _ in parts):
            begun.set()
            await committed.wait()  # the one who waits for it goes first
        return await append(database, request, parts)

    monkeypatch.setattr(BatchJournal, "begin", held)
    monkeypatch.setattr(journal_service, "append", slow)
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        content = "in parallel: count files; search needle"
        sending = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content=content)), "done"))
        await begun.wait()
        await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
        (end,) = of_kind(await sending, "done")
        tasks = await suite.rows("subagent_session", "sort_order")
        entries = [entry for page in await suite.tree(client, session_id) for entry in page.entries]
    assert end.done.outcome == CANCELLED
    assert [task["status"] for task in tasks] == ["cancelled"] * 2
    kinds = [entry.kind for entry in entries]
    assert EntryKind.ENTRY_KIND_SUBAGENT_RESULT in kinds
