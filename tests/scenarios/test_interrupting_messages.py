"""Messages that interrupt the running turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    ChatRequest,
    ExecuteChatRequest,
    WhenBusy,
)
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_store import journal_service
from netaclaw_store.append import append
from netaclaw_store.begin_turn import begin_turn
from tests.fakes.openai_server import FakeOpenAI
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_waiting_messages import Gate, user_texts


async def test_an_interrupting_message_ends_the_running_turn_and_keeps_its_text(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    gate = model_server.rule = Gate()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        first = chat(client, ChatRequest(session_id=session_id, content="wait"))
        seen = await until(first, "assistant_stream_delta")
        request = ExecuteChatRequest(session_id=session_id, content="now this", when_busy=WhenBusy.WHEN_BUSY_INTERRUPT)
        answering = asyncio.ensure_future(client.chat.ExecuteChat(request))
        seen += await until(first, "done")
        answer = await answering
        tree = await suite.tree(client, session_id)
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_CANCELLED
    assert tree[0].entries[1].assistant.parts[0].text.text == "first"
    assert (answer.outcome, answer.final_content) == (TurnOutcome.TURN_OUTCOME_COMPLETED, "you said now this")
    assert not gate.open.is_set()


@pytest.mark.parametrize("begun", [False, True])
async def test_a_message_interrupts_also_the_turn_of_one_before_it_that_is_only_beginning(
    *, begun: bool, open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Gate()
    reached, queued, go_on = (asyncio.Event() for _ in range(3))

    async def hold() -> None:
        reached.set()
        async with asyncio.timeout(10):
            await go_on.wait()

    async def ending(database: Any, request: Any, parts: Any) -> Any:
        if not begun and any(kind == "turn_end" for kind, _ in parts):
            await hold()
        return await append(database, request, parts)

    async def beginning(database: Any, request: BeginTurnRequest) -> BeginTurnResponse:
        response = await begin_turn(database, request)
        if begun and request.from_queue:
            await hold()
        if request.content == "second":
            queued.set()
        return response

    monkeypatch.setattr(journal_service, "append", ending)
    monkeypatch.setattr(journal_service, "begin_turn", beginning)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)

        def send(content: str) -> Any:
            busy = WhenBusy.WHEN_BUSY_INTERRUPT
            return chat(client, ChatRequest(session_id=session_id, content=content, when_busy=busy))

        await until(send("stay"), "assistant_stream_delta")
        first = asyncio.create_task(until(send("wait"), "done"))
        await reached.wait()
        second = asyncio.create_task(until(send("second"), "done"))
        await queued.wait()
        go_on.set()
        async with asyncio.timeout(10):
            ends = [of_kind(await reading, "done")[-1].done.outcome for reading in (first, second)]
        assert await user_texts(suite, client, session_id) == ["stay", "wait", "second"]
    assert ends == [TurnOutcome.TURN_OUTCOME_CANCELLED, TurnOutcome.TURN_OUTCOME_COMPLETED]
