"""What children may spend, each and together, as the operator sets it: ended by name, with what they had said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from tests.fakes.openai_server import Call, FakeOpenAI, Hang, Reply, Text, Tokens
from tests.scenarios.reading import state_name
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_tools_shell import Request, delegate, follow, results_of


def walks(request: Request) -> Reply:
    """A child that goes on for ever, for 50 tokens a step, and says how far it is."""
    step = len(results_of(request)) + 1
    return Reply([Text(f"step {step}"), Call("list_files", "{}"), Tokens(prompt=40, completion=10)])


def hangs(_request: Request) -> Reply:
    return Reply([Text("so far"), Hang()])


async def tasks_of(open_suite: OpenSuite, model: FakeOpenAI, **settings: str) -> Sequence[SubagentTask]:
    """Delegate these goals under such settings, one child at a time."""
    common = {"NETACLAW_OPENAI_BASE_URL": model.base_url, "NETACLAW_SUBAGENT_MAX_CONCURRENT": "1"}
    async with open_suite("in_process", **common, **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    return answer.subagent_batches[0].items


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("MAX_TOOL_CALLS", "2", "stopped after 2 tool calls"),
        ("MAX_TOKENS", "120", "stopped after 150 tokens"),
        ("MAX_TOOL_ROUNDS", "3", "stopped after 3 model calls"),
    ],
)
async def test_a_child_that_spends_without_end_is_partial_with_its_text(
    setting: str, value: str, error: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = follow([Reply([delegate("walk")]), Reply([Text("done")])], walks)
    [task] = await tasks_of(open_suite, model_server, **{f"NETACLAW_SUBAGENT_{setting}": value})

    assert (state_name(task), task.error) == ("PARTIAL", error)
    assert task.partial_text == "step 3"
    warned = [message["content"] for message in model_server.requests[-2].body["messages"] if message["role"] == "user"]
    assert "Sum up now" in warned[-1]


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("STALL_SECONDS", "it made no progress for 1 s"),
        ("TIMEOUT_SECONDS", "it did not end within 1 s"),
        ("BATCH_TIMEOUT_SECONDS", "it did not end within 1 s"),
    ],
)
async def test_a_child_that_hangs_is_timed_out_with_its_text(
    setting: str, error: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = follow([Reply([delegate("hang", "hang too")]), Reply([Text("done")])], hangs)
    settings = {f"NETACLAW_SUBAGENT_{setting}": "1"}
    first, second = await tasks_of(open_suite, model_server, **settings)

    assert (state_name(first), first.error, first.partial_text) == ("TIMED_OUT", error, "so far")
    if setting == "BATCH_TIMEOUT_SECONDS":
        error = "batch_timeout_seconds is reached: 1; it was not begun"
    assert (state_name(second), second.error) == ("TIMED_OUT", error)


async def test_tokens_of_a_batch_are_for_all_its_children(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = follow([Reply([delegate("a", "b", "c")]), Reply([Text("done")])], walks)
    setting = {"NETACLAW_SUBAGENT_BATCH_MAX_TOKENS": "90"}
    tasks = await tasks_of(open_suite, model_server, **setting)

    assert [state_name(task) for task in tasks] == ["PARTIAL", "PARTIAL", "FAILED"]
    assert [task.usage.input_tokens + task.usage.output_tokens for task in tasks] == [50, 50, 0]
    assert tasks[2].error == "batch_max_tokens is reached: 90; it was not begun"
