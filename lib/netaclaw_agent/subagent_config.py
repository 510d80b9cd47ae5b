"""How agents may delegate: the operator's settings, and what becomes of them for one agent."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw_agent.tools import clarify, delegation

MAX_CONCURRENT = 32
"""Most children of one turn at once, whatever an agent asks for."""


@dataclass(frozen=True, slots=True)
class SubagentSettings:
    """The operator's settings for delegation; the defaults are the floor."""

    enabled: bool = True
    max_concurrent: int = 3
    max_per_turn: int = 100
    """Children of one turn over all its delegations; no agent may raise it."""
    timeout_seconds: int = 600
    max_tool_rounds: int = 25
    stall_seconds: int = 300
    """Without progress for so long a child is ended; 0: however long."""
    max_tool_calls: int = 200
    """Of one child; 0: no limit."""
    max_tokens: int = 0
    """Of one child, in and out; 0: no limit."""
    batch_timeout_seconds: int = 3600
    """Of one batch, from its first child's beginning."""
    batch_max_tokens: int = 0
    """Of all children of one batch; 0: no limit."""
    blocked_tool_names: tuple[str, ...] = (
        delegation.DELEGATE_TASK,
        delegation.DELEGATE_PARALLEL,
        clarify.CLARIFY,
        "memory_save",
        "memory_recall",
    )


@dataclass(frozen=True, slots=True)
class EffectiveSubagentConfig:
    """How one agent may delegate, after inheritance."""

    enabled: bool
    max_concurrent: int
    """From 1 to MAX_CONCURRENT."""
    timeout_seconds: int
    """At least 1."""
    max_tool_rounds: int
    """At least 1."""
    allowed_preset_agent_ids: frozenset[str] | None
    """None: every published agent; empty: none."""
    allowed_tool_names: frozenset[str] | None
    """None: the parent's tools; empty: none."""


def effective_subagent_config(agent: Agent, settings: SubagentSettings) -> EffectiveSubagentConfig:
    """An agent's delegation settings: set fields of the agent win over the operator's."""
    own = agent.subagent_config

    def number(name: str, inherited: int) -> int:
        value: int = getattr(own, name) if own.HasField(name) else inherited
        return max(value, 1)

    presets = frozenset(own.allowed_preset_agent_ids.names) if own.HasField("allowed_preset_agent_ids") else None
    tools = frozenset(own.allowed_tool_names.names) if own.HasField("allowed_tool_names") else None
    return EffectiveSubagentConfig(
        enabled=own.enabled if own.HasField("enabled") else settings.enabled,
        max_concurrent=min(number("max_concurrent", settings.max_concurrent), MAX_CONCURRENT),
        timeout_seconds=number("timeout_seconds", settings.timeout_seconds),
        max_tool_rounds=number("max_tool_rounds", settings.max_tool_rounds),
        allowed_preset_agent_ids=presets,
        allowed_tool_names=tools,
    )
