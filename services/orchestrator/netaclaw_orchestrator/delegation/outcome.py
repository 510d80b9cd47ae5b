"""How a child ended, and what is known of one whose owner died."""

from __future__ import annotations

from dataclasses import dataclass, field

from netaclaw.chat.v1.event_pb2 import SteerReceipt
from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask, SubagentTaskState
from netaclaw.subagent.v1.runner_service_pb2 import RunEnded
from netaclaw_orchestrator.delegation.report import preview

ENDED = frozenset(
    range(SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED, SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT + 1)
)
"""The end states."""


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


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A delegation that a dead owner left unfinished, as its rows have it."""

    batch_entry_id: str
    title: str
    tasks: list[SubagentTask]
    """Whole, in task order."""
    steps: list[ProcessEvent]
    """All of them, in order."""
    result_written: bool
    """Whether its result entry is there, so that only the model was not told."""
    receipts: dict[str, list[SteerReceipt]] = field(default_factory=dict)
    """Of messages to its tasks, by task id, in order."""


def ended_early(state: SubagentTaskState, error: str) -> RunEnded:
    """An end that was decided here, not by the runner."""
    return RunEnded(state=state, error=error)


def settle(task: SubagentTask, outcome: ChildOutcome) -> None:
    """Bring a task into its end state."""
    ended = outcome.ended
    task.state = ended.state
    task.summary = ended.final_output
    task.error = ended.error
    task.partial_text = ended.partial_text
    task.activity = ""
    task.tool_call_count = max(task.tool_call_count, ended.tool_call_count)
    task.model = ended.model or task.model
    task.end_time.GetCurrentTime()
