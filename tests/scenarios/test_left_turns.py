"""A turn that its instance could not go on with, or lost, is gone on with, wherever that is."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator import journal
from netaclaw_orchestrator.live_session import LiveSession
from netaclaw_orchestrator.recovery import Recovery
from netaclaw_store import journal_service
from netaclaw_store.append import append
from netaclaw_store.leases import Leases
from tests.fakes.openai_server import FakeOpenAI
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.goals import Goals
from tests.scenarios.held_answers import Held
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_clarify import answer, asks, question

AWAY = NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the database cannot be reached")


async def test_a_turn_that_could_not_be_begun_here_is_answered_where_it_runs_then(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = Goals({})
    path, claim, failures = LiveSession._path, Recovery._claim, [AWAY]

    async def failing(live: LiveSession, *about: Any) -> list[Entry]:
        if failures:
            raise failures.pop()
        return await path(live, *about)

    async def claimed_by_two(recovery: Recovery) -> None:
        if recovery._instance_id == "two":
            await claim(recovery)

    monkeypatch.setattr(LiveSession, "_path", failing)
    monkeypatch.setattr(Recovery, "_claim", claimed_by_two)
    opened = pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        async with followers(session_id, pair.one.suite, pair.two.suite) as (here, there):
            with pytest.raises(grpc.aio.AioRpcError):
                await until(chat(one, ChatRequest(session_id=session_id, content=asks())), "done")
            await there.until_kind("clarify_request")
            assert await pair.two.owner_of(session_id) == "two"
            ended = await answer(one, session_id, question(there.view).entry_id, "blue")
            await there.until_kind("done")
            await check_whole(pair.two.suite, two, here, there)
    assert ended.clarify.state == ClarifyState.CLARIFY_STATE_ANSWERED


async def test_a_turn_that_is_lost_while_the_store_is_away_goes_on_once_it_is_back(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = model_server.rule = Held()
    away, refused = asyncio.Event(), asyncio.Event()
    release = Leases.release

    async def appended(database: Any, request: Any, parts: Any) -> Any:
        if away.is_set():
            raise AWAY
        return await append(database, request, parts)

    async def released(leases: Leases, request: Any) -> Any:
        if away.is_set():
            refused.set()
            raise AWAY
        return await release(leases, request)

    monkeypatch.setattr(journal, "RETRY_DELAYS_S", (0.01,))  # it is given up soon
    monkeypatch.setattr(journal_service, "append", appended)
    monkeypatch.setattr(Leases, "release", released)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_LOG_LEVEL": "ERROR"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            await until(chat(client, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            away.set()
            held.open.set()
            async with asyncio.timeout(10):
                await refused.wait()
            away.clear()
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
        after = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="after"))
    assert after.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
