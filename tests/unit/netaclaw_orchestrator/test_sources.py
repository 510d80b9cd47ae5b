"""Who runs a task: preset, clone, and presets that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent, NameList, SubagentConfig, ThinkingLevel
from netaclaw.session.v1.subagent_pb2 import SubagentSource, SubagentTask
from netaclaw.tool.v1.tool_pb2 import ToolRoute
from netaclaw_agent.guidance import SUBAGENT_GUIDANCE
from netaclaw_agent.loop import user_message
from netaclaw_agent.policy import Scene, main_policy
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import parse_delegation
from netaclaw_orchestrator.delegation.sources import Earlier, Parent, enabled_tools, plan_children

SETTINGS = SubagentSettings()
READER = Agent(agent_id="reader", name="Reader", published=True, system_prompt="Read.", model="small", read_only=True)
DRAFT = Agent(agent_id="draft", name="Draft", published=False)

TASK_ID = "0193a1b2-0000-7000-8000-000000000001"


def parent(config: SubagentConfig | None = None, **fields: object) -> Parent:
    agent = Agent(agent_id="boss", name="Boss", system_prompt="Ask the user.", model="big", published=True)
    for name, value in fields.items():
        setattr(agent, name, value)
    if config is not None:
        agent.subagent_config.CopyFrom(config)
    policy = main_policy(agent, scene=Scene.SUPERVISOR, workspace="w", settings=SETTINGS)
    return Parent(agent, policy, [agent, READER, DRAFT], effective_subagent_config(agent, SETTINGS), SETTINGS)


def test_a_task_without_an_agent_is_a_clone_with_the_guidance_last() -> None:
    (plan,) = plan_children(parse_delegation("delegate_task", '{"goal": "look"}'), parent(), {})
    assert plan.source == SubagentSource.SUBAGENT_SOURCE_CLONE
    assert plan.preset_agent_id == ""
    assert plan.agent.model == "big"
    assert plan.agent.system_prompt.startswith("Ask the user.")
    assert plan.agent.system_prompt.endswith(SUBAGENT_GUIDANCE.strip())


def test_a_task_with_an_agent_is_that_preset_with_its_own_rights() -> None:
    (plan,) = plan_children(parse_delegation("delegate_task", '{"goal": "look", "agentId": "reader"}'), parent(), {})
    assert plan.source == SubagentSource.SUBAGENT_SOURCE_PRESET
    assert (plan.preset_agent_id, plan.agent.model) == ("reader", "small")
    assert "write_file" not in enabled_tools(plan.policy)


def test_a_clone_thinks_as_hard_as_the_session_and_a_preset_as_it_is_told() -> None:
    specs = parse_delegation("delegate_parallel", '{"tasks": [{"goal": "a"}, {"goal": "b", "agentId": "reader"}]}')
    high = replace(parent(), thinking_level=ThinkingLevel.THINKING_LEVEL_HIGH)
    clone, preset = plan_children(specs, high, {})
    assert clone.agent.thinking_level == ThinkingLevel.THINKING_LEVEL_HIGH
    assert preset.agent.thinking_level == READER.thinking_level


def test_a_preset_may_be_named_by_its_name() -> None:
    (plan,) = plan_children(parse_delegation("delegate_task", '{"goal": "look", "agentId": "Reader"}'), parent(), {})
    assert plan.preset_agent_id == "reader"


@pytest.mark.parametrize("agent_id", ["draft", "nobody", "boss"])
def test_an_unpublished_unknown_or_own_preset_is_refused_in_words(agent_id: str) -> None:
    specs = parse_delegation("delegate_task", f'{{"goal": "look", "agentId": "{agent_id}"}}')
    with pytest.raises(ToolError, match=r"task 1: .* not published or not allowed.*reader \(Reader\)"):
        plan_children(specs, parent(), {})


def test_a_preset_outside_the_allowed_ones_is_refused() -> None:
    config = SubagentConfig(allowed_preset_agent_ids=NameList())
    specs = parse_delegation("delegate_parallel", '{"tasks": [{"goal": "a"}, {"goal": "b", "agentId": "reader"}]}')
    with pytest.raises(ToolError, match=r"task 2: .*allowed: none"):
        plan_children(specs, parent(config), {})


def test_no_child_can_delegate() -> None:
    (plan,) = plan_children(parse_delegation("delegate_task", '{"goal": "look"}'), parent(), {})
    routes = {route.tool_name: route for route in plan.policy.routes}
    for name in ("delegate_task", "delegate_parallel", "read_result"):
        assert routes[name].route == ToolRoute.TOOL_ROUTE_DISABLED


def test_tool_rounds_are_never_more_than_the_agent_allows() -> None:
    config = SubagentConfig(max_tool_rounds=5)
    specs = parse_delegation(
        "delegate_parallel", '{"tasks": [{"goal": "a", "maxToolRounds": 3}, {"goal": "b", "maxToolRounds": 99}]}'
    )
    assert [plan.max_tool_rounds for plan in plan_children(specs, parent(config), {})] == [3, 5]


def test_a_task_that_goes_on_keeps_its_agent_and_its_conversation() -> None:
    earlier = Earlier(SubagentTask(task_id=TASK_ID, preset_agent_id="reader"), [user_message("look")])
    specs = parse_delegation("delegate_task", f'{{"goal": "and now?", "resumeTaskId": "{TASK_ID}"}}')
    (plan,) = plan_children(specs, parent(), {TASK_ID: earlier})
    assert (plan.preset_agent_id, plan.agent.model) == ("reader", "small")
    assert plan.history == [user_message("look")]


def test_a_task_of_a_preset_that_is_allowed_no_more_cannot_be_gone_on_with() -> None:
    earlier = Earlier(SubagentTask(task_id=TASK_ID, preset_agent_id="reader"), [])
    config = SubagentConfig(allowed_preset_agent_ids=NameList())
    specs = parse_delegation("delegate_task", f'{{"goal": "and now?", "resumeTaskId": "{TASK_ID}"}}')
    with pytest.raises(ToolError, match="'reader' is not published or not allowed"):
        plan_children(specs, parent(config), {TASK_ID: earlier})
