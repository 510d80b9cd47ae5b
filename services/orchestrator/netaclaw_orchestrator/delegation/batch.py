"""One delegate_* call: queue, concurrency, results.

delegate call → plan → rows and batch entry committed → children, as many at once as the turn may have → result entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.tools.delegation import task_name
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.batch_journal import BatchJournal, BatchScope
from netaclaw_orchestrator.delegation.call_steps import CallSteps
from netaclaw_orchestrator.delegation.child import Child
from netaclaw_orchestrator.delegation.outcome import ENDED, ChildOutcome, LeftBehind, ended_early, settle
from netaclaw_orchestrator.delegation.report import evidence, final_result, report_text
from netaclaw_orchestrator.delegation.run_call import RunCalls
from netaclaw_orchestrator.delegation.sources import ChildPlan, enabled_tools


class Batch:
    """Runs one delegation to its end: exactly one result per task, in task order, whatever happens to each."""

    def __init__(
        self,
        scope: BatchScope,
        call: ToolCallPart,
        plans: Sequence[ChildPlan],
        *,
        places: asyncio.Semaphore,
        report_bytes: int,
        left_behind: LeftBehind | None = None,
    ) -> None:
        """`places`: for children at once. `left_behind`: what a dead owner began; its finished children are kept, the
        others go on."""
        self._places = places
        self._report_bytes = report_bytes
        self._budget = scope.budget
        self._left_behind = left_behind
        if left_behind is not None:
            self._tasks = list(left_behind.tasks)
            entry_id, title, steps = left_behind.batch_entry_id, left_behind.title, len(left_behind.steps)
        else:
            self._tasks = [_queued(plan, order) for order, plan in enumerate(plans)]
            entry_id, steps = new_id(), 0
            title = self._tasks[0].name if len(plans) == 1 else f"{len(plans)} tasks"
        self._journal = BatchJournal(scope, call.call_id, self._tasks, entry_id=entry_id, title=title, steps=steps)
        self._ended: set[str] = set()
        self._finished: asyncio.Future[None] | None = None
        self._runs = RunCalls(scope.runner, scope.owner_id)
        self._children = {
            task.task_id: Child(self._journal, scope, plan, task, self._runs)
            for task, plan in zip(self._tasks, plans, strict=True)
        }
        if left_behind is not None:
            self._recover(left_behind)

    @property
    def size(self) -> int:
        """How many tasks it has."""
        return len(self._tasks)

    @property
    def usage(self) -> Usage:
        """Sum over the tasks so far."""
        return self._journal.usage

    async def run(self) -> ToolResult:
        """Run all tasks; returns the report for the model. Cancelling it cancels the children and waits for them.

        Raises ToolError, with nothing begun, when they are too large.
        """
        running: list[asyncio.Task[None]] = []
        try:
            if self._left_behind is None:
                await self._journal.begin(self._tasks)
            running = [asyncio.create_task(self._run_child(child)) for child in self._children.values()]
            await asyncio.wait(running)  # not gather, which would cancel them as well: twice would cut their ends short
            for task in running:
                task.result()
        except asyncio.CancelledError:  # also while it is begun: what is on its way to the store is there, and ends
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
            await self._finish()
            raise
        finally:
            await self._runs.close()
        await self._finish()
        return ToolResult(content=report_text(self._tasks, self._report_bytes))

    async def stop(self, reason: str) -> None:
        """Instead of `run`: end a batch that a dead owner left, its runs as far as they are held. Nothing is begun."""
        for child in self._children.values():
            await child.cancel(reason)
        await self.run()

    def child(self, task_id: str) -> Child | None:
        """The child of a task of this batch."""
        return self._children.get(task_id)

    async def cancel(self, task_id: str) -> SubagentTask | None:
        """End one task; returns it with its end state once it is gone.

        None when it is not of this batch, or not any more because the session has another owner.
        """
        child = self._children.get(task_id)
        if child is None:
            return None
        await child.cancel("cancelled by a person")
        if child.never_began:
            self._end(child, child.outcome())
        await child.gone.wait()
        return None if self._journal.lost else child.task

    async def _run_child(self, child: Child) -> None:
        """One child from queue to end state; failures of ours become its failure, never its siblings'."""
        if child.task.task_id in self._ended:
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
        task = child.task
        if task.task_id in self._ended:
            return
        self._ended.add(task.task_id)
        settle(task, outcome)
        self._budget.end(task)
        written = self._journal.report(
            task, [outcome.event], result=final_result(outcome), evidence=evidence(task, outcome)
        )
        child.steering.close(written).add_done_callback(child.note_written)
        if len(self._ended) == len(self._children):
            self._finished = self._journal.finish()

    async def _finish(self) -> None:
        for child in self._children.values():
            self._end(child, child.cancelled())  # those that never left the queue
        if self._finished is None and not (self._left_behind is not None and self._left_behind.result_written):
            self._finished = self._journal.finish()  # a dead owner had written all ends
        if self._finished is not None:
            await asyncio.shield(self._finished)

    def _recover(self, left_behind: LeftBehind) -> None:
        """Keep ended children; the others go on or begin again, with what they did known."""
        for task in self._tasks:
            child = self._children[task.task_id]
            child.steering.recover(left_behind.receipts.get(task.task_id, ()))
            if task.state in ENDED:
                self._ended.add(task.task_id)
                child.gone.set()
            else:
                child.recover([step for step in left_behind.steps if step.task_id == task.task_id])


async def give_up(scope: BatchScope, call_id: str, left_behind: LeftBehind, error: str) -> None:
    """End what a dead owner left of a delegation, without running anything again."""
    journal = BatchJournal(
        scope,
        call_id,
        left_behind.tasks,
        entry_id=left_behind.batch_entry_id,
        title=left_behind.title,
        steps=len(left_behind.steps),
    )
    for task in left_behind.tasks:
        if task.state in ENDED:
            continue
        steps = CallSteps(task, lambda step: None)  # nothing more is reported of its calls
        steps.recover([step for step in left_behind.steps if step.task_id == task.task_id])
        doubt = steps.effect_begun
        state = (
            SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT if doubt else SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
        )
        outcome = ChildOutcome(ended_early(state, error), steps.calls)
        settle(task, outcome)
        journal.report(task, [outcome.event], result=final_result(outcome), evidence=evidence(task, outcome))
    if not left_behind.result_written:
        await journal.finish()


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
        resumed_task_id=plan.spec.resume_task_id,
    )
