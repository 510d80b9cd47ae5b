"""Who runs a task: a published preset or a clone of the parent, with tools never wider than the parent's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.subagent_pb2 import SubagentSource, SubagentTask
from netaclaw.tool.v1.tool_pb2 import ToolPolicy, ToolRoute
from netaclaw_agent.guidance import subagent_system_prompt
from netaclaw_agent.policy import child_policy
from netaclaw_agent.subagent_config import EffectiveSubagentConfig, SubagentSettings
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import TaskSpec


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """A task that is ready to be queued."""

    spec: TaskSpec
    source: SubagentSource
    preset_agent_id: str
    agent: Agent
    """What the worker runs: the preset or the parent's agent, with the subagent's guidance appended."""
    policy: ToolPolicy
    max_tool_rounds: int
    history: Sequence[Message] = ()
    """What the task goes on with."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A task that ended, and that another one goes on with."""

    task: SubagentTask
    history: Sequence[Message]
    """Its whole conversation, that of the tasks before it included."""


@dataclass(frozen=True, slots=True)
class Parent:
    """What a batch inherits."""

    agent: Agent
    policy: ToolPolicy
    presets: Sequence[Agent]
    """Published agents of the owner."""
    config: EffectiveSubagentConfig
    settings: SubagentSettings
    thinking_level: ThinkingLevel = ThinkingLevel.THINKING_LEVEL_UNSPECIFIED
    """The session's: clones think as hard as their parent does."""


def plan_children(specs: Sequence[TaskSpec], parent: Parent, earlier: Mapping[str, Earlier]) -> list[ChildPlan]:
    """One plan per task, in order; `earlier` has the tasks that specs go on with, by id.

    Raises ToolError, naming the task, when a preset may not be used.
    """
    made: dict[tuple[str, tuple[str, ...] | None], _Body] = {}
    return [_plan(number, spec, parent, earlier, made) for number, spec in enumerate(specs, start=1)]


def allowed_presets(parent: Parent) -> list[Agent]:
    """Published agents that this parent may use, itself excluded."""
    allowed = parent.config.allowed_preset_agent_ids
    return [
        preset
        for preset in parent.presets
        if preset.published
        and preset.agent_id != parent.agent.agent_id
        and (allowed is None or preset.agent_id in allowed)
    ]


def enabled_tools(policy: ToolPolicy) -> list[str]:
    """Names of the tools that the policy does not disable, in its order."""
    return [route.tool_name for route in policy.routes if route.route != ToolRoute.TOOL_ROUTE_DISABLED]


_Body = tuple[Agent, ToolPolicy]
"""What a child runs and may do. Children that differ in neither share it."""


def _plan(
    number: int,
    spec: TaskSpec,
    parent: Parent,
    earlier: Mapping[str, Earlier],
    made: dict[tuple[str, tuple[str, ...] | None], _Body],
) -> ChildPlan:
    source = SubagentSource.SUBAGENT_SOURCE_CLONE
    base = parent.agent
    history: Sequence[Message] = ()
    preset_id = wanted = spec.agent_id
    if spec.resume_task_id:
        resumed = earlier[spec.resume_task_id]
        history, wanted = resumed.history, resumed.task.preset_agent_id
    if wanted:
        source = SubagentSource.SUBAGENT_SOURCE_PRESET
        base = _preset(number, wanted, parent)
        preset_id = base.agent_id
    key = (preset_id, spec.tool_names)
    if key not in made:
        made[key] = _body(spec, base, parent, source)
    agent, policy = made[key]
    rounds = min(spec.max_tool_rounds or parent.config.max_tool_rounds, parent.config.max_tool_rounds)
    return ChildPlan(spec, source, preset_id, agent, policy, rounds, history)


def _body(spec: TaskSpec, base: Agent, parent: Parent, source: SubagentSource) -> _Body:
    policy = child_policy(
        parent.policy, base, config=parent.config, requested=spec.tool_names, settings=parent.settings
    )
    agent = Agent()
    agent.CopyFrom(base)
    agent.system_prompt = subagent_system_prompt(base)
    if not agent.model:
        agent.model = parent.agent.model
    if source == SubagentSource.SUBAGENT_SOURCE_CLONE and parent.thinking_level:
        agent.thinking_level = parent.thinking_level
    return agent, policy


def _preset(number: int, wanted: str, parent: Parent) -> Agent:
    presets = allowed_presets(parent)
    for preset in presets:
        if wanted in (preset.agent_id, preset.name):
            return preset
    known = ", ".join(f"{preset.agent_id} ({preset.name})" for preset in presets) or "none"
    raise ToolError(
        f"task {number}: agent {wanted!r} is not published or not allowed as a preset here; allowed: {known}"
    )
