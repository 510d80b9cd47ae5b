"""Messages that arrive while a turn is running: each gets its receipts, and none is lost or taken twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    CancelTurnRequest,
    ChatRequest,
    ExecuteChatRequest,
    RetractMessageRequest,
    SteerSubagentRequest,
    WhenBusy,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState, TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw.store.v1.journal_service_pb2 import RetractMessageRequest as RetractQueued
from netaclaw_chassis.errors import NetaclawError
from netaclaw_client import Client, run_turn
from netaclaw_client.comparison import equal
from netaclaw_client.view import SessionView
from netaclaw_orchestrator import journal, sessions
from netaclaw_store import journal_service, queue
from netaclaw_store.begin_turn import begin_turn
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Wait
from tests.scenarios.reading import chat, of_kind, until, watch
from tests.scenarios.suites import OpenSuite, RunningSuite

TAKEN = ReceiptState.RECEIPT_STATE_TAKEN
QUEUED = ReceiptState.RECEIPT_STATE_QUEUED


class Gate:
    """A model that says "first" when the gate opens, and echoes later messages."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        last = messages[-1]
        if last["role"] == "tool":
            return Reply([Text("tool done")])
        if last["content"] == "wait":
            self.asked.set()
            return Reply([Text("first"), Wait(self.open), Text(" answer")])
        if last["content"] == "stay":
            return Reply([Text("first"), Wait(asyncio.Event())])
        if last["content"] == "wait with a tool":
            self.asked.set()
            return Reply([Wait(self.open), Call("list_files", "{}")])
        return Reply([Text(f"you said {last['content']}")])


def receipts(events: list[ChatEvent]) -> list[tuple[str, int]]:
    return [(e.message_receipt.request_id, e.message_receipt.state) for e in of_kind(events, "message_receipt")]


async def user_texts(suite: RunningSuite, client: Client, session_id: str) -> list[str]:
    tree = await suite.tree(client, session_id)
    return [entry.user.text for page in tree for entry in page.entries if entry.HasField("user")]


class HeldTurn(NamedTuple):
    """A turn that goes on once its gate is opened, and the reading of its events."""

    suite: RunningSuite
    client: Client
    session_id: str
    gate: Gate
    seen: asyncio.Task[list[ChatEvent]]


@asynccontextmanager
async def held_turn(
    open_suite: OpenSuite, model_server: FakeOpenAI, content: str = "wait", **settings: str
) -> AsyncIterator[HeldTurn]:
    gate = model_server.rule = Gate()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url, **settings) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content=content))
        seen = asyncio.create_task(until(events, "done"))
        await gate.asked.wait()
        yield HeldTurn(suite, client, session_id, gate, seen)


async def test_a_queued_message_begins_a_turn_after_the_running_one(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with held_turn(open_suite, model_server) as (suite, client, session_id, gate, first):
        request = ChatRequest(
            session_id=session_id, content="second", request_id="r2", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE
        )
        events = chat(client, request)
        before = await until(events, "message_receipt")
        gate.open.set()
        after = await until(events, "done")
        await first
        tree = await suite.tree(client, session_id)
        assert await user_texts(suite, client, session_id) == ["wait", "second"]
        assert await suite.rows("queued_message", "message_no") == []
    assert receipts([*before, *after]) == [("r2", QUEUED), ("r2", TAKEN)]
    assert tree[-1].entries[-1].assistant.parts[0].text.text == "you said second"


@pytest.mark.parametrize("content", ["wait", "wait with a tool"])
async def test_a_steering_message_enters_the_running_turn_before_its_next_model_call(
    content: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with held_turn(open_suite, model_server, content) as (suite, client, session_id, gate, first):
        request = ChatRequest(
            session_id=session_id, content="steer", request_id="s", when_busy=WhenBusy.WHEN_BUSY_STEER
        )
        events = chat(client, request)
        await until(events, "message_receipt")
        gate.open.set()
        seen = await first
        await until(events, "done")
        tree = await suite.tree(client, session_id)
        view = SessionView(session_id=session_id)
        for event in seen:
            view.apply(event)
        assert equal(view, SessionView.from_tree(tree)) == []
        (turn,) = await suite.rows("turn", "turn_id")
        (message,) = await suite.rows("queued_message", "message_no")
        assert message["taken_turn_id"] == turn["turn_id"]
    assert receipts(seen) == [("s", QUEUED), ("s", TAKEN)]
    assert "you said steer" in [
        e.session_entry_updated.entry.assistant.parts[0].text.text for e in of_kind(seen, "session_entry_updated")
    ]
    kinds = [entry.WhichOneof("body") for page in tree for entry in page.entries]
    assert kinds == ["user", "assistant", "user", "assistant"]


async def test_a_steering_message_that_is_sent_again_while_it_waits_enters_once(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with held_turn(open_suite, model_server) as (suite, client, session_id, gate, first):
        request = ChatRequest(
            session_id=session_id, content="steer", request_id="s", when_busy=WhenBusy.WHEN_BUSY_STEER
        )
        for _ in range(3):
            await until(chat(client, request), "message_receipt")
        gate.open.set()
        seen = await first
        assert await user_texts(suite, client, session_id) == ["wait", "steer"]
    assert receipts(seen) == [("s", QUEUED), ("s", TAKEN)]


async def test_a_steering_message_that_came_too_late_for_its_turn_can_be_taken_back_in_the_next(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    gate = model_server.rule = Gate()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        first = chat(client, ChatRequest(session_id=session_id, content="stay"))
        await until(first, "assistant_stream_delta")

        async def steer(content: str) -> None:
            steering = WhenBusy.WHEN_BUSY_STEER
            request = ChatRequest(session_id=session_id, content=content, request_id=content, when_busy=steering)
            await until(chat(client, request), "message_receipt")

        await steer("wait")
        await steer("never")
        await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
        await gate.asked.wait()
        await client.chat.RetractMessage(RetractMessageRequest(session_id=session_id, request_id="never"))
        gate.open.set()
        await until(watch(client, session_id), "done")
        await until(chat(client, ChatRequest(session_id=session_id, content="last")), "done")
        assert await user_texts(suite, client, session_id) == ["stay", "wait", "last"]


async def test_a_steering_message_that_the_store_could_not_take_back_is_answered(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(database: Any, request: RetractQueued) -> None:
        raise NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the database cannot be reached")

    monkeypatch.setattr(queue, "retract", away)
    async with held_turn(open_suite, model_server, NETACLAW_LOG_LEVEL="ERROR") as held:
        _, client, session_id, gate, first = held
        request = ChatRequest(
            session_id=session_id, content="steer", request_id="s", when_busy=WhenBusy.WHEN_BUSY_STEER
        )
        events = chat(client, request)
        await until(events, "message_receipt")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.chat.RetractMessage(RetractMessageRequest(session_id=session_id, request_id="s"))
        gate.open.set()
        await first
        async with asyncio.timeout(10):
            (done,) = of_kind(await until(events, "done"), "done")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert done.done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED


async def test_a_queued_message_can_be_taken_back_once(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    async with held_turn(open_suite, model_server) as (suite, client, session_id, gate, first):
        request = ExecuteChatRequest(
            session_id=session_id, content="never", request_id="r", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE
        )
        answering = asyncio.ensure_future(client.chat.ExecuteChat(request))
        retract = RetractMessageRequest(session_id=session_id, request_id="r")
        await until(watch(client, session_id), "message_receipt")
        await client.chat.RetractMessage(retract)
        answer = await answering
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.chat.RetractMessage(retract)
        again = await client.chat.ExecuteChat(request)
        gate.open.set()
        seen = await first
        late = await client.chat.ExecuteChat(request)
        texts = await user_texts(suite, client, session_id)
    assert [each.outcome for each in (answer, again, late)] == [TurnOutcome.TURN_OUTCOME_CANCELLED] * 3
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert receipts(seen)[-1] == ("r", ReceiptState.RECEIPT_STATE_RETRACTED)
    assert texts == ["wait"]


async def test_a_message_to_an_ended_child_is_missed(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(
            ExecuteChatRequest(session_id=session_id, content="in parallel: count files; search needle")
        )
        task_id = answer.subagent_batches[0].items[0].task_id
        request = SteerSubagentRequest(session_id=session_id, task_id=task_id, content="hurry", request_id="h")
        steered = await client.chat.SteerSubagent(request)
        last = (await suite.events(session_id))[-1]
    assert steered.state == ReceiptState.RECEIPT_STATE_MISSED
    assert (last.task_id, last.steer_receipt.request_id, last.steer_receipt.state) == (task_id, "h", steered.state)


async def test_a_queued_message_outlives_a_store_that_is_away_for_long(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = model_server.rule = Gate()
    asked = 0

    async def away(database: Any, request: BeginTurnRequest) -> BeginTurnResponse:
        nonlocal asked
        if request.from_queue:
            asked += 1
            if asked <= 5:
                raise NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the database cannot be reached")
        return await begin_turn(database, request)

    monkeypatch.setattr(journal, "RETRY_DELAYS_S", (0.01,))  # it is given up soon
    monkeypatch.setattr(sessions, "QUEUE_RETRY_S", 0.01)
    monkeypatch.setattr(journal_service, "begin_turn", away)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url, NETACLAW_LOG_LEVEL="ERROR") as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        first = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="wait")), "done"))
        await gate.asked.wait()
        events = chat(
            client, ChatRequest(session_id=session_id, content="second", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
        )
        await until(events, "message_receipt")
        gate.open.set()
        await first
        async with asyncio.timeout(10):
            (done,) = of_kind(await until(events, "done"), "done")
    assert done.done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert asked == 6


async def test_messages_sent_at_once_by_clients_that_are_behind_all_have_their_turns(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)

        async def say(content: str) -> list[ChatEvent]:
            request = ChatRequest(session_id=session_id, content=content, when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
            async with asyncio.timeout(20), aclosing(run_turn(client, request)) as events:
                return [event async for event in events]

        told = await asyncio.gather(*(say(f"hello {n}") for n in range(3)))
        asked = {
            entry.turn_id: entry.user.text
            for page in await suite.tree(client, session_id)
            for entry in page.entries
            if entry.HasField("user")
        }
    assert [asked[events[-1].turn_id] for events in told] == ["hello 0", "hello 1", "hello 2"]
    assert all(events[-1].HasField("done") for events in told)
    for events in told:
        durable = [event.seq for event in events if event.seq]
        assert durable == list(range(1, len(durable) + 1))


async def test_a_message_that_is_queued_behind_a_turn_whose_beginning_is_not_known_yet_is_begun(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, second_queued = asyncio.Event(), asyncio.Event()

    async def held(database: Any, request: BeginTurnRequest) -> BeginTurnResponse:
        response = await begin_turn(database, request)
        if request.content == "hello first":  # its commit is known to the store alone until the second is queued
            committed.set()
            await second_queued.wait()
        return response

    monkeypatch.setattr(journal_service, "begin_turn", held)
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        first = asyncio.create_task(
            until(chat(client, ChatRequest(session_id=session_id, content="hello first")), "done")
        )
        await committed.wait()
        request = ChatRequest(session_id=session_id, content="hello second", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
        second = asyncio.create_task(until(chat(client, request), "done"))
        async with asyncio.timeout(10):
            while not await suite.rows("queued_message", "message_no"):
                await asyncio.wait([second], timeout=0.05)
            await asyncio.wait([second], timeout=0.2)  # its answer reaches the orchestrator
            second_queued.set()
            await first
            assert of_kind(await second, "done")[0].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
