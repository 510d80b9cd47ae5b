"""How many turns an owner may have running, and how many children a turn, a session and an owner, through the suite."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from tests.fakes.openai_server import FakeOpenAI, Reply, Text, Wait
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_tools_shell import Request, delegate, follow, main_calls, results_of

QUEUED = SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED
RUNNING = SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING


class Gate:
    """Children that wait until they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.opened = asyncio.Event()

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request["messages"][1]["content"].removeprefix("Goal:\n"))
        return Reply([Wait(self.opened), Text("done")])


async def test_a_turn_that_asks_for_too_many_subagents_is_told_and_goes_on(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    main = [Reply([delegate("a", "b")]), Reply([delegate("c", "d")]), Reply([delegate("e")]), Reply([Text("done")])]
    main += [Reply([delegate("f", "g", "h")]), Reply([Text("done")])]
    model_server.rule = follow(main, lambda _: Reply([Text("ok")]))
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_PER_TURN": "3"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        calls = await main_calls(suite, client, session_id)
        rows = await suite.rows("subagent_session", "goal")
        again = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))

    assert answer.outcome == again.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert sorted(row["goal"] for row in rows) == ["a", "b", "e"]
    assert [task.goal for task in again.subagent_batches[0].items] == ["f", "g", "h"]  # the next turn counts anew
    assert [call.state for call in calls] == [
        ToolCallState.TOOL_CALL_STATE_COMPLETED,
        ToolCallState.TOOL_CALL_STATE_FAILED,
        ToolCallState.TOOL_CALL_STATE_COMPLETED,
    ]
    told = results_of(model_server.requests[-1].body)[1]
    assert told.startswith("Error: max_subagents_per_turn is reached: a turn may start 3 subagents")
    assert "this one has started 2, and 2 more were asked for" in told


async def test_a_batch_that_is_too_large_costs_the_turn_none_of_its_subagents(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = [f"{number} " + "x" * 8000 for number in range(64)]  # twice, with their call: more than one message holds
    main = [Reply([delegate(*goals)]), Reply([delegate("a", "b")]), Reply([Text("done")])]
    model_server.rule = follow(main, lambda _: Reply([Text("ok")]))
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_PER_TURN": "64"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        calls = await main_calls(suite, client, session_id)
        rows = await suite.rows("subagent_session", "goal")

    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert "give less context, or fewer tasks" in calls[0].result.content
    assert [call.state for call in calls] == [
        ToolCallState.TOOL_CALL_STATE_FAILED,
        ToolCallState.TOOL_CALL_STATE_COMPLETED,
    ]
    assert [row["goal"] for row in rows] == ["a", "b"]


async def test_delegations_of_one_message_share_the_turns_places(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    gate = Gate()
    model_server.rule = follow([Reply([delegate("a", "b"), delegate("c", "d")]), Reply([Text("done")])], gate)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_CONCURRENT": "3"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        seen = await until(events, "subagent_event", 3)
        rows = await suite.rows("subagent_session", "goal")
        gate.opened.set()
        seen += await until(events, "done")

    states = sorted(row["status"] for row in rows)
    assert states == ["queued", "running", "running", "running"]
    counts = [event.subagent_event.counts for event in of_kind(seen, "subagent_event")]
    assert max(count.running for count in counts) <= 2  # of each batch
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED


@pytest.mark.parametrize(
    ("setting", "second_waits"),
    [("NETACLAW_RUNNER_MAX_PER_OWNER", True), ("NETACLAW_RUNNER_MAX_PER_SESSION", False)],
)
async def test_an_owners_children_wait_for_each_other_whichever_orchestrator_asks(
    setting: str, second_waits: bool, pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    gate = Gate()
    model_server.rule = follow([Reply([delegate("a", "b")]), Reply([Text("done")])], gate)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, setting: "2"}
    async with (
        pair_of(first_as_process=False, **settings) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        first = chat(client, ChatRequest(session_id=await pair.one.suite.new_session(client), content="go"))
        await until(first, "subagent_event", 2)
        second = chat(other, ChatRequest(session_id=await pair.two.suite.new_session(other), content="go"))
        begun = await until(second, "subagent_run_started")
        if not second_waits:
            await until(second, "subagent_event", 2)
        rows = await pair.one.suite.rows("subagent_session", "session_id")
        gate.opened.set()
        ended = [await until(first, "done"), begun + await until(second, "done")]

    waiting = ["queued"] * 2 if second_waits else ["running"] * 2
    assert [row["status"] for row in rows] == ["running"] * 2 + waiting
    assert [seen[-1].done.outcome for seen in ended] == [TurnOutcome.TURN_OUTCOME_COMPLETED] * 2
    for event in of_kind(ended[1], "subagent_run_started"):
        assert [item.state for item in event.subagent_run_started.batch.items] == [QUEUED] * 2
    assert len(gate.asked) == 4


async def test_an_owners_running_turns_are_counted_until_they_end(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    gate = asyncio.Event()
    model_server.rule = lambda request: Reply([Wait(gate), Text("done")])
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_TURNS_PER_OWNER": "1"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        held = chat(client, ChatRequest(content="one"))
        await until(held, "session_leaf_changed")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await until(chat(client, ChatRequest(content="another at once")), "done")
        gate.set()
        await until(held, "done")
        after = await until(chat(client, ChatRequest(content="another, then")), "done")

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert after[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
