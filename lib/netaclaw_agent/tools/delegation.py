"""The delegation tools: their manifests, and calls of them read into what they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import Arguments, shown

DELEGATE_TASK: Final = "delegate_task"
DELEGATE_PARALLEL: Final = "delegate_parallel"
READ_RESULT: Final = "read_result"
FAMILY: Final = "delegation"

MAX_TASKS = 100
"""Most tasks of one batch."""
MAX_GOAL_BYTES = 8 * 1024
MAX_CONTEXT_BYTES = 64 * 1024
MAX_ROUNDS = 100
MAX_TOOL_NAMES = 64
MAX_NAME_LENGTH = 128
"""Longest agent id or tool name that is accepted, in characters."""
TASK_NAME_LENGTH = 48
MAX_READ_BYTES = 32 * 1024
DEFAULT_READ_BYTES = 8 * 1024

PRESET: Final = "preset"
CLONE: Final = "clone"

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_TASK_PROPERTIES: dict[str, dict[str, Any]] = {
    "goal": {
        "type": "string",
        "description": "What the subagent must find out or do. Self-contained: it does not see this conversation.",
    },
    "context": {"type": "string", "description": "Facts that the subagent needs besides the goal."},
    "agentId": {
        "type": ["string", "integer"],
        "description": "Id of an allowed preset agent. Without it the subagent is a clone of you.",
    },
    "mode": {
        "type": "string",
        "enum": [PRESET, CLONE],
        "description": "Defaults to preset when agentId is given, else to clone.",
    },
    "toolNames": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Tools that the subagent may have at most. Absent: all that are allowed; empty: none.",
    },
    "maxToolRounds": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_ROUNDS,
        "description": "Most model calls that the subagent may make.",
    },
    "resumeTaskId": {
        "type": "string",
        "description": (
            "Id of an earlier task of this conversation, whatever its end: its subagent goes on with what it knows, "
            "and goal says what to do now. Leave agentId and mode out then."
        ),
    },
}
_READ_PROPERTIES: dict[str, dict[str, Any]] = {
    "taskId": {"type": "string", "description": "Id of an ended task of this conversation."},
    "offset": {"type": "integer", "minimum": 0, "description": "First byte to read; 0 when absent."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_READ_BYTES,
        "description": f"Most bytes to read; {DEFAULT_READ_BYTES} when absent.",
    },
}


def _task_schema() -> dict[str, Any]:
    return {"type": "object", "properties": _TASK_PROPERTIES, "required": ["goal"], "additionalProperties": False}


def _parallel_schema() -> dict[str, Any]:
    tasks = {"type": "array", "minItems": 1, "maxItems": MAX_TASKS, "items": _task_schema()}
    return {
        "type": "object",
        "properties": {"tasks": {**tasks, "description": "Independent tasks; their results come back in this order."}},
        "required": ["tasks"],
        "additionalProperties": False,
    }


DELEGATION_TOOLS: tuple[ToolManifest, ...] = (
    ToolManifest(
        tool_name=DELEGATE_TASK,
        description=(
            "Hand one self-contained task to a subagent and wait for its summary. The subagent works in a process of "
            "its own with at most your tools, sees only goal and context, and can ask nobody."
        ),
        parameters_json=json.dumps(_task_schema()),
        effect=ToolEffect.TOOL_EFFECT_EFFECTFUL,
        family=FAMILY,
    ),
    ToolManifest(
        tool_name=DELEGATE_PARALLEL,
        description=(
            "Hand several independent tasks to subagents that work at the same time, and wait for all their summaries. "
            "One failing task does not stop the others."
        ),
        parameters_json=json.dumps(_parallel_schema()),
        effect=ToolEffect.TOOL_EFFECT_EFFECTFUL,
        family=FAMILY,
    ),
    ToolManifest(
        tool_name=READ_RESULT,
        description=(
            "Read a range of a subagent's final result, where a delegation's report says that it was cut. Nothing else "
            "of the subagent's work can be read."
        ),
        parameters_json=json.dumps(
            {"type": "object", "properties": _READ_PROPERTIES, "required": ["taskId"], "additionalProperties": False}
        ),
        effect=ToolEffect.TOOL_EFFECT_PURE,
        family=FAMILY,
    ),
)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task as the model asked for it; its texts are valid UTF-8 and within the limits above."""

    goal: str
    context: str
    """Empty when there is none."""
    agent_id: str
    """The preset; empty exactly when mode is clone."""
    mode: str
    """PRESET or CLONE."""
    tool_names: tuple[str, ...] | None
    """Tools that it may have at most, without repeats; None inherits, empty means none."""
    max_tool_rounds: int | None
    """From 1 to MAX_ROUNDS; None when the model did not say."""
    resume_task_id: str = ""
    """The earlier task that it goes on with; agent_id is empty then and mode has no meaning."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range of a final result, in bytes of UTF-8."""

    task_id: str
    offset: int
    limit: int


def parse_delegation(tool_name: str, arguments_json: str) -> list[TaskSpec]:
    """The tasks of a delegate call, in order: 1 to MAX_TASKS. Raises ToolError, and nothing else, for bad arguments."""
    if tool_name == DELEGATE_TASK:
        return [_task(Arguments.parse(arguments_json, _TASK_PROPERTIES))]
    if tool_name != DELEGATE_PARALLEL:
        raise ToolError(f"{shown(tool_name)} is not a delegation tool")
    tasks = Arguments.parse(arguments_json, ("tasks",)).objects("tasks", _TASK_PROPERTIES)
    if not tasks:
        raise ToolError("tasks is empty: give at least one task")
    if len(tasks) > MAX_TASKS:
        raise ToolError(f"tasks holds {len(tasks)} tasks, but one call takes at most {MAX_TASKS}")
    return [_task(task) for task in tasks]


def parse_read(arguments_json: str) -> ReadRange:
    """What a read_result call asks for. Raises ToolError, and nothing else, for bad arguments."""
    arguments = Arguments.parse(arguments_json, _READ_PROPERTIES)
    return ReadRange(
        task_id=_task_id(arguments, "taskId", arguments.text("taskId").strip()),
        offset=arguments.whole("offset", 0, low=0, high=2**31 - 1),
        limit=arguments.whole("limit", DEFAULT_READ_BYTES, low=1, high=MAX_READ_BYTES),
    )


def task_name(spec: TaskSpec) -> str:
    """A short name for cards: the first words of the goal, one line, at most TASK_NAME_LENGTH characters."""
    words = spec.goal.split()
    name = " ".join(words)
    if len(name) <= TASK_NAME_LENGTH:
        return name
    kept = name[: TASK_NAME_LENGTH - 1]
    # A goal without spaces, such as a Chinese sentence, is cut between characters instead.
    if not name[len(kept)].isspace() and " " in kept:
        kept = kept[: kept.rindex(" ")]
    return kept.rstrip() + "…"


def _task(arguments: Arguments) -> TaskSpec:
    goal = arguments.text("goal").strip()
    if not goal:
        arguments.wrong("goal", "is empty: say what the subagent must do")
    _check_bytes(arguments, "goal", goal, MAX_GOAL_BYTES)
    context = arguments.text("context", "").strip()
    _check_bytes(arguments, "context", context, MAX_CONTEXT_BYTES)
    resumed = arguments.text("resumeTaskId", "").strip()
    agent_id = _agent_id(arguments)
    if resumed and agent_id:
        arguments.wrong("agentId", "does not go with resumeTaskId: the task goes on with its own agent")
    mode = arguments.choice("mode", (PRESET, CLONE), PRESET if agent_id else CLONE)
    if mode == PRESET and not agent_id and not resumed:
        arguments.wrong("agentId", "is missing: mode preset needs the id of an allowed agent")
    if mode == CLONE and agent_id:
        arguments.wrong("agentId", "does not go with mode clone: leave one of the two out")
    rounds = arguments.whole("maxToolRounds", 1, low=1, high=MAX_ROUNDS)
    return TaskSpec(
        goal=goal,
        context=context,
        agent_id=agent_id,
        mode=mode,
        tool_names=_tool_names(arguments, arguments.texts("toolNames")),
        max_tool_rounds=rounds if arguments.has("maxToolRounds") else None,
        resume_task_id=_task_id(arguments, "resumeTaskId", resumed) if resumed else "",
    )


def _task_id(arguments: Arguments, name: str, value: str) -> str:
    if len(value) > MAX_NAME_LENGTH or not _ID.fullmatch(value):
        arguments.wrong(name, "is not a task's id: ids stand in the reports of delegations")
    return value


def _agent_id(arguments: Arguments) -> str:
    """The agent's id. A blank one counts as absent: many models fill every optional argument."""
    value = arguments.raw("agentId")
    if isinstance(value, int) and not isinstance(value, bool):
        agent_id = str(value)
    else:
        agent_id = arguments.text("agentId", "").strip()
    if len(agent_id) > MAX_NAME_LENGTH:
        arguments.wrong("agentId", f"is longer than {MAX_NAME_LENGTH} characters")
    return agent_id


def _tool_names(arguments: Arguments, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) > MAX_TOOL_NAMES:
        arguments.wrong("toolNames", f"holds more than {MAX_TOOL_NAMES} names")
    for name in names:
        if not name.strip() or len(name) > MAX_NAME_LENGTH:
            arguments.wrong("toolNames", f"holds {shown(name)}, which is not a tool's name")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _check_bytes(arguments: Arguments, name: str, text: str, limit: int) -> None:
    size = len(text.encode())
    if size > limit:
        arguments.wrong(name, f"is {size} bytes long, but at most {limit} are allowed")
