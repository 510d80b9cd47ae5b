"""One delegate_* call: queue, concurrency, journal, results.

delegate call → plan → rows and batch entry committed → children, as many at once as the turn may have → result entry.
"""

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
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState, Message, ToolCallPart, ToolResult
from netaclaw.session.v1.subagent_pb2 import (
    ProcessEvent,
    SubagentBatch,
    SubagentBatchBody,
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
from netaclaw_agent.tools.delegation import task_name
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.child import Child
from netaclaw_orchestrator.delegation.outcome import ChildOutcome, ended_outcome
from netaclaw_orchestrator.delegation.report import evidence, final_result, report_text
from netaclaw_orchestrator.delegation.sources import ChildPlan, enabled_tools
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.tool_host import ToolHost
from netaclaw_orchestrator.usage import add_usage

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

MAX_BATCH_EVENTS = 200
"""Process events kept in the running batch entry; the result entry keeps all."""

ENDED = frozenset(
    {
        SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED,
        SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL,
        SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT,
        SubagentTaskState.SUBAGENT_TASK_STATE_FAILED,
        SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED,
        SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT,
    }
)


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
    attach: Callable[[str, str], Write]
    """(batch entry id, call id) → the write that puts the batch reference into the anchor."""


class Batch:
    """Runs one delegation to its end: exactly one result per task, in task order, whatever happens to each."""

    def __init__(
        self,
        scope: BatchScope,
        call: ToolCallPart,
        plans: Sequence[ChildPlan],
        *,
        places: asyncio.Semaphore,
        timeout_s: int,
        left_behind: Entry | None = None,
    ) -> None:
        """`places`: for children at once. `left_behind`: the batch entry of a dead owner; its finished children are
        kept, the others go on."""
        self._scope = scope
        self._call_id = call.call_id
        self._places = places
        self._left_behind = left_behind is not None
        if left_behind is not None:
            self.entry_id = left_behind.entry_id
            self.body = SubagentBatchBody()
            self.body.CopyFrom(left_behind.subagent_batch)
        else:
            self.entry_id = new_id()
            self.body = _new_body(scope, self.entry_id, call.call_id, plans)
        self._items = {item.task_id: item for item in self.body.batch.items}
        self._events: list[ProcessEvent] = []
        self._results: dict[str, SubagentFinalResult] = {}
        self._outcomes: dict[str, ChildOutcome] = {}
        self._finished: asyncio.Future[None] | None = None
        self._children = {
            item.task_id: Child(self, scope, plan, item, timeout_s=timeout_s)
            for item, plan in zip(self.body.batch.items, plans, strict=True)
        }
        if left_behind is not None:
            self._recover()
        self._count()

    @property
    def usage(self) -> Usage:
        """Sum over the tasks so far."""
        return self.body.batch.usage

    async def run(self) -> ToolResult:
        """Run all tasks; returns the report for the model. Cancelling it cancels the children and waits for them."""
        await self._begin()
        tasks = [asyncio.create_task(self._run_child(child)) for child in self._children.values()]
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._finish()
            raise
        await self._finish()
        return ToolResult(content=report_text([self._results[task_id] for task_id in self._items]))

    def child(self, task_id: str) -> Child | None:
        """The child of a task of this batch."""
        return self._children.get(task_id)

    def receipt(self, task_id: str, request_id: str, state: ReceiptState) -> asyncio.Future[None]:
        """Commit and publish what became of a message to a child; done when it is."""
        event = self._event(steer_receipt=SteerReceipt(request_id=request_id, state=state))
        event.task_id = task_id
        return self._scope.writer.post(Write(event=EventWrite(event=event)))

    async def cancel(self, task_id: str) -> SubagentTask | None:
        """End one task; returns it with its end state once it is gone, or None when it is not of this batch."""
        child = self._children.get(task_id)
        if child is None:
            return None
        await child.cancel("cancelled by a person")
        if not child.started:
            self._end(child, child.outcome())
        await child.gone.wait()
        return child.task

    async def abandon(self) -> None:
        """End what a dead owner left, without running anything again."""
        for child in self._children.values():
            self._end(child, child.cancelled())
        await self._finish()

    def report(self, task: SubagentTask, event: ProcessEvent | None = None) -> asyncio.Future[None]:
        """Commit and publish a task's new state, with the step that led to it; done when it is."""
        if event is not None:
            event.task_id = task.task_id
            event.time.GetCurrentTime()
            self._events.append(event)
            self.body.events.append(event)
            del self.body.events[:-MAX_BATCH_EVENTS]
            self.body.latest_event.CopyFrom(event)
        self._count()
        change = SubagentEvent(batch_entry_id=self.entry_id)
        if event is not None:
            change.process_event.CopyFrom(event)
        reported = self._event(subagent_event=change)
        reported.task_id = task.task_id
        return self._scope.writer.post(
            self._entry_write(quiet=True), self._row_write(task), Write(event=EventWrite(event=reported))
        )

    def record(self, task_id: str, n: int, message: Message) -> asyncio.Future[None]:
        """Commit a message of the child's transcript; done when it is."""
        row = SubagentEntryWrite(task_id=task_id, n=n, message=message)
        return self._scope.writer.post(Write(subagent_entry=row))

    async def _begin(self) -> None:
        if self._left_behind:  # the rows are there; the card loses the steps that will be reported again
            await self._scope.writer.append(self._entry_write())
            return
        started = self._event(subagent_run_started=SubagentRunStarted(batch=self._reference()))
        await self._scope.writer.append(
            self._entry_write(),
            self._scope.attach(self.entry_id, self._call_id),
            *(self._row_write(item) for item in self.body.batch.items),
            Write(event=EventWrite(event=started)),
        )

    async def _run_child(self, child: Child) -> None:
        """One child from queue to end state; failures of ours become its failure, never its siblings'."""
        if child.task.task_id in self._outcomes:
            return
        try:
            async with self._places:
                outcome = await child.run()
        except asyncio.CancelledError:
            self._end(child, child.cancelled())
            raise
        self._end(child, outcome)

    def _end(self, child: Child, outcome: ChildOutcome) -> None:
        """Write a child's end, and with the last one the result: the parent goes on after one commit."""
        item = child.task
        if item.task_id in self._outcomes:
            return
        child.settle(outcome)
        self._outcomes[item.task_id] = outcome
        self._results[item.task_id] = final_result(item, outcome)
        written = self.report(item, outcome.event)
        for request_id in child.unread:
            written = self.receipt(item.task_id, request_id, ReceiptState.RECEIPT_STATE_MISSED)
        written.add_done_callback(child.note_written)
        if len(self._outcomes) == len(self._children):
            self._finished = self._write_result()

    async def _finish(self) -> None:
        for child in self._children.values():
            self._end(child, child.cancelled())  # those that never left the queue
        if self._finished is None:  # a dead owner had written all ends
            self._finished = self._write_result()
        await asyncio.shield(self._finished)

    def _write_result(self) -> asyncio.Future[None]:
        self._count()
        result_id = new_id()
        body = SubagentResultBody(
            batch_entry_id=self.entry_id,
            batch=self.body.batch,
            final_results=[self._results[task_id] for task_id in self._items],
            process_events=self._events,
            evidence_summaries=[
                found for item in self.body.batch.items for found in evidence(item, self._outcomes[item.task_id])
            ],
        )
        result = self._entry(result_id, EntryKind.ENTRY_KIND_SUBAGENT_RESULT, EntryState.ENTRY_STATE_COMPLETE)
        result.subagent_result.CopyFrom(body)
        completed = self._event(
            subagent_run_completed=SubagentRunCompleted(batch=self._reference(), result_entry_id=result_id)
        )
        return self._scope.writer.post(
            Write(entry=EntryWrite(entry=result)), self._entry_write(), Write(event=EventWrite(event=completed))
        )

    def _recover(self) -> None:
        """Keep ended children with their results and steps; the others begin again, with what they did known."""
        for item in self.body.batch.items:
            steps = [event for event in self.body.events if event.task_id == item.task_id]
            child = self._children[item.task_id]
            if item.state in ENDED:
                outcome = ended_outcome(item, steps)
                self._outcomes[item.task_id] = outcome
                self._results[item.task_id] = final_result(item, outcome)
                self._events.extend(steps)
                child.gone.set()
            else:
                child.recover(steps)
        kept = [event for event in self.body.events if event.task_id in self._outcomes]
        del self.body.events[:]
        self.body.events.extend(kept)
        self.body.ClearField("latest_event")

    def _count(self) -> None:
        batch = self.body.batch
        counts = batch.counts
        counts.Clear()
        counts.total = len(batch.items)
        for item in batch.items:
            name = SubagentTaskState.Name(item.state).removeprefix("SUBAGENT_TASK_STATE_").lower()
            setattr(counts, name, getattr(counts, name) + 1)
        batch.usage.Clear()
        for item in batch.items:
            add_usage(batch.usage, item.usage)

    def _reference(self) -> SubagentBatch:
        return SubagentBatch(batch_entry_id=self.entry_id)

    def _event(self, **payload: object) -> ChatEvent:
        scope = self._scope
        return ChatEvent(
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            entry_id=scope.entry_id,
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

    def _entry_write(self, *, quiet: bool = False) -> Write:
        ended = all(item.state in ENDED for item in self.body.batch.items)
        state = EntryState.ENTRY_STATE_COMPLETE if ended else EntryState.ENTRY_STATE_STREAMING
        entry = self._entry(self.entry_id, EntryKind.ENTRY_KIND_SUBAGENT_BATCH, state)
        entry.subagent_batch.CopyFrom(self.body)
        return Write(entry=EntryWrite(entry=entry, quiet=quiet))

    def _row_write(self, item: SubagentTask) -> Write:
        return Write(
            subagent_task=SubagentTaskWrite(
                task=item,
                parent_entry_id=self._scope.entry_id,
                tool_call_id=self._call_id,
                parent_agent_id=self._scope.agent.agent_id,
                batch_entry_id=self.entry_id,
                result=self._results.get(item.task_id),
            )
        )


def _new_body(scope: BatchScope, entry_id: str, call_id: str, plans: Sequence[ChildPlan]) -> SubagentBatchBody:
    items = [_queued(plan, order) for order, plan in enumerate(plans)]
    return SubagentBatchBody(
        batch=SubagentBatch(
            parent_entry_id=scope.entry_id,
            batch_entry_id=entry_id,
            tool_call_id=call_id,
            title=items[0].name if len(items) == 1 else f"{len(items)} tasks",
            items=items,
        )
    )


def _queued(plan: ChildPlan, order: int) -> SubagentTask:
    return SubagentTask(
        task_id=new_id(),
        name=plan.agent.name if plan.preset_agent_id else task_name(plan.spec),
        source_type=plan.source,
        preset_agent_id=plan.preset_agent_id,
        state=SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED,
        goal=plan.spec.goal,
        context=plan.spec.context,
        sort_order=order,
        model=plan.agent.model,
        tool_names=enabled_tools(plan.policy),
        tool_runtime_routes=plan.policy.routes,
    )
