"""Calls that a person must agree to: the main agent's and its subagents', answered or not, across restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from netaclaw.agent.v1.agent_pb2 import SubagentConfig
from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry, ToolCallState
from netaclaw.session.v1.session_command_service_pb2 import ForkSessionRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.tool.v1.tool_pb2 import ToolApproval
from netaclaw.tool.v1.tool_service_pb2 import GetToolProfileRequest
from netaclaw_client.client import Client
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.followers import Follower, check_whole, followers
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite, RunningSuite
from tests.scenarios.test_clarify import answer, answered_in_time, attention, refused
from tests.scenarios.test_tools_shell import main_calls, session_of

ASK = ToolApproval.TOOL_APPROVAL_ASK
WRITE = json.dumps({"path": "made.txt", "content": "made\n"})
WAITING, COMPLETED, REFUSED, CANCELLED = (
    ToolCallState.TOOL_CALL_STATE_WAITING,
    ToolCallState.TOOL_CALL_STATE_COMPLETED,
    ToolCallState.TOOL_CALL_STATE_REFUSED,
    ToolCallState.TOOL_CALL_STATE_CANCELLED,
)
WRITES = json.dumps({"call": "write_file", **json.loads(WRITE)})


def writer(tool: str = "write_file", arguments: str = WRITE) -> Goals:
    """A model whose main agent and whose child "write" call a tool once."""
    return Goals({"write": [Reply([Call(tool, arguments)]), Reply([Text("child is done")])]})


def questions(view: SessionView) -> list[Entry]:
    """Oldest first."""
    entries = sorted(view.entries.values(), key=lambda entry: entry.entry_id)
    return [entry for entry in entries if entry.HasField("clarify")]


def waiting(view: SessionView) -> list[str]:
    """Ids of the open questions."""
    opened = (entry for entry in questions(view) if entry.clarify.state == ClarifyState.CLARIFY_STATE_OPEN)
    return [entry.clarify.request_id for entry in opened]


def made(suite: RunningSuite) -> bool:
    return (suite.workspace / "made.txt").exists()


@asynccontextmanager
async def asked(
    suite: RunningSuite, client: Client, session_id: str, content: str
) -> AsyncIterator[tuple[Follower, str]]:
    """A follower, and the approval that is open."""
    async with followers(session_id, suite) as (follower,):
        turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content=content)), "done"))
        await follower.until(lambda: waiting(follower.view))
        try:
            yield follower, waiting(follower.view)[-1]
        finally:
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)


@pytest.mark.parametrize(("given", "runs"), [("allow", True), ("deny", False)])
async def test_a_call_waits_until_a_person_has_agreed(
    given: str, runs: bool, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = writer()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, approvals={"write_file": ASK})
        async with asked(suite, client, session_id, WRITES) as (follower, request_id):
            body = questions(follower.view)[0].clarify
            assert (body.agent_name, body.task_id, body.question) == ("worker", "", "May worker run write_file?")
            assert (body.approval.tool_name, json.loads(body.approval.arguments_json)) == (
                "write_file",
                json.loads(WRITE),
            )
            [call] = await main_calls(suite, client, session_id)
            assert (call.state, call.route.approval, call.HasField("start_time")) == (WAITING, ASK, False)
            assert call.call_id == body.approval.call_id
            assert await attention(client, session_id)
            assert not made(suite)
            assert (
                "answer: must be one of allow, deny, always"
                in (await refused(client, session_id, request_id, "yes"))[2]
            )
            await answer(client, session_id, request_id, given)
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            kinds = [event.WhichOneof("event") for event in follower.durable]
        [call] = await main_calls(suite, client, session_id)
        assert made(suite) == runs
    assert call.state == (COMPLETED if runs else REFUSED)
    steps = ["tool_call_started", "clarify_request", "clarify_resolved", "tool_call_completed"]
    assert [kind for kind in kinds if kind in steps] == steps
    told = goals.main_requests[-1]["messages"][-1]["content"]
    if not runs:
        assert told == "Error: write_file was refused: a person was asked and denied it"


async def test_silence_denies(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    goals = model_server.rule = writer()
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_APPROVAL_TIMEOUT_SECONDS": "1"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await session_of(suite, client, approvals={"write_file": ASK})
        async with asked(suite, client, session_id, WRITES) as (follower, request_id):
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            assert (await refused(client, session_id, request_id, "allow"))[1] == "EXPIRED"
        [call] = await main_calls(suite, client, session_id)
        assert not made(suite)
    assert call.state == REFUSED
    told = goals.main_requests[-1]["messages"][-1]["content"]
    words = "a person was asked and did not answer in time, which counts as a denial"
    assert told == f"Error: write_file was refused: {words}"


async def test_a_call_whose_turn_is_cancelled_before_the_answer_never_began(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = writer()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, approvals={"write_file": ASK})
        async with asked(suite, client, session_id, WRITES) as (follower, request_id):
            await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            assert (await refused(client, session_id, request_id, "allow"))[1] == "CLOSED"
        [call] = await main_calls(suite, client, session_id)
        assert not made(suite)
    assert call.state == CANCELLED
    assert call.result.content == "never began: it waited for a person's approval when the turn was stopped"


async def test_always_holds_for_the_session_and_its_next_owner_and_not_for_a_copy(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    model_server.rule = writer()
    async with (
        pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        suite = pair.two.suite
        session_id = await session_of(pair.one.suite, client, approvals={"write_file": ASK, "edit_file": ASK})
        async with asked(pair.one.suite, client, session_id, WRITES) as (follower, request_id):
            await answer(client, session_id, request_id, "always")
            await follower.until_kind("done")
            again = ExecuteChatRequest(session_id=session_id, content=WRITES)
            await client.chat.ExecuteChat(again)
            await client.chat.ExecuteChat(
                ExecuteChatRequest(session_id=session_id, content=tasks("write", mode="clone"))
            )
        await pair.one.kill()
        async with followers(session_id, suite) as (follower,):
            await follower.until_kind("done", 3)
            await until(chat(other, ChatRequest(session_id=session_id, content=WRITES)), "done")
            await follower.until_kind("done", 4)
            assert len(questions(follower.view)) == 1
            assert [call.state for call in await main_calls(suite, other, session_id)] == [COMPLETED] * 4
        edits = json.dumps({"call": "edit_file", "path": "made.txt", "old_text": "made", "new_text": "mended"})
        async with asked(suite, other, session_id, edits) as (_, request_id):  # another tool is asked about
            await answer(other, session_id, request_id, "deny")
        forked = (await other.commands.ForkSession(ForkSessionRequest(session_id=session_id))).session
        async with asked(suite, other, forked.session_id, WRITES) as (follower, request_id):
            await answer(other, forked.session_id, request_id, "deny")
            await follower.until_kind("done")


async def test_a_childs_call_waits_with_its_clocks_stopped_and_silence_denies_it(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = writer()
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_APPROVAL_TIMEOUT_SECONDS": "4"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await session_of(
            suite, client, approvals={"write_file": ASK}, subagent_config=SubagentConfig(timeout_seconds=3)
        )
        content = tasks("write", mode="clone")
        async with asked(suite, client, session_id, content) as (follower, _):
            body = questions(follower.view)[0].clarify
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
        [completed] = of_kind(follower.events, "subagent_run_completed")
        [task] = completed.subagent_run_completed.batch.items
        assert not made(suite)
    assert (body.task_id, body.approval.tool_name) == (task.task_id, "write_file")
    assert (task.state, task.summary) == (SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED, "child is done")
    told = goals.child_requests["write"][-1]["messages"][-1]["content"]
    words = "a person was asked and did not answer in time, which counts as a denial"
    assert told == f"Error: write_file was refused: {words}"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("write_file", WRITE), ("run_shell", json.dumps({"command": "echo made | tee made.txt"}))],
)
async def test_a_childs_call_runs_once_it_is_allowed(
    tool: str, arguments: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = writer(tool, arguments)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, shell_enabled=True, approvals={tool: ASK})
        async with asked(suite, client, session_id, tasks("write", mode="clone")) as (follower, request_id):
            assert not made(suite)
            await answer(client, session_id, request_id, "allow")
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
        assert made(suite)
    [question] = questions(follower.view)
    shown = of_kind(follower.events, "tool_result_streamed")
    assert {event.task_id for event in shown} <= {question.clarify.task_id}
    said = "".join(event.tool_result_streamed.text for event in shown)
    assert said == ("made\n" if tool == "run_shell" else ""), "a command's output is shown while it runs"


async def test_one_always_answers_all_alike_that_wait(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = writer()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, approvals={"write_file": ASK})
        content = tasks("write", "write", mode="clone")
        async with asked(suite, client, session_id, content) as (follower, _):
            await follower.until_kind("clarify_request", 2)
            first, second = questions(follower.view)
            await answer(client, session_id, second.clarify.request_id, "always")
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            ended = [entry.clarify.answer for entry in questions(follower.view)]
    assert ended == ["allow", "always"]
    assert first.clarify.state == ClarifyState.CLARIFY_STATE_OPEN


@pytest.mark.parametrize("who", ["main", "child"])
@pytest.mark.parametrize(("given", "runs"), [("allow", True), ("deny", False)])
async def test_an_approval_waits_on_under_the_next_owner(
    who: str, given: str, runs: bool, pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    model_server.rule = writer()
    async with (
        pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        suite = pair.two.suite
        session_id = await session_of(pair.one.suite, client, approvals={"write_file": ASK})
        content = WRITES if who == "main" else tasks("write", mode="clone")
        async with (
            asked(pair.one.suite, client, session_id, content) as (_, request_id),
            followers(session_id, suite) as (follower,),
        ):
            await pair.one.kill()
            await answered_in_time(other, session_id, request_id, given)
            await follower.until_kind("done")
            await check_whole(suite, other, follower)
            [question] = questions(follower.view)
        [call] = await main_calls(suite, other, session_id)
        assert made(suite) == runs
        rows = await suite.rows("subagent_session", "sort_order")
    assert question.clarify.answer == given
    assert call.state == (COMPLETED if runs or who == "child" else REFUSED)
    assert [row["status"] for row in rows] == ([] if who == "main" else ["completed"])


async def test_the_tools_page_says_what_is_asked_about(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await session_of(suite, client, approvals={"write_file": ASK})
        found = await client.sessions.GetSession(GetSessionRequest(session_id=session_id))
        agent_id = found.session.agent_id
        profile = (await client.tools.GetToolProfile(GetToolProfileRequest(agent_id=agent_id))).profile
    [item] = [item for item in profile.items if item.manifest.tool_name == "write_file"]
    assert item.main_route.approval == item.subagent_route.approval == ASK
    [said] = [each for each in profile.diagnostics if each.tool_name == "write_file"]
    assert said.message == "Runs on the main side. A person must agree to each call."
    assert said.fix == 'answer "always" in a session, or change agent.approvals'
