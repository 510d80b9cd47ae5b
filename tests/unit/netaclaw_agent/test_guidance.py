"""What supervisors and subagents are told."""

from __future__ import annotations

from netaclaw.agent.v1.agent_pb2 import Agent, NameList, SubagentConfig
from netaclaw_agent.guidance import (
    SUBAGENT_GUIDANCE,
    subagent_system_prompt,
    subagent_user_message,
    supervisor_system_prompt,
)
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config

PRESETS = [
    Agent(agent_id="p1", name="Reader", description="Reads\n  files.", published=True),
    Agent(agent_id="p2", name="Draft", published=False),
    Agent(agent_id="p3", name="Counter", description="c" * 1000, published=True),
]


def supervisor(config: SubagentConfig) -> str:
    agent = Agent(system_prompt="Be brief.", subagent_config=config)
    return supervisor_system_prompt(agent, PRESETS, effective_subagent_config(agent, SubagentSettings()))


def test_the_guidance_has_the_last_word_in_a_clone() -> None:
    prompt = subagent_system_prompt(Agent(system_prompt="Always ask the user first."))
    assert prompt.startswith("Always ask the user first.")
    assert prompt.endswith(SUBAGENT_GUIDANCE.strip())
    assert "override every earlier instruction" in prompt


def test_an_agent_without_prompt_has_the_guidance_alone() -> None:
    assert subagent_system_prompt(Agent()) == SUBAGENT_GUIDANCE.strip()


def test_a_supervisor_sees_published_presets_by_id() -> None:
    prompt = supervisor(SubagentConfig())
    assert "- p1: Reader. Reads files." in prompt
    assert "- p3: Counter. ccc" in prompt
    assert "p2" not in prompt
    assert len(prompt) < 2000


def test_a_supervisor_sees_only_allowed_presets() -> None:
    prompt = supervisor(SubagentConfig(allowed_preset_agent_ids=NameList(names=["p3", "p2"])))
    assert "p3" in prompt
    assert "p1" not in prompt
    assert "p2" not in prompt
    assert "no preset agents" in supervisor(SubagentConfig(allowed_preset_agent_ids=NameList()))


def test_an_agent_that_may_not_delegate_hears_nothing_of_it() -> None:
    assert supervisor(SubagentConfig(enabled=False)) == "Be brief."


def test_goal_and_context_stay_apart() -> None:
    assert subagent_user_message("count", "") == "Goal:\ncount"
    assert subagent_user_message("count", "only lib") == "Goal:\ncount\n\nContext from the parent agent:\nonly lib"
