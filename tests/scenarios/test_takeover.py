"""A service is killed in the middle of a turn: the turn goes on or ends truly, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent, TurnOutcome
from netaclaw_client.client import Client
from netaclaw_client.comparison import equal
from netaclaw_client.follow import follow, run_turn
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import FakeOpenAI, Reply, ScriptedRule, Text, Wait
from tests.scenarios.followers import followers
from tests.scenarios.held_answers import Held
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite, RunningSuite

LEASE = {"NETACLAW_LEASE_SECONDS": "2"}
PROMPT = "in parallel: count files; search needle; find the 2 largest files"


async def followed(client: Client, view: SessionView) -> list[ChatEvent]:
    """Follow the session, across whatever happens, until its turn has ended."""
    seen: list[ChatEvent] = []
    async with asyncio.timeout(60):
        async for event in follow(client, view.session_id, view.seq):
            view.apply(event)
            seen.append(event)
            if event.WhichOneof("event") in ("done", "error"):
                return seen
    raise AssertionError("the stream ended before the turn")


async def check_whole(suite: RunningSuite, client: Client, view: SessionView) -> None:
    """The client's view equals the stored tree, and seq is dense."""
    assert equal(view, SessionView.from_tree(await suite.tree(client, view.session_id))) == []
    seqs = [event.seq for event in await suite.events(view.session_id)]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("service", ["gateway", "orchestrator", "runner", "store"])
async def test_a_delegated_turn_survives_the_death_of_any_service(service: str, open_suite: OpenSuite) -> None:
    async with open_suite("four_processes", **LEASE) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content=PROMPT))
        view = SessionView(session_id=session_id)
        for event in await until(events, "subagent_run_started"):
            view.apply(event)
        suite.kill(service)
        await events.aclose()
        seen = await followed(client, view)
        await check_whole(suite, client, view)
        rows = await suite.rows("subagent_session", "sort_order")
        turns = await suite.rows("turn", "turn_id")
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    allowed = {"completed"} if service != "runner" else {"completed", "failed"}
    assert {row["status"] for row in rows} <= allowed
    assert len(rows) == 3
    assert [turn["state"] for turn in turns] == ["ended"]


async def test_an_orchestrator_that_is_started_again_waits_for_no_lease_of_the_one_that_died(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """However long a lease is: running turns go on, and a session that was idle answers."""
    held = model_server.rule = Held()
    settings = {"NETACLAW_LEASE_SECONDS": "600", "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        idle, session_id = [await suite.new_session(client) for _ in range(2)]
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=idle, content="before"))
        async with followers(session_id, suite) as (follower,):
            events = chat(client, ChatRequest(session_id=session_id, content="wait"))
            await until(events, "assistant_stream_delta")
            await suite.restart("orchestrator")
            await events.aclose()
            said = [event async for event in run_turn(client, ChatRequest(session_id=idle, content="after"))]
            held.open.set()
            await follower.until_kind("done")
            await check_whole(suite, client, follower.view)
    assert said[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED


async def test_a_model_call_whose_owner_died_is_made_again_in_its_entry(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    asked = asyncio.Event()
    replies = [Reply([Text("half an "), Wait(asyncio.Event())]), Reply([Text("a whole answer")])]

    async def rule(request: dict[str, object]) -> Reply:
        asked.set()
        return replies.pop(0)

    model_server.rule = rule
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        view = SessionView(session_id=session_id)
        for event in await until(events, "assistant_stream_delta"):
            view.apply(event)
        suite.kill("orchestrator")
        await followed(client, view)
        await check_whole(suite, client, view)
    (assistant,) = [entry for entry in view.entries.values() if entry.HasField("assistant")]
    assert assistant.assistant.attempt == 2
    assert [part.text.text for part in assistant.assistant.parts] == ["a whole answer"]


async def test_after_two_take_overs_a_turn_ends_interrupted_with_its_text(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async def rule(request: dict[str, object]) -> Reply:
        return Reply([Text("again and again"), Wait(asyncio.Event())])

    model_server.rule = rule
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        view = SessionView(session_id=session_id)
        for event in await until(events, "assistant_stream_delta"):
            view.apply(event)
        following = asyncio.create_task(followed(client, view))
        for attempt in (1, 2, 3):
            await rows_show(suite, "entry_draft", "attempt", attempt)
            suite.kill("orchestrator")
        seen = await following
        await check_whole(suite, client, view)
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_INTERRUPTED
    (assistant,) = [entry for entry in view.entries.values() if entry.HasField("assistant")]
    assert assistant.assistant.parts[0].text.text == "again and again"


async def test_finished_children_are_kept_and_none_runs_twice(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    release = asyncio.Event()
    scripted = ScriptedRule()

    async def rule(request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        goals = [str(m["content"]) for m in messages if m["role"] == "user"]
        if "slow" in goals[0] and "parallel" not in goals[0]:
            return Reply([Wait(release), Text("slow but sure")])
        return await scripted(request)

    model_server.rule = rule
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        prompt = "in parallel: count files; slow; search needle"
        events = chat(client, ChatRequest(session_id=session_id, content=prompt))
        view = SessionView(session_id=session_id)
        ended = 0
        async for event in events:
            view.apply(event)
            ended += event.subagent_event.process_event.type == "run_end"
            if ended == 2:
                break
        suite.kill("orchestrator")
        following = asyncio.create_task(followed(client, view))
        await rows_show(suite, "turn", "takeovers", 1)
        release.set()
        seen = await following
        await check_whole(suite, client, view)
        rows = await suite.rows("subagent_session", "sort_order")
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert [row["status"] for row in rows] == ["completed"] * 3
    first_calls = [
        str(request.body["messages"][-1]["content"])
        for request in model_server.requests
        if request.body["messages"][-1]["role"] == "user"
    ]
    for goal in ("count files", "slow", "search needle"):
        assert sum(goal in call and "parallel" not in call for call in first_calls) == 1, goal


async def rows_show(suite: RunningSuite, table: str, column: str, value: int) -> None:
    """Wait until another process has written a row with this value or more."""
    async with asyncio.timeout(30):
        while max((row[column] for row in await suite.rows(table, column)), default=0) < value:  # noqa: ASYNC110  # see below
            await asyncio.sleep(0.05)  # no event of ours tells of a commit by another process
