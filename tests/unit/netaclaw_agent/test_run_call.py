"""Running calls: policy where the tool runs, honest states, bounded and clean results."""

from __future__ import annotations

import logging

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolCallState, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolPolicy, ToolRoute
from netaclaw_agent.loop import drive
from netaclaw_agent.policy import Scene, child_policy, main_policy, resolve, run_call
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tool import Handler, ToolBox, ToolError

SETTINGS = SubagentSettings()


def main(agent: Agent) -> ToolPolicy:
    return main_policy(agent, scene=Scene.SUPERVISOR, workspace="home", settings=SETTINGS)


def child(requested: list[str] | None = None) -> ToolPolicy:
    config = effective_subagent_config(Agent(), SETTINGS)
    return child_policy(main(Agent()), Agent(), config=config, requested=requested, settings=SETTINGS)


def box_with(handler: Handler, policy: ToolPolicy | None = None) -> ToolBox:
    return resolve(policy or child(), lambda manifest, route: handler)


async def works(call: ToolCallPart) -> ToolResult:
    return ToolResult(content=f"ran {call.tool_name}")


def run(box: ToolBox, name: str, arguments: str = "{}") -> ToolCallPart:
    return drive(run_call(box, ToolCallPart(call_id="c1", tool_name=name, arguments_json=arguments)))


def test_a_refused_call_says_why_and_carries_its_route() -> None:
    box = box_with(works, main(Agent(read_only=True)))
    ended = run(box, "write_file")
    assert ended.state == ToolCallState.TOOL_CALL_STATE_REFUSED
    assert ended.result.is_error
    assert ended.result.content == "write_file was refused: Nothing may be written: the agent is read-only."
    assert ended.route.route == ToolRoute.TOOL_ROUTE_DISABLED


def test_an_unknown_tool_is_refused_with_the_names_there_are() -> None:
    box = box_with(works, child(["read_file"]))
    ended = run(box, "fly")
    assert ended.state == ToolCallState.TOOL_CALL_STATE_REFUSED
    assert ended.result.content == "there is no tool 'fly'; available tools: read_file"
    assert ended.route.route == ToolRoute.TOOL_ROUTE_DISABLED


def test_a_call_that_works_is_completed_and_the_given_one_untouched() -> None:
    call = ToolCallPart(call_id="c1", tool_name="read_file", arguments_json='{"b":1,"a":2,"b":3}')
    before = call.SerializeToString()
    ended = drive(run_call(box_with(works), call))
    assert (ended.state, ended.result.content) == (ToolCallState.TOOL_CALL_STATE_COMPLETED, "ran read_file")
    assert ended.route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL
    assert ended.arguments_json == call.arguments_json
    assert call.SerializeToString() == before
    assert not ended.HasField("start_time")
    assert not ended.HasField("end_time")


def test_an_empty_result_is_still_a_result() -> None:
    async def silent(call: ToolCallPart) -> ToolResult:
        return ToolResult()

    assert run(box_with(silent), "read_file").HasField("result")


def test_a_tool_error_is_what_the_model_reads() -> None:
    async def fails(call: ToolCallPart) -> ToolResult:
        raise ToolError("no such file \ud800")

    ended = run(box_with(fails), "read_file")
    assert (ended.state, ended.result.is_error) == (ToolCallState.TOOL_CALL_STATE_FAILED, True)
    assert ended.result.content == "no such file \ufffd"


def test_an_error_result_is_failed_without_being_changed() -> None:
    async def fails(call: ToolCallPart) -> ToolResult:
        return ToolResult(content="exit 1", is_error=True)

    ended = run(box_with(fails), "read_file")
    assert (ended.state, ended.result.content) == (ToolCallState.TOOL_CALL_STATE_FAILED, "exit 1")


async def breaks(call: ToolCallPart) -> ToolResult:
    raise ValueError(f"canary {call.arguments_json}")


def test_a_fault_of_ours_is_masked_and_logged_without_content(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        ended = run(box_with(breaks), "read_file", '{"path": "canary"}')
    assert ended.state == ToolCallState.TOOL_CALL_STATE_FAILED
    assert ended.result.content == "internal error in this tool"
    assert "ValueError at " in caplog.text
    assert "canary" not in caplog.text


def test_a_caller_can_take_faults_itself() -> None:
    faults: list[Exception] = []
    call = ToolCallPart(tool_name="read_file")
    drive(run_call(box_with(breaks), call, on_fault=lambda _, error: faults.append(error)))
    assert [type(fault) for fault in faults] == [ValueError]


def test_a_long_result_keeps_head_and_tail_and_says_what_is_gone() -> None:
    async def long(call: ToolCallPart) -> ToolResult:
        return ToolResult(content="head " + "查" * 100_000 + " # 7 files")

    content = run(box_with(long), "read_file").result.content
    assert len(content.encode()) <= 64 * 1024
    assert content.startswith("head 查")
    assert content.endswith("查 # 7 files")
    assert "of 300015 bytes cut here" in content
    assert "\ufffd" not in content
