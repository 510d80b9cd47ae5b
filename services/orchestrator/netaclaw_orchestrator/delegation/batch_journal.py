"""A delegation's writes: the rows of its tasks, their steps, the entries that stand for it, and their events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.event_pb2 import (
    ChatEvent,
    ReceiptState,
    SteerReceipt,
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
    SubagentEntryWrite,
    SubagentTaskWrite,
    Write,
)
from netaclaw_agent.usage import add_usage, take_usage
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.budget import BatchBudget
from netaclaw_orchestrator.delegation.fitting import check_begin, fit_end
from netaclaw_orchestrator.journal import JournalWriter, Row
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.questions import Questions
from netaclaw_orchestrator.tool_host import ToolHost

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

MAX_STEPS = 100
"""Steps in one write."""

_COUNTED = {
    state: SubagentTaskState.Name(state).removeprefix("SUBAGENT_TASK_STATE_").lower()
    for state in SubagentTaskState.values()
    if state
}


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
        self._rows: dict[tuple[str, int], Row] = {}
        self._messages: dict[tuple[str, int], Message] = {}
        """Each in its newest version."""
        self._left: dict[str, tuple[SubagentFinalResult, Sequence[EvidenceSummary]]] = {}
        self._spending = False
        self._counted: dict[str, tuple[int, Usage]] = {}
        for task in tasks:
            self.count(task)

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
        steps: Sequence[ProcessEvent | None] = (None,),
        messages: Sequence[Row] = (),
        *,
        result: SubagentFinalResult | None = None,
        evidence: Sequence[EvidenceSummary] = (),
    ) -> asyncio.Future[None]:
        """Commit and publish a task's new state, with the steps and messages that led to it and what it left behind.

        An event tells of each step, and of each None: a change that is no step. Their number is the run's own, however
        many were posted together.

        Returns at once; the future is done when it is committed.
        """
        self.count(task)
        if result is not None:
            fit_end(task, result)
            self._left[task.task_id] = result, evidence
        row = self._waiting((task.task_id, -1), lambda: self._row(task, *self._left.get(task.task_id, (None, ()))))
        groups = list(_told_together(steps))
        writes = [self._told(task.task_id, group, ended=result is not None and group is groups[-1]) for group in groups]
        return self._scope.writer.post(*writes, rows=[*messages, row])

    def record(self, rows: Sequence[Row]) -> asyncio.Future[None]:
        """Commit messages of a child's transcript that nothing is to be told of."""
        return self._scope.writer.post(rows=rows)

    def message(self, task_id: str, n: int, message: Message, *, is_last: bool) -> Row:
        """A message of a child's transcript, to be recorded or reported; `is_last` drops what stands behind it."""
        self._messages[task_id, n] = message

        def make() -> Write:
            write = Write(subagent_entry=SubagentEntryWrite(task_id=task_id, n=n, is_last=is_last))
            write.subagent_entry.message.CopyFrom(self._messages[task_id, n])
            return write

        return self._waiting((task_id, n), make)

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

    def _told(self, task_id: str, steps: Sequence[ProcessEvent], *, ended: bool) -> Write:
        write = Write()
        told = write.subagent_steps
        told.parent_entry_id, told.turn_id = self._scope.entry_id, self._scope.turn_id
        told.batch_entry_id, told.task_id, told.first_n = self.entry_id, task_id, self._steps
        told.counts.CopyFrom(self.counts)
        told.usage.CopyFrom(self.usage)
        told.ended = ended
        self._steps += len(steps)
        now = time.time_ns()
        for step in steps:
            step.task_id = task_id
            step.time.seconds, step.time.nanos = divmod(now, 10**9)
            told.process_events.append(step)
        return write

    def _waiting(self, key: tuple[str, int], make: Callable[[], Write]) -> Row:
        """The row of a task, or of a message of its transcript, that waits to be written; a new one unless one does."""
        row = self._rows.get(key)
        if row is None or row.sent:
            row = self._rows[key] = Row(make)
        return row

    def spent(self, task: SubagentTask) -> None:
        """A task has cost something more. The turn shows it soon, once for all that have spent by then."""
        self.count(task)
        if not self._spending:
            self._spending = True
            asyncio.get_running_loop().call_soon(self._show_spent)

    def _show_spent(self) -> None:
        self._spending = False
        self._scope.on_spent()

    def count(self, task: SubagentTask) -> None:
        """Bring counts and sum up to date with one task, before it is reported."""
        state, spent = self._counted.get(task.task_id, (0, Usage()))
        if task.state != state:
            for each, by in ((state, -1), (task.state, 1)):
                if each:
                    setattr(self.counts, _COUNTED[each], getattr(self.counts, _COUNTED[each]) + by)
        if task.usage != spent:
            take_usage(self.usage, spent)
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
        write = Write(
            subagent_task=SubagentTaskWrite(
                parent_entry_id=self._scope.entry_id,
                tool_call_id=self._call_id,
                parent_agent_id=self._scope.agent.agent_id,
                batch_entry_id=self.entry_id,
                result=result,
                evidence_summaries=evidence,
            )
        )
        write.subagent_task.task.CopyFrom(task)
        return write


def _told_together(steps: Sequence[ProcessEvent | None]) -> Iterator[list[ProcessEvent]]:
    """Steps that go in one write, in order; an empty list for each None."""
    group: list[ProcessEvent] = []
    for step in steps:
        if group and (step is None or len(group) == MAX_STEPS):
            yield group
            group = []
        if step is None:
            yield []
        else:
            group.append(step)
    if group:
        yield group
