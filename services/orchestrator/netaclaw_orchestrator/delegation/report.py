"""What a child leaves behind: its final result, its evidence, and what the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netaclaw.session.v1.subagent_pb2 import EvidenceSummary, SubagentFinalResult, SubagentTask, SubagentTaskState
from netaclaw_agent.evidence import evidence_for, normalize

if TYPE_CHECKING:  # outcomes are made from reports' previews
    from netaclaw_orchestrator.delegation.outcome import ChildOutcome

PREVIEW_BYTES = 4096
REPORT_BYTES = 48 * 1024
"""What all summaries of a batch together may take of the parent's context; the whole is in the result entry."""


def preview(text: str) -> str:
    """The text, or its first 4 KiB with a word on how much is missing."""
    raw = text.encode()
    if len(raw) <= PREVIEW_BYTES:
        return text
    kept = raw[:PREVIEW_BYTES].decode(errors="ignore")
    return f"{kept}\n[{len(raw) - len(kept.encode())} of {len(raw)} bytes not shown]"


def final_result(task: SubagentTask, outcome: ChildOutcome) -> SubagentFinalResult:
    """The durable result of an ended task."""
    ended = outcome.ended
    return SubagentFinalResult(
        task=task,
        final_output=ended.final_output,
        raw_final_content=ended.raw_final_content,
        tool_results=[normalize(call) for call in outcome.calls if call.HasField("result")],
        duration_ms=outcome.duration_ms,
        resume_handle=task.task_id,
    )


def evidence(task: SubagentTask, outcome: ChildOutcome) -> list[EvidenceSummary]:
    """Facts from the task's tool results, chosen by its goal."""
    return evidence_for(task.goal, task.task_id, [call for call in outcome.calls if call.HasField("result")])


def report_text(results: Sequence[SubagentFinalResult]) -> str:
    """What the model reads: one section per task, in task order, each with its honest state."""
    share = REPORT_BYTES // max(1, len(results))
    sections = []
    for number, result in enumerate(results, start=1):
        task = result.task
        state = SubagentTaskState.Name(task.state).removeprefix("SUBAGENT_TASK_STATE_")
        lines = [f"## Task {number} of {len(results)}: {task.name} [{state}]"]
        if task.error:
            lines.append(f"Error: {task.error}")
        text = task.summary or task.partial_text
        if text:
            lines.append(_share(text, share) if task.summary else f"Partial text: {_share(text, share)}")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _share(text: str, limit: int) -> str:
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return (
        f"{raw[:limit].decode(errors='ignore')}\n[cut: {len(raw) - limit} of {len(raw)} bytes are in the result entry]"
    )
