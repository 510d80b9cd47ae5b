"""A turn that the store has begun, and whose beginner does not hear of it, runs all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1.journal_service_pb2 import BeginTurnResponse, ClaimDueRequest
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator import journal
from netaclaw_orchestrator.tree_reader import TreeReader
from netaclaw_store import journal_service, leases
from netaclaw_store.begin_turn import begin_turn
from netaclaw_store.leases import Leases
from netaclaw_store.queries import SQL
from tests.scenarios.followers import followers
from tests.scenarios.suites import OpenSuite


class Forgetful:
    """The store's begin_turn, whose first answer is lost after the commit."""

    answers = 0

    async def __call__(self, database: Any, request: Any) -> BeginTurnResponse:
        response = await begin_turn(database, request)
        self.answers += 1
        if self.answers == 1:
            raise NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the answer to the commit was lost")
        return response


async def test_a_client_that_goes_away_while_its_turn_is_begun_cancels_nothing(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, answer = asyncio.Event(), asyncio.Event()

    async def held(database: Any, request: Any) -> BeginTurnResponse:
        response = await begin_turn(database, request)
        committed.set()
        await answer.wait()
        return response

    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        monkeypatch.setattr(journal_service, "begin_turn", held)
        call = client.chat.Chat(ChatRequest(session_id=session_id, content="count the files"))
        reading = asyncio.create_task(anext(aiter(call), None))
        await committed.wait()
        call.cancel()
        await asyncio.wait([reading])
        monkeypatch.undo()
        async with followers(session_id, suite) as (follower,):
            answer.set()
            await follower.until_kind("done")
        [page] = await suite.tree(client, session_id)
    assert "4 files" in page.entries[-1].assistant.parts[-1].text.text


FAULTS = (None, NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "the store is away"), RuntimeError("a mistake"))


@pytest.mark.parametrize("fault", FAULTS, ids=("none", "store", "ours"))
async def test_an_answer_of_the_store_that_is_lost_loses_no_turn_even_if_it_cannot_be_taken_over_at_once(
    fault: Exception | None, open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [fault] if fault is not None else []
    path = TreeReader.path

    async def failing(reader: TreeReader, owner_id: str, session_id: str) -> list[Entry]:
        if faults:
            raise faults.pop()
        return await path(reader, owner_id, session_id)

    monkeypatch.setattr(TreeReader, "path", failing)
    forgetful = Forgetful()
    async with open_suite("in_process", NETACLAW_LEASE_SECONDS="1") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        monkeypatch.setattr(journal_service, "begin_turn", forgetful)
        request = ExecuteChatRequest(session_id=session_id, content="count the files")
        done = await client.chat.ExecuteChat(request, timeout=20)
        [page] = await suite.tree(client, session_id)
    assert forgetful.answers == 2
    assert done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert "4 files" in done.final_content
    assert len([entry for entry in page.entries if entry.HasField("user")]) == 1


async def test_a_claim_whose_answer_is_lost_loses_no_turn(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_due, lost = Leases.claim_due, 0

    async def unheard(store: Leases, request: ClaimDueRequest) -> Any:
        nonlocal lost
        response = await claim_due(store, request)
        if response[0].turns and not lost:
            lost += 1
            raise NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the answer to the commit was lost")
        return response

    forgetful = Forgetful()
    async with open_suite("in_process", NETACLAW_LEASE_SECONDS="1") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        monkeypatch.setattr(journal_service, "begin_turn", forgetful)
        monkeypatch.setattr(Leases, "claim_due", unheard)
        request = ExecuteChatRequest(session_id=session_id, content="count the files")
        done = await client.chat.ExecuteChat(request, timeout=20)
    assert lost == 1
    assert done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert "4 files" in done.final_content


async def test_a_turn_that_its_beginner_never_hears_of_is_looked_for_until_it_is_found(
    open_suite: OpenSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away for so long that the message is given up; then the instance is alive, and knows of nothing."""
    soon = SQL["unheard_turns"].replace("'1 minute'", "'2 seconds'")
    assert soon != SQL["unheard_turns"]
    unanswered: list[str] = []

    async def never_answered(database: Any, request: Any) -> BeginTurnResponse:
        response = await begin_turn(database, request)
        if not unanswered:
            unanswered.append(request.turn_id)
            raise NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, "the answer to the commit was lost")
        return response

    monkeypatch.setattr(leases, "SQL", {**SQL, "unheard_turns": soon})
    monkeypatch.setattr(journal, "RETRY_DELAYS_S", ())  # it is given up at once
    settings = {"NETACLAW_LEASE_SECONDS": "1", "NETACLAW_LOG_LEVEL": "ERROR"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        monkeypatch.setattr(journal_service, "begin_turn", never_answered)
        async with followers(session_id, suite) as (follower,):
            call = client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count the files"))
            await asyncio.wait([asyncio.ensure_future(call)])
            await follower.until_kind("done")
        [page] = await suite.tree(client, session_id)
    assert "4 files" in page.entries[-1].assistant.parts[-1].text.text


async def test_a_message_that_meets_a_late_heartbeat_waits_for_it(open_suite: OpenSuite, postgres_url: str) -> None:
    async with open_suite("in_process", NETACLAW_LEASE_SECONDS="2") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("UPDATE instance SET expire_time = now() - interval '1 s'")
        await connection.close()
        done = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count"), timeout=20)
    assert done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
