"""Questions to a person: shown everywhere, answered once from anywhere, and never left hanging."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest, RespondClarifyRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry
from netaclaw.session.v1.session_command_service_pb2 import ForkSessionRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_client.client import Client
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.followers import Follower, check_whole, followers
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite, RunningSuite

OPEN, ANSWERED, EXPIRED, CLOSED = (
    ClarifyState.CLARIFY_STATE_OPEN,
    ClarifyState.CLARIFY_STATE_ANSWERED,
    ClarifyState.CLARIFY_STATE_EXPIRED,
    ClarifyState.CLARIFY_STATE_CLOSED,
)


def asks(**more: object) -> str:
    """A message that makes the main agent ask."""
    return json.dumps({"call": "clarify", "question": "Which roof?", "choices": ["red", "blue"], **more})


def question(view: SessionView) -> Entry:
    [entry] = [each for each in view.entries.values() if each.HasField("clarify")]
    return entry


async def answer(client: Client, session_id: str, request_id: str, text: str) -> Entry:
    request = RespondClarifyRequest(session_id=session_id, request_id=request_id, answer=text)
    return (await client.chat.RespondClarify(request)).entry


async def refused(client: Client, session_id: str, request_id: str, text: str = "late") -> tuple[int, str, str]:
    """Reason, state and words of an answer that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(client, session_id, request_id, text)
    error = from_rpc(caught.value)
    if error.reason == Reason.REASON_CLARIFY_CLOSED:
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    return error.reason, error.metadata.get("state", ""), str(error)


async def attention(client: Client, session_id: str) -> bool:
    return (await client.sessions.GetSession(GetSessionRequest(session_id=session_id))).session.needs_attention


@asynccontextmanager
async def asked(suite: RunningSuite, client: Client, content: str) -> AsyncIterator[tuple[Follower, str, str]]:
    """A follower, its session, and the question that is open in it."""
    session_id = await suite.new_session(client)
    async with followers(session_id, suite) as (follower,):
        turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content=content)), "done"))
        await follower.until_kind("clarify_request")
        try:
            yield follower, session_id, question(follower.view).clarify.request_id
        finally:
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)


def told(goals: Goals) -> str:
    """What the model has read of its last call."""
    return str(goals.main_requests[-1]["messages"][-1]["content"])


async def test_a_question_is_there_after_a_reload_and_the_first_answer_wins_in_both_tabs(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = Goals({})
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with (
        open_suite("in_process", **settings) as suite,
        suite.client() as client,
        suite.client() as other,
        asked(suite, client, asks(timeoutSeconds=600)) as (first, session_id, request_id),
        followers(session_id, suite) as (second,),
    ):
        await second.until_kind("clarify_request")
        reloaded = question(SessionView.from_tree(await suite.tree(client, session_id)))
        assert reloaded == question(first.view) == question(second.view)
        body = reloaded.clarify
        assert (body.question, list(body.choices), body.state) == ("Which roof?", ["red", "blue"], OPEN)
        assert 590 < body.expire_time.seconds - reloaded.create_time.seconds <= 601
        assert await attention(client, session_id)
        tries = [answer(client, session_id, request_id, "red"), answer(other, session_id, request_id, "the green one")]
        given = await asyncio.gather(*tries, return_exceptions=True)
        [won] = [each for each in given if isinstance(each, Entry)]
        [lost] = [each for each in given if isinstance(each, grpc.aio.AioRpcError)]
        assert from_rpc(lost).reason == Reason.REASON_CLARIFY_CLOSED
        await first.until_kind("done")
        await check_whole(suite, client, first, second)
        assert question(second.view).clarify.answer == won.clarify.answer == told(goals)
        assert question(second.view).clarify.state == ANSWERED
        assert len(of_kind(second.events, "clarify_resolved")) == 1
        assert not await attention(client, session_id)
        late = await refused(other, session_id, request_id)
        assert late == (Reason.REASON_CLARIFY_CLOSED, "ANSWERED", "the question was answered already")


async def test_an_expired_question_says_so_and_leaves_the_input_free(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        asked(suite, client, asks(timeoutSeconds=1)) as (follower, session_id, request_id),
    ):
        await follower.until_kind("done")
        assert question(follower.view).clarify.state == EXPIRED
        assert told(goals).startswith("Nobody answered in time.")
        late = await refused(client, session_id, request_id)
        assert late == (Reason.REASON_CLARIFY_CLOSED, "EXPIRED", "the question has expired")
        assert not await attention(client, session_id)
        again = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="and now"))
        assert again.final_content == "you said and now"
        await check_whole(suite, client, follower)


async def test_a_question_is_closed_with_its_turn(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        asked(suite, client, asks()) as (follower, session_id, request_id),
    ):
        forked = (await client.commands.ForkSession(ForkSessionRequest(session_id=session_id))).session
        await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
        await follower.until_kind("done")
        assert question(follower.view).clarify.state == CLOSED
        late = await refused(client, session_id, request_id)
        assert late == (Reason.REASON_CLARIFY_CLOSED, "CLOSED", "the question was closed when its turn ended")
        assert not await attention(client, session_id)
        await check_whole(suite, client, follower)
        copied = question(SessionView.from_tree(await suite.tree(client, forked.session_id)))
        assert copied.clarify.state == CLOSED
        assert (await refused(client, forked.session_id, copied.clarify.request_id))[1] == "CLOSED"
        unknown = await refused(client, session_id, "never asked")
        assert unknown[0] == Reason.REASON_ENTRY_NOT_FOUND


async def test_a_question_is_answered_through_another_instance(pair_of: OpenPair, model_server: FakeOpenAI) -> None:
    goals = model_server.rule = Goals({})
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
        asked(pair.one.suite, client, asks()) as (follower, session_id, request_id),
    ):
        assert await pair.one.owner_of(session_id) == "one"
        assert (await answer(other, session_id, request_id, "blue")).clarify.state == ANSWERED
        await follower.until_kind("done")
        assert (await refused(other, session_id, request_id))[1] == "ANSWERED"
        assert told(goals) == "blue"


@pytest.mark.parametrize("way", ["answered", "expired"])
async def test_a_question_waits_on_under_the_next_owner(way: str, pair_of: OpenPair, model_server: FakeOpenAI) -> None:
    goals = model_server.rule = Goals({})
    limit = {"timeoutSeconds": 4} if way == "expired" else {}
    async with (
        pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
        asked(pair.one.suite, client, asks(**limit)) as (_, session_id, request_id),
        followers(session_id, pair.two.suite) as (follower,),
    ):
        await pair.one.kill()
        if way == "answered":
            await answered_in_time(other, session_id, request_id)
        await follower.until_kind("done")
        await check_whole(pair.two.suite, other, follower)
        assert question(follower.view).clarify.state == (ANSWERED if way == "answered" else EXPIRED)
        assert [each.done.outcome for each in of_kind(follower.events, "done")] == [TurnOutcome.TURN_OUTCOME_COMPLETED]
        assert told(goals) == "blue" if way == "answered" else told(goals).startswith("Nobody answered")
        assert (await refused(other, session_id, request_id))[1] == way.upper()


async def answered_in_time(client: Client, session_id: str, request_id: str, text: str = "blue") -> None:
    """Answer as soon as there is an owner again."""
    async with asyncio.timeout(20):
        while True:
            try:
                await answer(client, session_id, request_id, text)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.05)  # between the polls of a bounded wait
            else:
                return


async def test_a_subagent_that_asks_reads_at_once_that_it_cannot(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    child = [Reply([Call("clarify", '{"question": "May I?"}')]), Reply([Text("without asking")])]
    goals = model_server.rule = Goals({"ask": child})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=tasks("ask")))
        view = SessionView.from_tree(await suite.tree(client, session_id))
    answered = goals.child_requests["ask"][1]["messages"][-1]["content"]
    words = "A subagent cannot ask the person: do what can be done without an answer."
    assert answered == f"Error: clarify was refused: {words}"
    assert not [entry for entry in view.entries.values() if entry.HasField("clarify")]


async def test_an_answer_that_is_none_is_refused_in_words(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        asked(suite, client, asks()) as (follower, session_id, request_id),
    ):
        assert "answer: must not be empty" in (await refused(client, session_id, request_id, " "))[2]
        assert "at most 32768 are allowed" in (await refused(client, session_id, request_id, "x" * 32769))[2]
        assert question(follower.view).clarify.state == OPEN
        await answer(client, session_id, request_id, "red")
        await follower.until_kind("done")
