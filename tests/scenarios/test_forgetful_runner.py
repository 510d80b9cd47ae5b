"""A child that has said more than its runner keeps, and whose orchestrator goes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.session_service_pb2 import GetSubagentResultRequest, GetUsageRequest
from netaclaw_client.view import SessionView
from netaclaw_runner import app as runner_app
from netaclaw_runner.limits import Limits
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Wait
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat
from tests.scenarios.test_takeover import check_whole, followed, rows_show


async def test_a_child_is_taken_over_though_its_first_events_are_forgotten(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs once, costs what it cost, and its result says what nobody could tell of any more."""
    monkeypatch.setattr(runner_app, "Limits", partial(Limits, retained_bytes=500))
    answer = asyncio.Event()
    look = Reply([Call("list_files", "{}")])
    goals = model_server.rule = Goals({"look": [look, look, Reply([Text("all "), Wait(answer), Text("there")])]})
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        session_id = await pair.one.suite.new_session(client)
        view = SessionView(session_id=session_id)
        async for event in chat(client, ChatRequest(session_id=session_id, content=tasks("look"))):
            view.apply(event)
            if event.task_id and event.assistant_stream_delta.text:
                break
        await pair.one.close()
        following = asyncio.create_task(followed(other, view))
        await rows_show(pair.two.suite, "turn", "takeovers", 1)
        answer.set()
        await following
        await check_whole(pair.two.suite, other, view)
        spent = await other.sessions.GetUsage(GetUsageRequest(session_id=session_id))
        [row] = await pair.two.suite.rows("subagent_session", "sort_order")
        whole = await other.sessions.GetSubagentResult(
            GetSubagentResultRequest(session_id=session_id, task_id=row["task_id"])
        )
    assert row["status"] == "completed"
    assert goals.calls_of("look") == 3
    assert whole.result.final_output == "all there"
    assert [note for note in whole.result.diagnostics if "were no longer held when it was taken over" in note]
    assert spent.total.model_calls == len(model_server.requests)
    called = [call.call_id for call in whole.result.tool_results]
    assert len(called) == len(set(called)) == 2
