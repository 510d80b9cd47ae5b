"""A delegation's writes: the rows of its tasks, their steps, the entries that stand for it, and their events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.event_pb2 import (
    ChatEvent,
    ReceiptState,
    SteerReceipt,
    SubagentEvent,
    SubagentRunCompleted,
    SubagentRunStarted,
)
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState, Message
from netaclaw.session.v1.subagent_pb2 import (
    EvidenceSummary,
    ProcessEvent,
    SubagentBatch,
    SubagentBatchBody,
    SubagentCounts,
    SubagentFinalResult,
    SubagentResultBody,
    SubagentTask,
    SubagentTaskState,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import (
    EntryWrite,
    EventWrite,
    ProcessEventWrite,
    SubagentEntryWrite,
    SubagentTaskWrite,
    Write,
)
from netaclaw_agent.usage import add_usage
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.budget import BatchBudget
from netaclaw_orchestrator.delegation.fitting import check_begin, fit_end
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.questions import Questions
from netaclaw_orchestrator.tool_host import ToolHost

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

_COUNTED = {
    state: SubagentTaskState.Name(state).removeprefix("SUBAGENT_TASK_STATE_").lower()
    for state in SubagentTaskState.values()
    if state
}
_USAGE_FIELDS = tuple(field.name for field in Usage.DESCRIPTOR.fields)


@dataclass(frozen=True, slots=True)
class BatchScope:
    """Where a batch hangs and what it works with."""

    owner_id: str
    session_id: str
    turn_id: str
    entry_id: str
    """The assistant entry whose call delegates."""
    agent: Agent
    writer: JournalWriter
    publisher: Publisher
    runner: RunnerServiceAsyncStub
    host: ToolHost
    questions: Questions
    budget: BatchBudget
    anchor_bytes: Callable[[], int]
    """Size of the anchor's entry as it is written."""
    attach: Callable[[str, str], Write]
    """(batch entry id, call id) → the write that puts the batch reference into the anchor."""
    on_spent: Callable[[], None]
    """Told when a child has spent something."""


class BatchJournal:
    """One delegation's rows. Keeps the sums that its live events carry."""

    def __init__(
        self,
        scope: BatchScope,
        call_id: str,
        tasks: Sequence[SubagentTask],
        *,
        entry_id: str,
        title: str,
        steps: int = 0,
    ) -> None:
        """`steps`: how many process events the batch has already."""
        self._scope = scope
        self._call_id = call_id
        self.entry_id = entry_id
        self._title = title
        self._steps = steps
        self.counts = SubagentCounts(total=len(tasks))
        self.usage = Usage()
        """Sum over the tasks so far."""
        self._counted: dict[str, tuple[int, Usage]] = {}
        for task in tasks:
            self._count(task)

    @property
    def lost(self) -> bool:
        """Whether nothing more can be written here."""
        return self._scope.writer.failed

    async def begin(self, tasks: Sequence[SubagentTask]) -> None:
        """Commit the batch with its tasks: nobody hears of it before. Raises ToolError when they are too large."""
        header = SubagentBatch(
            parent_entry_id=self._scope.entry_id,
            batch_entry_id=self.entry_id,
            tool_call_id=self._call_id,
            title=self._title,
        )
        entry = self._entry(self.entry_id, EntryKind.ENTRY_KIND_SUBAGENT_BATCH, EntryState.ENTRY_STATE_STREAMING)
        entry.subagent_batch.CopyFrom(SubagentBatchBody(batch=header))
        started = self._event(subagent_run_started=SubagentRunStarted(batch=self._reference()))
        rows = [Write(entry=EntryWrite(entry=entry)), *(self._row(task) for task in tasks)]
        check_begin(rows, self._scope.anchor_bytes())
        attached = self._scope.attach(self.entry_id, self._call_id)
        await self._scope.writer.append(*rows, attached, Write(event=EventWrite(event=started)))

    def report(
        self,
        task: SubagentTask,
        step: ProcessEvent | None = None,
        *,
        result: SubagentFinalResult | None = None,
        evidence: Sequence[EvidenceSummary] = (),
    ) -> asyncio.Future[None]:
        """Commit and publish a task's new state, with the step that led to it and what it left behind.

        Returns at once; the future is done when it is committed.
        """
        if result is not None:
            fit_end(task, result)
        self._count(task)
        writes = [self._row(task, result, evidence)]
        if step is not None:
            step.task_id = task.task_id
            step.time.GetCurrentTime()
            place = ProcessEventWrite(batch_entry_id=self.entry_id, n=self._steps, process_event=step)
            self._steps += 1
            writes.append(Write(process_event=place))
        change = SubagentEvent(
            batch_entry_id=self.entry_id,
            item=SubagentTask(task_id=task.task_id),
            counts=self.counts,
            usage=self.usage,
            process_event=step,
            result=SubagentFinalResult() if result is not None else None,
        )
        writes.append(Write(event=EventWrite(event=self._event(task.task_id, subagent_event=change))))
        return self._scope.writer.post(*writes)

    def record(self, task_id: str, n: int, message: Message, *, is_last: bool) -> asyncio.Future[None]:
        """Commit a message of a child's transcript; `is_last` drops what stands behind it."""
        written = SubagentEntryWrite(task_id=task_id, n=n, message=message, is_last=is_last)
        return self._scope.writer.post(Write(subagent_entry=written))

    def receipt(self, task_id: str, request_id: str, state: ReceiptState) -> asyncio.Future[None]:
        """Commit and publish what became of a message to a child."""
        event = self._event(task_id, steer_receipt=SteerReceipt(request_id=request_id, state=state))
        return self._scope.writer.post(Write(event=EventWrite(event=event)))

    def finish(self) -> asyncio.Future[None]:
        """Commit the result entry and the batch's end."""
        result_id = new_id()
        result = self._entry(result_id, EntryKind.ENTRY_KIND_SUBAGENT_RESULT, EntryState.ENTRY_STATE_COMPLETE)
        header = SubagentBatch(batch_entry_id=self.entry_id, title=self._title)
        result.subagent_result.CopyFrom(SubagentResultBody(batch_entry_id=self.entry_id, batch=header))
        batch = self._entry(self.entry_id, EntryKind.ENTRY_KIND_SUBAGENT_BATCH, EntryState.ENTRY_STATE_COMPLETE)
        batch.subagent_batch.CopyFrom(SubagentBatchBody(batch=header))
        completed = SubagentRunCompleted(batch=self._reference(), result_entry_id=result_id)
        return self._scope.writer.post(
            Write(entry=EntryWrite(entry=result)),
            Write(entry=EntryWrite(entry=batch)),
            Write(event=EventWrite(event=self._event(subagent_run_completed=completed))),
        )

    def _count(self, task: SubagentTask) -> None:
        """Bring counts and sum up to date with one task."""
        state, spent = self._counted.get(task.task_id, (0, Usage()))
        if task.state != state:
            for each, by in ((state, -1), (task.state, 1)):
                if each:
                    setattr(self.counts, _COUNTED[each], getattr(self.counts, _COUNTED[each]) + by)
        if task.usage != spent:
            for name in _USAGE_FIELDS:
                setattr(self.usage, name, getattr(self.usage, name) - getattr(spent, name))
            add_usage(self.usage, task.usage)
            spent = Usage()
            spent.CopyFrom(task.usage)
        self._counted[task.task_id] = (task.state, spent)

    def _reference(self) -> SubagentBatch:
        return SubagentBatch(batch_entry_id=self.entry_id)

    def _event(self, task_id: str = "", **payload: object) -> ChatEvent:
        scope = self._scope
        return ChatEvent(
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            entry_id=scope.entry_id,
            task_id=task_id,
            **payload,  # type: ignore[arg-type]  # one member of the event oneof
        )

    def _entry(self, entry_id: str, kind: EntryKind, state: EntryState) -> Entry:
        return Entry(
            entry_id=entry_id,
            session_id=self._scope.session_id,
            parent_entry_id=self._scope.entry_id,
            turn_id=self._scope.turn_id,
            kind=kind,
            state=state,
            tool_call_id=self._call_id,
        )

    def _row(
        self, task: SubagentTask, result: SubagentFinalResult | None = None, evidence: Sequence[EvidenceSummary] = ()
    ) -> Write:
        return Write(
            subagent_task=SubagentTaskWrite(
                task=task,
                parent_entry_id=self._scope.entry_id,
                tool_call_id=self._call_id,
                parent_agent_id=self._scope.agent.agent_id,
                batch_entry_id=self.entry_id,
                result=result,
                evidence_summaries=evidence,
            )
        )
