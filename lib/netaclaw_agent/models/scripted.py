"""A model made of rules: offline, deterministic, and honest about what it is.

It lets a new user see the whole suite work without a key, and tests run the same turn again and again. It sees what
any model sees, a ModelCall, and plans real tool calls from plain requests.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from netaclaw.session.v1.entry_pb2 import (
    FinishReason,
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import Finished, ModelCall, ModelEvent, NewId, TextDelta
from netaclaw_agent.models.scripted_answers import Step, WantedCall, answer
from netaclaw_agent.models.scripted_goals import Goal, GoalKind, Task, parse_goal

DISCLOSURE = "This is netaclaw's scripted model: it follows simple rules and is not an LLM."
DISCLOSURE_AFTER = "Answer of the scripted model (rules, not an LLM):"

_ABILITIES = """\
I understand these requests:
- in parallel: REQUEST; REQUEST; REQUEST
- delegate: REQUEST [with agent NAME]
- count the files [under DIR]
- count lines per language [under DIR]
- find the N largest files [under DIR]
- list files [under DIR]
- list every RPC with its comment [under DIR]
- find TEXT [in DIR]
- read FILE
- write TEXT to FILE
For free conversation, an operator has to set up a real model."""

_DELEGATION_TOOLS = frozenset({"delegate_task", "delegate_parallel"})
_LISTED = 1000
_DELTA_CHARACTERS = 16
_MOST_DELTAS = 100


class ScriptedModel:
    """The rule-based model. Its answers depend on the call alone; its token counts are estimates."""

    def __init__(self, *, name: str = "scripted", context_window: int = 128_000) -> None:
        self._name = name
        self._context_window = context_window

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return self._name

    @property
    def context_window(self) -> int:
        """Tokens that fit; nothing here depends on it."""
        return self._context_window

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """As Model.stream. Never raises ModelError."""
        step = next_step(call)
        for piece in _pieces(step.text):
            yield TextDelta(piece)
            await asyncio.sleep(0)  # lets cancellation and other tasks in; nothing else here suspends
        yield Finished(self._message(call, step, new_id))

    def _message(self, call: ModelCall, step: Step, new_id: NewId) -> Message:
        message = Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, model=self._name)
        if step.text:
            message.parts.append(Part(text=TextPart(text=step.text)))
        for wanted in step.calls:
            part = ToolCallPart(
                call_id=new_id(),
                tool_name=wanted.tool_name,
                arguments_json=json.dumps(wanted.arguments, ensure_ascii=False),
                state=ToolCallState.TOOL_CALL_STATE_PENDING,
            )
            message.parts.append(Part(tool_call=part))
        message.finish_reason = FinishReason.FINISH_REASON_TOOL_CALLS if step.calls else FinishReason.FINISH_REASON_STOP
        message.usage.CopyFrom(
            Usage(input_tokens=_tokens(_sent(call)), output_tokens=_tokens(_length(message)), model_calls=1)
        )
        return message


def next_step(call: ModelCall) -> Step:
    """What to say and to call next: a plan after a user message, an answer after tool results."""
    asked = max((n for n, m in enumerate(call.messages) if m.role == MessageRole.MESSAGE_ROLE_USER), default=-1)
    tools = {manifest.tool_name for manifest in call.tools}
    discloses = not _is_subagent(call.system, tools)
    goal = parse_goal(text_of(call.messages[asked])) if asked >= 0 else Goal(GoalKind.UNKNOWN)
    rounds = [calls for message in call.messages[asked + 1 :] if (calls := calls_of(message))]
    step = answer(goal, rounds) if rounds else plan(goal, tools)
    if not discloses:
        return step
    return Step(f"{DISCLOSURE_AFTER if rounds else DISCLOSURE}\n{step.text}", step.calls)


def plan(goal: Goal, tools: set[str]) -> Step:
    """The first step towards a goal with the tools that there are."""
    if goal.kind is GoalKind.UNKNOWN:
        return Step(_ABILITIES)
    if goal.kind in (GoalKind.PARALLEL, GoalKind.DELEGATE):
        return _delegation(goal, tools)
    text, wanted = _file_call(goal)
    if wanted.tool_name not in tools:
        return Step(f"For this I would need the tool {wanted.tool_name}, which is not available here.")
    return Step(text, [wanted])


def _delegation(goal: Goal, tools: set[str]) -> Step:
    if not goal.tasks:
        return Step("The request names no task to delegate.")
    many = goal.kind is GoalKind.PARALLEL
    tool_name = "delegate_parallel" if many else "delegate_task"
    if tool_name not in tools:
        return Step(f"For this I would need the tool {tool_name}, which is not available here.")
    if not many:
        return Step(f"I hand this to a subagent: {goal.tasks[0].goal}", [WantedCall(tool_name, _task(goal.tasks[0]))])
    names = "\n".join(f"{n}. {task.goal}" for n, task in enumerate(goal.tasks, 1))
    arguments = {"tasks": [_task(task) for task in goal.tasks]}
    return Step(f"I hand {len(goal.tasks)} tasks to subagents:\n{names}", [WantedCall(tool_name, arguments)])


def _task(task: Task) -> dict[str, str]:
    return {"goal": task.goal, "agentId": task.agent_id} if task.agent_id else {"goal": task.goal}


def _file_call(goal: Goal) -> tuple[str, WantedCall]:
    """What to say, and the call, for a goal that one file tool serves."""
    where = "in the workspace" if goal.path == "." else f"under {goal.path}"
    listing: dict[str, Any] = {"path": goal.path} | ({"pattern": goal.pattern} if goal.pattern else {})
    rpcs = {"query": r"^\s*rpc\s+\w+", "regex": True, "path": goal.path, "pattern": "*.proto", "before": 10}
    calls: dict[GoalKind, tuple[str, str, dict[str, Any]]] = {
        GoalKind.COUNT_FILES: (f"I count the files {where}.", "list_files", {**listing, "limit": 1}),
        GoalKind.COUNT_LINES: (
            f"I count the lines {where}.",
            "list_files",
            {**listing, "lines": True, "limit": 1 if goal.pattern else _LISTED},
        ),
        GoalKind.LARGEST: (
            f"I look for the largest files {where}.",
            "list_files",
            {**listing, "sort": "size", "limit": goal.count},
        ),
        GoalKind.LIST_FILES: (f"I list the files {where}.", "list_files", {**listing, "limit": _LISTED}),
        GoalKind.RPCS: (f"I look for RPCs {where}.", "search_files", {**rpcs, "limit": _LISTED}),
        GoalKind.SEARCH: (
            f'I search for "{goal.text}" {where}.',
            "search_files",
            {"query": goal.text, "path": goal.path},
        ),
        GoalKind.READ: (f"I read {goal.path}.", "read_file", {"path": goal.path}),
        GoalKind.WRITE: (f"I write to {goal.path}.", "write_file", {"path": goal.path, "content": goal.text}),
    }
    text, tool_name, arguments = calls[goal.kind]
    return text, WantedCall(tool_name, arguments)


def _is_subagent(system: str, tools: set[str]) -> bool:
    """Whether the call is a subagent's: its guidance says so, and it can never delegate."""
    return "in-session subagent" in system and not tools & _DELEGATION_TOOLS


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of about a word, larger ones where it is long."""
    size = max(_DELTA_CHARACTERS, len(text) // _MOST_DELTAS)
    piece = ""
    for word in re.findall(r"\s*\S+|\s+$", text):
        piece += word
        if len(piece) >= size:
            yield piece
            piece = ""
    if piece:
        yield piece


def _sent(call: ModelCall) -> int:
    tools: Sequence[Any] = call.tools
    fixed = len(call.system) + sum(len(t.tool_name) + len(t.description) + len(t.parameters_json) for t in tools)
    return fixed + sum(_length(message) for message in call.messages)


def _length(message: Message) -> int:
    calls = calls_of(message)
    return len(text_of(message)) + sum(
        len(call.tool_name) + len(call.arguments_json) + len(call.result.content) for call in calls
    )


def _tokens(characters: int) -> int:
    return max(1, characters // 4)
