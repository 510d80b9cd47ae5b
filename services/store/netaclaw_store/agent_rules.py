"""What an agent must look like, and which of its fields a caller may change."""

from __future__ import annotations

import re

from google.protobuf.message import Message

from netaclaw.agent.v1.agent_pb2 import Agent, CrewRole, NameList, SubagentConfig, ThinkingLevel
from netaclaw.tool.v1.tool_pb2 import SandboxMode, ToolApproval
from netaclaw_chassis.errors import Violations
from netaclaw_chassis.ids import is_id

MAX_NAME = 100
MAX_DESCRIPTION = 2000
MAX_PROMPT = 65_536
MAX_MODEL = 200
MAX_LIST = 500
MAX_CONCURRENT = 32
MAX_TIMEOUT_SECONDS = 86_400
MAX_ROUNDS = 1000

OUTPUT_ONLY = ("agent_id", "published", "etag", "create_time", "update_time")

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


def check_agent(agent: Agent, prefix: str = "agent") -> None:
    """Raises INVALID_ARGUMENT that names every wrong field."""
    found = Violations()
    name = agent.name
    found.check(0 < len(name) <= MAX_NAME, f"{prefix}.name", f"is empty or longer than {MAX_NAME} characters")
    found.check(
        name == name.strip() and name.isprintable(), f"{prefix}.name", "has spaces around it or control characters"
    )
    for field, value, limit in (
        ("description", agent.description, MAX_DESCRIPTION),
        ("system_prompt", agent.system_prompt, MAX_PROMPT),
        ("model", agent.model, MAX_MODEL),
    ):
        found.check(len(value) <= limit, f"{prefix}.{field}", f"is longer than {limit} characters")
    if agent.HasField("tool_names"):
        _check_tool_names(found, f"{prefix}.tool_names", agent.tool_names)
    if agent.HasField("subagent_config"):
        _check_delegation(found, f"{prefix}.subagent_config", agent.subagent_config)
    found.check(len(agent.approvals) <= MAX_LIST, f"{prefix}.approvals", f"are more than {MAX_LIST}")
    for tool, approval in agent.approvals.items():
        known = approval in ToolApproval.values() and _TOOL_NAME.fullmatch(tool)
        found.check(bool(known), f"{prefix}.approvals", f"{tool[:128]!r} is not a tool with a known approval")
    rounds = agent.max_tool_rounds
    found.check(0 <= rounds <= MAX_ROUNDS, f"{prefix}.max_tool_rounds", f"is not between 0 and {MAX_ROUNDS}")
    for field, number, kinds in (
        ("thinking_level", agent.thinking_level, ThinkingLevel.values()),
        ("crew_role", agent.crew_role, CrewRole.values()),
        ("sandbox", agent.sandbox, SandboxMode.values()),
    ):
        found.check(number in kinds, f"{prefix}.{field}", "is unknown")
    found.raise_if_any()


def _check_delegation(found: Violations, prefix: str, config: SubagentConfig) -> None:
    for field, limit in (
        ("max_concurrent", MAX_CONCURRENT),
        ("timeout_seconds", MAX_TIMEOUT_SECONDS),
        ("max_tool_rounds", MAX_ROUNDS),
    ):
        if config.HasField(field):
            value = getattr(config, field)
            found.check(1 <= value <= limit, f"{prefix}.{field}", f"is not between 1 and {limit}")
    if config.HasField("allowed_tool_names"):
        _check_tool_names(found, f"{prefix}.allowed_tool_names", config.allowed_tool_names)
    if config.HasField("allowed_preset_agent_ids"):
        names = config.allowed_preset_agent_ids.names
        field = f"{prefix}.allowed_preset_agent_ids"
        found.check(len(names) <= MAX_LIST, field, f"are more than {MAX_LIST}")
        found.check(all(is_id(name) for name in names), field, "holds something that is not an agent id")


def _check_tool_names(found: Violations, field: str, listed: NameList) -> None:
    found.check(len(listed.names) <= MAX_LIST, field, f"are more than {MAX_LIST}")
    found.check(all(_TOOL_NAME.fullmatch(name) for name in listed.names), field, "holds something that is no tool name")


def apply_mask(stored: Agent, wanted: Agent, paths: list[str]) -> Agent:
    """The stored agent with the masked fields of the wanted one. Raises INVALID_ARGUMENT for paths that may not change.

    A path names a field of Agent, or one of its subagent_config; a message or optional field that is unset in
    `wanted` becomes unset.
    """
    found = Violations()
    merged = Agent()
    merged.CopyFrom(stored)
    found.check(bool(paths), "update_mask", "is empty")
    for path in paths:
        head, _, tail = path.partition(".")
        if head == "subagent_config" and tail in SubagentConfig.DESCRIPTOR.fields_by_name:
            _take(merged.subagent_config, wanted.subagent_config, tail)
        elif not tail and head in Agent.DESCRIPTOR.fields_by_name and head not in OUTPUT_ONLY:
            _take(merged, wanted, head)
        else:
            found.add("update_mask", f"{path[:200]!r} cannot be changed")
    found.raise_if_any()
    return merged


def _take(target: Message, source: Message, field: str) -> None:
    # Merging a message that holds only this field moves scalars, lists, maps and messages alike.
    only = type(source)()
    only.CopyFrom(source)
    for descriptor, _ in list(only.ListFields()):
        if descriptor.name != field:
            only.ClearField(descriptor.name)
    target.ClearField(field)
    target.MergeFrom(only)
