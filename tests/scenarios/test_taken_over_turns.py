"""A turn that has another owner now: what it had cost, and what was asked of it while it had none."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, WhenBusy
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import Entry, EntryState, ToolCallState
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest
from netaclaw.subagent.v1.runner_service_pb2 import GetStatusRequest
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_orchestrator.live_session import LiveSession
from netaclaw_orchestrator.tree_reader import TreeReader
from tests.fakes.openai_server import FakeOpenAI, Hang, Reply, Text, Wait
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.held_answers import Held
from tests.scenarios.pairs import OpenPair, Side
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import SERVICE_TOKEN
from tests.scenarios.test_takeover import rows_show

CANCELLED = TurnOutcome.TURN_OUTCOME_CANCELLED


class Rounds(Goals):
    """Delegates, then holds the answer in its second model call."""

    def __init__(self) -> None:
        super().__init__({"look": [Reply([Text("four files")])]})
        self.open = asyncio.Event()

    async def __call__(self, request: dict[str, object]) -> Reply:
        reply = await super().__call__(request)
        held = len(self.main_requests) > 1 and request is self.main_requests[-1]
        return Reply([Text("do"), Wait(self.open), *reply.items]) if held else reply


async def runs_of(side: Side) -> list[str]:
    """Runs in progress in the pair's runner."""
    async with connect(side.runner, SERVICE_TOKEN) as channel:
        status = await RunnerServiceStub(channel).GetStatus(GetStatusRequest())
    return [run.run_id for run in status.runs]


async def test_the_end_of_a_turn_counts_the_delegations_that_had_ended_under_an_earlier_owner(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    rounds = model_server.rule = Rounds()
    opened = pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        async with followers(session_id, pair.two.suite) as (there,):
            await anext(chat(one, ChatRequest(session_id=session_id, content=tasks("look"))))
            await there.until(lambda: there.written == {"do"})
            await pair.one.close()
            await rounds.until_main(3)
            rounds.open.set()
            await there.until_kind("done")
            await check_whole(pair.two.suite, two, there)
        spent = await two.sessions.GetUsage(GetUsageRequest(session_id=session_id))
    (end,) = of_kind(there.events, "done")
    assert spent.subagents.model_calls == 1
    assert end.done.usage == spent.total


async def test_a_stop_while_a_turn_is_taken_over_ends_the_calls_and_children_that_it_had_begun(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    goals = model_server.rule = Goals({"wait": [Reply([Hang()])], "look": [Reply([Text("four files")])]})
    path, reading, read = TreeReader.path, asyncio.Event(), asyncio.Event()

    async def held(reader: TreeReader, owner_id: str, session_id: str) -> list[Entry]:
        reading.set()
        await read.wait()
        return await path(reader, owner_id, session_id)

    opened = pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        async with followers(session_id, pair.two.suite) as (there,):
            sent = ChatRequest(session_id=session_id, content=tasks("wait", "look"))
            async for event in chat(one, sent):
                if event.subagent_event.process_event.type == "run_end":
                    break
            assert goals.calls_of("wait") == 1
            monkeypatch.setattr(TreeReader, "path", held)
            await pair.one.kill()
            await reading.wait()
            stopping = asyncio.ensure_future(two.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
            await asyncio.wait([stopping], timeout=0.2)
            read.set()
            await stopping
            running = await runs_of(pair.two)
            await there.until_kind("done")
            await check_whole(pair.two.suite, two, there)
        rows = await pair.two.suite.rows("subagent_session", "sort_order")
        spent = await two.sessions.GetUsage(GetUsageRequest(session_id=session_id))
    (answer,) = [entry for entry in there.view.entries.values() if entry.HasField("assistant")]
    (call,) = [part.tool_call for part in answer.assistant.parts if part.HasField("tool_call")]
    (end,) = of_kind(there.events, "done")
    assert running == []
    assert [row["status"] for row in rows] == ["cancelled", "completed"]
    assert (call.state, call.HasField("result")) == (ToolCallState.TOOL_CALL_STATE_CANCELLED, True)
    assert (end.done.outcome, end.done.usage) == (CANCELLED, spent.total)


async def test_a_message_that_interrupts_a_turn_whose_owner_dies_interrupts_it_under_the_next_one(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Held()
    opened = pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        async with followers(session_id, pair.two.suite) as (there,):
            await until(chat(one, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            await rows_show(pair.two.suite, "entry_draft", "attempt", 1)
            monkeypatch.setattr(LiveSession, "enqueue", lambda live, waiting: None)  # its owner goes first
            sent = ChatRequest(session_id=session_id, content="other", when_busy=WhenBusy.WHEN_BUSY_INTERRUPT)
            await until(chat(one, sent), "message_receipt")
            monkeypatch.undo()
            await pair.one.close()
            await there.until_kind("done", 2)
            await check_whole(pair.two.suite, two, there)
    first, second = of_kind(there.events, "done")
    assert (first.done.outcome, second.done.outcome) == (CANCELLED, TurnOutcome.TURN_OUTCOME_COMPLETED)
    broken_off, answer = [entry for entry in there.view.entries.values() if entry.HasField("assistant")]
    assert (broken_off.state, broken_off.assistant.parts[0].text.text) == (EntryState.ENTRY_STATE_CANCELLED, "first")
    assert answer.assistant.parts[0].text.text == "you said other"
