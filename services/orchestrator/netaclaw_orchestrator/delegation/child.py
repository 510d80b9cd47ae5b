"""One task: its run in the runner, seen from here.

The runner's events become committed steps (state, tool calls, transcript) or live text. Each task ends exactly once:
the first outcome wins, later lines change nothing. A run that is taken over tells its events again: what is known of
them is not written twice, and every model call is counted once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netaclaw.chat.v1.event_pb2 import (
    AssistantStreamEnd,
    AssistantStreamStart,
    ChatEvent,
    ReceiptState,
    ToolResultStreamed,
)
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ToolResult
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask, SubagentTaskState
from netaclaw.subagent.v1.envelope_pb2 import (
    Cancel,
    ProxyToolCall,
    SteerTaken,
    SubagentTaskEnvelope,
    ToolOutput,
    ToolResultLine,
)
from netaclaw.subagent.v1.envelope_pb2 import ToolCall as ToolCallLine
from netaclaw.subagent.v1.runner_service_pb2 import (
    AttachTarget,
    RunAttached,
    RunCommand,
    RunCompaction,
    RunEnded,
    RunEvent,
    WorkerStarted,
)
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.usage import add_usage
from netaclaw_orchestrator.delegation.budget import Allowance, BatchSpent
from netaclaw_orchestrator.delegation.call_steps import CallSteps
from netaclaw_orchestrator.delegation.outcome import ChildOutcome, ended_early
from netaclaw_orchestrator.delegation.proxied import ProxiedCalls
from netaclaw_orchestrator.delegation.report import preview
from netaclaw_orchestrator.delegation.run_call import NotFollowed, RunCalls, RunFeed
from netaclaw_orchestrator.delegation.sources import ChildPlan, enabled_tools
from netaclaw_orchestrator.delegation.steering import Steering
from netaclaw_orchestrator.journal import Row

if TYPE_CHECKING:  # a batch makes its children
    from netaclaw_orchestrator.delegation.batch_journal import BatchJournal, BatchScope

log = logging.getLogger(__name__)

PROTOCOL_VERSION = 1
GONE_TIMEOUT_S = 10.0
"""After a cancel the runner confirms within its ladder's time; past this the child counts as gone with the runner."""

LIVE = frozenset({"stream_start", "stream_delta", "usage", "tool_output"})
"""Shown at once, and so not before the steps that came earlier are committed. The steps wait for none of each other."""
COMPACTION = "compaction"
"""Type of the step that tells of one."""
MAX_UNWRITTEN = 64
"""Steps of one child that wait for their commit; then its stream is not read on."""


class Child:
    """Runs one task of a batch."""

    def __init__(
        self, journal: BatchJournal, scope: BatchScope, plan: ChildPlan, task: SubagentTask, runs: RunCalls
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._scope = scope
        self._plan = plan
        self.task = task
        self._steps = CallSteps(task, self._report)
        self._feed: RunFeed | None = None
        self._ended: RunEnded | None = None
        self._left_behind = False
        self._stop_reason = ""
        """Why a run of a dead owner's is to be ended as soon as it is found."""
        self._untold = 0
        self._fresh: list[ProcessEvent | None] = []
        """What is to be reported and not posted yet, in order; None for a change that is no step."""
        self._messages: dict[int, Row] = {}
        self._unwritten: list[asyncio.Future[None]] = []
        self._output_bytes: dict[str, int] = {}
        self._attempt = 0
        self._compactions = 0
        """How many of the run's are written."""
        self.steering = Steering(journal, task.task_id, self._command)
        self.gone = asyncio.Event()
        """Set once its end state is committed, or cannot be; nothing of it is alive then."""
        self._proxied = ProxiedCalls(
            scope,
            plan,
            task,
            self._steps,
            report=self._report_now,
            written=self._steps_written,
            command=self._command,
            shown=self._show_output,
        )

    @property
    def started(self) -> bool:
        """Whether it has left the queue."""
        return self._feed is not None

    @property
    def never_began(self) -> bool:
        """Whether it was ended in the queue: no run of it is to be waited for."""
        return self._feed is None and self._ended is not None

    def recover(self, steps: Sequence[ProcessEvent]) -> None:
        """Take over from a dead owner, given all steps of the task that it had committed."""
        self._left_behind = True
        self._compactions = sum(step.type == COMPACTION for step in steps)
        self._steps.recover(steps, self._scope.questions.undecided(self.task.task_id))

    def note_written(self, done: asyncio.Future[None]) -> None:
        """The writing of its end state is over, or was refused because the session has another owner."""
        if not done.cancelled():
            done.exception()  # shows at every later write
        self.gone.set()

    async def run(self) -> ChildOutcome:
        """Run to the end. Cancelling it cancels the run in the runner and waits until it is gone."""
        if self._ended is not None:  # cancelled while it was queued
            return self.outcome()
        reading = asyncio.create_task(self._run())
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            if not self._scope.writer.sealed:  # otherwise the runner holds it for the next owner
                await self.cancel("the turn was cancelled")
                await asyncio.wait([reading], timeout=GONE_TIMEOUT_S)
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
            raise
        return self.outcome()

    async def cancel(self, reason: str) -> None:
        """Ask the runner to end it, once a dead owner's run is found; a task that is still queued never starts."""
        if self._feed is None:
            if self._left_behind and self.task.state == SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING:
                self._stop_reason = reason
            elif self._ended is None:
                self._ended = ended_early(SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED, reason)
            return
        await self._command(RunCommand(cancel=Cancel(reason=reason)))

    async def steer(self, request_id: str, content: str) -> ReceiptState:
        """Send it a message; a receipt event says later whether it was taken or missed."""
        return await self.steering.send(request_id, content, running=self.started and self._ended is None)

    def cancelled(self) -> ChildOutcome:
        """The outcome of a child whose turn was cancelled, unless it ended by itself before."""
        if self._ended is None:
            self._ended = ended_early(SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED, "the turn was cancelled")
        return self.outcome()

    def outcome(self) -> ChildOutcome:
        """How it ended."""
        assert self._ended is not None
        return ChildOutcome(self._ended, self._steps.calls, self._ended.duration_ms)

    async def _run(self) -> None:
        try:
            if not self._left_behind:
                await self._follow(self._begin())
            elif not await self._attached() and self._ended is None:
                await self._begin_again()
        except BatchSpent as spent:
            self._ended = ended_early(spent.state, str(spent))
        finally:
            if self._feed is not None:
                self._feed.leave()
            await self._proxied.close()

    async def _attached(self) -> bool:
        """Go on with the run where its runner still holds it; False when it does not.

        IN_DOUBT is one that has asked its dead owner for something that may have had effect and was not answered, and
        one that may have had effect and is held no more: neither is run on, or again, in silence.
        """
        target = AttachTarget(generation=self._scope.writer.generation)
        feed = self._runs.attach(self.task.task_id, target)
        if self._steps.effect_in_flight or self._stop_reason:
            await feed.tell(RunCommand(cancel=Cancel(reason=self._stop_reason or "its owner died")))
        held = await self._follow(feed)
        if self._stop_reason and self._ended is None:
            self._ended = ended_early(SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED, self._stop_reason)
        if self._steps.effect_in_flight or (not held and self._steps.effect_begun):
            words = "its owner died after it had begun a call that may have had effect"
            partial = self._ended.partial_text or self._ended.final_output if self._ended is not None else ""
            self._ended = ended_early(SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT, words)
            self._ended.partial_text = partial
        return self._ended is not None

    async def _begin_again(self) -> None:
        """Its runner has nothing of it any more: it runs from its beginning. What it did and cost stays known."""
        self.task.earlier_usage.CopyFrom(self.task.usage)
        self._compactions = 0
        self._steps.end_lost()
        self._proxied.close_questions()
        await self._follow(self._begin())

    def _begin(self) -> RunFeed:
        allowance = self._scope.budget.begin(self.task.task_id, self._plan.max_tool_rounds)
        return self._runs.start(self._envelope(allowance))

    async def _follow(self, feed: RunFeed) -> bool:
        """Apply the run's events to its end; False when its runner has no such run."""
        self._feed = feed
        try:
            async for events in feed.batches():
                for event in events:
                    doing = self._on(event)
                    if doing is not None:
                        await doing
                self._flush()
        except NotFollowed as error:
            if error.reason == Reason.REASON_NOT_FOUND:
                return False
            self._lost(error)
        self._flush()  # goes with what is written of its end
        return True

    def _report(self, step: ProcessEvent | None = None) -> None:
        """Have the task's state and the step written, together with those that came in the same message."""
        self._fresh.append(step)

    def _flush(self) -> None:
        """Post what came since the last time, as one. Messages alone are told to nobody: nothing waits for them."""
        messages = list(self._messages.values())
        self._messages.clear()
        if self._fresh:
            steps, self._fresh = self._fresh, []
            self._unwritten.append(self._journal.report(self.task, steps, messages))
        elif messages:
            self._journal.record(messages)

    def _report_now(self) -> None:
        self._report()
        self._flush()

    async def _steps_written(self) -> None:
        """Wait until all steps so far are committed and published."""
        self._flush()
        unwritten, self._unwritten = self._unwritten, []
        for each in unwritten:
            await each

    async def _command(self, command: RunCommand) -> None:
        """Tell the run something; a run that is over does not listen any more."""
        if self._feed is not None:
            await self._feed.tell(command)

    def _lost(self, error: object) -> None:
        if self._ended is None:
            self._ended = ended_early(
                SubagentTaskState.SUBAGENT_TASK_STATE_FAILED, f"the runner could not finish it: {error}"
            )

    def _on(self, event: RunEvent) -> Awaitable[None] | None:
        """Apply one event; what is answered is to be waited for. The runner's order is kept; proxied calls run beside
        the stream."""
        kind = event.WhichOneof("event")
        if self._ended is not None or kind not in _HANDLERS:
            return None
        if (kind in LIVE and (self._fresh or self._unwritten)) or len(self._unwritten) >= MAX_UNWRITTEN:
            return self._on_written(kind, event)
        return _HANDLERS[kind](self, getattr(event, kind))

    async def _on_written(self, kind: str, event: RunEvent) -> None:
        await self._steps_written()
        doing = _HANDLERS[kind](self, getattr(event, kind))
        if doing is not None:
            await doing

    def _on_attached(self, attached: RunAttached) -> None:
        """From here on all is told again, also what an earlier owner has written; and counted from the beginning."""
        self.task.usage.CopyFrom(self.task.earlier_usage)
        add_usage(self.task.usage, attached.usage_before)
        self._untold = attached.held_from_no - 1

    def _on_started(self, started: WorkerStarted) -> None:
        task = self.task
        if task.worker_pid == started.pid and task.state == SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING:
            return  # known from an earlier owner
        task.state = SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING
        task.worker_pid = started.pid
        task.model = started.model or task.model
        task.start_time.GetCurrentTime()
        event = ProcessEvent(
            type="run_start",
            worker_pid=started.pid,
            sandbox_in_force=started.sandbox_in_force,
            sandbox_missing=started.sandbox_missing,
        )
        self._report(event)

    def _on_stream_start(self, start: Any) -> None:
        self._attempt = start.call_no
        opened = AssistantStreamStart(attempt=start.call_no, model=self.task.model)
        self._live(assistant_stream_start=opened)

    def _on_stream_delta(self, delta: Any) -> None:
        self._live(assistant_stream_delta=delta)

    def _on_usage(self, call: Any) -> None:
        add_usage(self.task.usage, call.usage)
        self._live(assistant_stream_end=AssistantStreamEnd(attempt=self._attempt))
        self._report()
        self._journal.spent(self.task)

    def _on_message(self, transcript: Any) -> None:
        # The first message of a run drops what an earlier run of the task has written behind it.
        n, first = transcript.n, transcript.n == len(self._plan.history)
        self._messages[n] = self._journal.message(self.task.task_id, n, transcript.message, is_last=first)

    def _on_compaction(self, made: RunCompaction) -> None:
        if made.n <= self._compactions:
            return  # known from an earlier owner
        self._compactions = made.n
        words = preview(made.error or made.summary)
        self._report(ProcessEvent(type=COMPACTION, content=words, is_error=bool(made.error)))

    def _on_tool_call(self, call: ToolCallLine) -> None:
        self._steps.begin_local(call)

    def _on_tool_result(self, result: ToolResultLine) -> None:
        self._steps.end(result.call_id, ToolResult(content=result.content, is_error=result.is_error))

    def _on_tool_output(self, output: ToolOutput) -> None:
        self._show_output(output.call_id, output.text)

    def _show_output(self, call_id: str, text: str) -> None:
        offset = self._output_bytes.get(call_id, 0)
        self._output_bytes[call_id] = offset + len(text.encode())
        self._live(tool_result_streamed=ToolResultStreamed(call_id=call_id, offset=offset, text=text))

    async def _on_proxy_tool_call(self, call: ProxyToolCall) -> None:
        await self._proxied.begin(call)

    async def _on_steer_taken(self, taken: SteerTaken) -> None:
        await self.steering.taken(taken.request_id)

    def _on_ended(self, ended: RunEnded) -> None:
        self._ended = ended
        if self._untold:
            ended.diagnostics.append(f"its first {self._untold} events were no longer held when it was taken over")

    def _live(self, **payload: object) -> None:
        self._scope.publisher.live(
            ChatEvent(
                turn_id=self._scope.turn_id,
                entry_id=self._scope.entry_id,
                task_id=self.task.task_id,
                **payload,  # type: ignore[arg-type]  # one member of the event oneof
            )
        )

    def _envelope(self, allowance: Allowance) -> SubagentTaskEnvelope:
        plan = self._plan
        names = enabled_tools(plan.policy)
        return SubagentTaskEnvelope(
            protocol_version=PROTOCOL_VERSION,
            run_id=self.task.task_id,
            session_id=self._scope.session_id,
            parent_entry_id=self._scope.entry_id,
            task=self.task,
            agent_config=plan.agent,
            tool_names=names,
            tool_manifest=[tool for tool in KNOWN_TOOLS if tool.tool_name in names],
            policy=plan.policy,
            timeout_ms=allowance.timeout_ms,
            budget=allowance.budget,
            owner_id=self._scope.owner_id,
            history=plan.history,
        )


_HANDLERS: Mapping[str, Callable[[Child, Any], Awaitable[None] | None]] = {
    name.removeprefix("_on_"): handler
    for name, handler in vars(Child).items()
    if name.removeprefix("_on_") in RunEvent.DESCRIPTOR.fields_by_name
}
"""By kind of event."""
