"""How a child ended, from the runner's word or from what an earlier owner had committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask, SubagentTaskState
from netaclaw.subagent.v1.runner_service_pb2 import RunEnded
from netaclaw_orchestrator.delegation.report import preview

CALL_STEPS = ("tool_call", "proxy_tool_call")
"""Types of the process events that begin a call."""


@dataclass(slots=True)
class ChildOutcome:
    """How a child ended."""

    ended: RunEnded
    calls: list[ToolCallPart] = field(default_factory=list)
    """Its tool calls with their results, in call order."""
    duration_ms: int = 0

    @property
    def event(self) -> ProcessEvent:
        """The step that the end is reported as."""
        failed = self.ended.state not in (
            SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED,
            SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL,
        )
        words = self.ended.error or self.ended.final_output
        return ProcessEvent(type="run_error" if failed else "run_end", content=preview(words), is_error=failed)


def ended_early(state: SubagentTaskState, error: str) -> RunEnded:
    """An end that was decided here, not by the runner."""
    return RunEnded(state=state, error=error)


def ended_outcome(task: SubagentTask, steps: Sequence[ProcessEvent]) -> ChildOutcome:
    """The outcome of a task that ended under an earlier owner, from its row and its committed steps."""
    spent = 0
    if task.HasField("start_time") and task.HasField("end_time"):
        spent = task.end_time.ToMilliseconds() - task.start_time.ToMilliseconds()
    ended = RunEnded(
        state=task.state,
        final_output=task.summary,
        error=task.error,
        partial_text=task.partial_text,
        usage=task.usage,
        tool_call_count=task.tool_call_count,
        model=task.model,
    )
    parts: dict[str, ToolCallPart] = {}
    for step in steps:
        if step.type in CALL_STEPS:
            parts[step.call_id] = ToolCallPart(
                call_id=step.call_id, tool_name=step.tool_name, arguments_json=step.arguments_json
            )
        elif step.type == "tool_result" and step.call_id in parts:
            parts[step.call_id].result.CopyFrom(ToolResult(content=step.content, is_error=step.is_error))
    return ChildOutcome(ended, list(parts.values()), duration_ms=spent)
