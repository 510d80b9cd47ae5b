"""What a child leaves behind: its final result, its evidence, and what the model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from netaclaw.session.v1.subagent_pb2 import EvidenceSummary, SubagentFinalResult, SubagentTask, SubagentTaskState
from netaclaw_agent.evidence import evidence_for, normalize
from netaclaw_agent.tools.delegation import READ_RESULT

if TYPE_CHECKING:  # outcomes are made from reports' previews
    from netaclaw_orchestrator.delegation.outcome import ChildOutcome

PREVIEW_BYTES = 1024
MIN_REPORT_BYTES = 4 * 1024
MAX_REPORT_BYTES = 48 * 1024
CONTEXT_SHARE = 0.25
"""Of the parent's free context, what the summaries of its delegations may take."""
BYTES_PER_TOKEN = 3
"""A cautious guess for every language: a Chinese character is three bytes and about one token."""

_OWN_MARK = re.compile(r"^(?=[ \t]*(#+[ \t]*Task \d|Task id:))", re.IGNORECASE | re.MULTILINE)


def preview(text: str) -> str:
    """The text, or its first KiB with a word on how much is missing."""
    if len(text) * 4 <= PREVIEW_BYTES:
        return text
    raw = text.encode()
    if len(raw) <= PREVIEW_BYTES:
        return text
    kept = raw[:PREVIEW_BYTES].decode(errors="ignore")
    return f"{kept}\n[{len(raw) - len(kept.encode())} of {len(raw)} bytes not shown]"


def final_result(outcome: ChildOutcome) -> SubagentFinalResult:
    """The durable result of an ended task, beside the task itself."""
    ended = outcome.ended
    return SubagentFinalResult(
        final_output=ended.final_output,
        raw_final_content=ended.raw_final_content,
        tool_results=[normalize(call) for call in outcome.calls if call.HasField("result")],
        duration_ms=outcome.duration_ms,
        diagnostics=ended.diagnostics,
    )


def evidence(task: SubagentTask, outcome: ChildOutcome) -> list[EvidenceSummary]:
    """Facts from the task's tool results, chosen by its goal."""
    return evidence_for(task.goal, task.task_id, [call for call in outcome.calls if call.HasField("result")])


def report_budget(context_window: int, used_tokens: int, delegations: int) -> int:
    """Bytes that the report of one of several delegations beside each other may take of the parent's context."""
    free = max(context_window - used_tokens, 0) * BYTES_PER_TOKEN
    share = int(free * CONTEXT_SHARE) // max(delegations, 1)
    return max(MIN_REPORT_BYTES, min(share, MAX_REPORT_BYTES))


def report_text(tasks: Sequence[SubagentTask], budget: int) -> str:
    """What the model reads: one section per task, in task order, each with its honest state.

    The texts share `budget` bytes: short ones leave what they do not need to the long ones.
    """
    texts = [task.summary or task.partial_text for task in tasks]
    shares = _shares([len(text.encode()) for text in texts], budget)
    sections = []
    for number, (task, text, share) in enumerate(zip(tasks, texts, shares, strict=True), start=1):
        state = SubagentTaskState.Name(task.state).removeprefix("SUBAGENT_TASK_STATE_")
        lines = [f"## Task {number} of {len(tasks)}: {task.name} [{state}]", f"Task id: {task.task_id}"]
        if task.error:
            lines.append(_quoted(f"Error: {task.error}"))
        if text:
            lines.append(_quoted(_cut(text, share) if task.summary else f"Partial text: {_cut(text, share)}"))
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _quoted(text: str) -> str:
    """A subagent's words, in which nothing looks like the beginning of another task's section."""
    return _OWN_MARK.sub("> ", text)


def _shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Each what it needs, or an equal part of what is left when the smaller ones have theirs."""
    shares = [0] * len(sizes)
    left = budget
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for place, index in enumerate(order):
        shares[index] = min(sizes[index], left // (len(order) - place))
        left -= shares[index]
    return shares


def _cut(text: str, limit: int) -> str:
    raw = text.encode()
    if len(raw) <= limit:
        return text
    kept = raw[:limit].decode(errors="ignore")
    shown = len(kept.encode())
    return (
        f"{kept}\n[cut after {shown} of {len(raw)} bytes; {READ_RESULT} with this task id and offset {shown} reads on]"
    )
