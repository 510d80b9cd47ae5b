"""The tool calls of a turn: journaled before they act and after, run side by side where that is safe."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from netaclaw.chat.v1.event_pb2 import (
    ReceiptState,
    TodoUpdate,
    ToolCallCompleted,
    ToolCallStarted,
    ToolResultStreamed,
)
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry, ToolCallPart, ToolCallState, ToolResult
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.tool.v1.tool_pb2 import ToolApproval, ToolEffect, ToolManifest, ToolRuntimeRoute
from netaclaw_agent.model import ModelError
from netaclaw_agent.policy import resolve, run_call
from netaclaw_agent.tool import Handler, ToolBox, ToolError
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.clarify import CLARIFY, parse_clarify
from netaclaw_agent.tools.delegation import READ_RESULT, parse_delegation, parse_read
from netaclaw_agent.tools.todo import TODO_WRITE, describe_todos, parse_todos
from netaclaw_agent.usage import add_usage, take_usage
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.delegation.batch import Batch, give_up
from netaclaw_orchestrator.delegation.batch_journal import BatchScope
from netaclaw_orchestrator.delegation.budget import BatchBudget
from netaclaw_orchestrator.delegation.limits import TurnLimits
from netaclaw_orchestrator.delegation.outcome import LeftBehind
from netaclaw_orchestrator.delegation.report import report_budget
from netaclaw_orchestrator.delegation.sources import ChildPlan, plan_children
from netaclaw_orchestrator.large_content import at_rest
from netaclaw_orchestrator.prelude import DELEGATE_TOOLS, runs_here
from netaclaw_orchestrator.questions import Asker
from netaclaw_orchestrator.turn_context import TurnContext
from netaclaw_orchestrator.unrun import NEVER_ALLOWED, NEVER_BEGAN, UNRUN

_BEGUN = (ToolCallState.TOOL_CALL_STATE_WAITING, ToolCallState.TOOL_CALL_STATE_RUNNING)


class ToolCalls:
    """Runs the calls of a turn's messages and keeps its delegations."""

    def __init__(self, context: TurnContext, on_spent: Callable[[], None]) -> None:
        """`on_spent` is told when a delegation has cost something."""
        self._context = context
        self._on_spent = on_spent
        self._parent = context.prelude.parent
        self._batches: list[Batch] = []
        self._spent_before = Usage()
        self._spent_before.CopyFrom(context.delegated)
        self._limits = TurnLimits(
            max_concurrent=self._parent.config.max_concurrent, max_per_turn=self._parent.settings.max_per_turn
        )
        self._anchor: AnchorEntry | None = None
        self._output_bytes: dict[str, int] = {}
        self._own_handlers: dict[str, Handler] = {
            READ_RESULT: self._read_result,
            TODO_WRITE: self._write_todos,
            CLARIFY: self._clarify,
        }
        self.count = 0
        """Calls run so far."""

    @cached_property
    def box(self) -> ToolBox:
        """The tools that are bound; made at the first call, for most turns make none."""
        return resolve(self._parent.policy, self._bind, KNOWN_TOOLS)

    @property
    def usage(self) -> Usage:
        """Sum over the delegations so far, those of earlier owners included."""
        total = Usage()
        total.CopyFrom(self._spent_before)
        for batch in self._batches:
            add_usage(total, batch.usage)
        return total

    async def run(self, anchor: AnchorEntry, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        """Run the calls of one message, in order; returns them ended.

        Neighbours that only read, and delegations, run side by side; others alone. Cancelling it stops what runs and
        returns when it is gone.
        """
        self._anchor = anchor
        ended: list[ToolCallPart] = []
        for group in self._groups(calls):
            running = [asyncio.create_task(self._run_one(anchor, call)) for call in group]
            try:
                # Not gather, which would cancel them as well: twice would cut short what waits for its end.
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
            except BaseException:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)
                raise
            ended.extend(task.result() for task in running)
        return ended

    def remember(self, entries: Sequence[Entry]) -> None:
        """Count what the turn did before it was taken over."""
        for entry in entries:
            self.count += sum(part.tool_call.HasField("result") for part in entry.assistant.parts)
        self._limits.remember(entries)

    async def cancel_subagent(self, task_id: str) -> SubagentTask | None:
        """End one child; None when this turn has no such task."""
        for batch in self._batches:
            task = await batch.cancel(task_id)
            if task is not None:
                return task
        return None

    async def steer_subagent(self, task_id: str, request_id: str, content: str) -> ReceiptState | None:
        """Send a message to one child; None when this turn has no such task."""
        for batch in self._batches:
            child = batch.child(task_id)
            if child is not None:
                return await child.steer(request_id, content)
        return None

    def _bind(self, manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        if not runs_here(manifest, route):
            return None
        own = self._own_handlers.get(manifest.tool_name)
        if own is not None:
            return own
        return self._delegate if manifest.tool_name in DELEGATE_TOOLS else self._run_in_host

    def _groups(self, calls: Sequence[ToolCallPart]) -> list[list[ToolCallPart]]:
        groups: list[list[ToolCallPart]] = []
        beside = False
        for call in calls:
            tool = self.box.tools.get(call.tool_name)
            harmless = call.tool_name in DELEGATE_TOOLS or (
                tool is not None and tool.manifest.effect == ToolEffect.TOOL_EFFECT_PURE
            )
            if groups and harmless and beside:
                groups[-1].append(call)
            else:
                groups.append([call])
            beside = harmless
        return groups

    async def _run_one(self, anchor: AnchorEntry, call: ToolCallPart) -> ToolCallPart:
        """started (committed) → run → completed (committed). A delegation is committed with its start.

        A call that a dead owner left running is run again, unless that could repeat an effect: then it is IN_DOUBT.
        """
        part = anchor.call(call.call_id)
        if part.HasField("result"):
            return call
        self.count += 1
        try:
            unrun = await self._begin(anchor, part)
        except asyncio.CancelledError:
            part = anchor.call(call.call_id)
            if part.state in _BEGUN and not part.HasField("result"):
                await self._end_with(anchor, part, ToolCallState.TOOL_CALL_STATE_CANCELLED, NEVER_BEGAN)
            raise
        if unrun is not None:
            return unrun
        try:
            ended = await run_call(self.box, anchor.call(call.call_id))
        except asyncio.CancelledError:
            await self._end_unrun(anchor, anchor.call(call.call_id), ToolCallState.TOOL_CALL_STATE_CANCELLED)
            raise
        await self._completed(anchor, ended)
        return ended

    async def _begin(self, anchor: AnchorEntry, part: ToolCallPart) -> ToolCallPart | None:
        """Have the call's start committed, once it may run. The ended call when it is not to run."""
        if part.state == ToolCallState.TOOL_CALL_STATE_RUNNING:
            if self._may_repeat_an_effect(part):
                return await self._end_unrun(anchor, part, ToolCallState.TOOL_CALL_STATE_IN_DOUBT)
        elif part.state == ToolCallState.TOOL_CALL_STATE_WAITING or await self._must_ask(part):
            return await self._ask(anchor, part)
        else:
            started = self._started(anchor, part, ToolCallState.TOOL_CALL_STATE_RUNNING)
            if part.tool_name not in DELEGATE_TOOLS:
                await started
        return None

    async def _must_ask(self, part: ToolCallPart) -> bool:
        """Whether a person must agree to the call, and has not done so for the whole session."""
        tool = self.box.tools.get(part.tool_name)
        if tool is None or tool.route.approval != ToolApproval.TOOL_APPROVAL_ASK:
            return False
        return not await self._context.questions.standing(self._asker(part))

    async def _ask(self, anchor: AnchorEntry, part: ToolCallPart) -> ToolCallPart | None:
        """started (WAITING) → question → answer → updated (RUNNING), each committed.

        None when the call may run; otherwise the refused call.
        """
        if part.state != ToolCallState.TOOL_CALL_STATE_WAITING:
            await self._started(anchor, part, ToolCallState.TOOL_CALL_STATE_WAITING)
        try:
            refusal = await self._context.questions.approve(self._asker(part))
        except asyncio.CancelledError:
            await self._end_unrun(anchor, anchor.call(part.call_id), ToolCallState.TOOL_CALL_STATE_CANCELLED)
            raise
        part = anchor.call(part.call_id)  # parts move when a delegation beside it puts its card in
        if refusal:
            return await self._end_refused(anchor, part, refusal)
        part.state = ToolCallState.TOOL_CALL_STATE_RUNNING
        part.start_time.GetCurrentTime()
        await self._context.writer.append(*anchor.writes())
        return None

    async def interrupt(self, anchor: AnchorEntry, *, stop: bool = False) -> None:
        """End what a dead owner left running, without running anything again. `stop`: children that are held still are
        stopped, and gone when this returns; otherwise they are left to the end of their runner's patience."""
        for part in anchor.entry.assistant.parts:
            call = part.tool_call
            if call.state not in _BEGUN or call.HasField("result"):
                continue
            left_behind = self._context.batches.get(call.call_id)
            if left_behind is not None:
                await self._end_left_behind(anchor, call, left_behind, stop=stop)
            running = call.state == ToolCallState.TOOL_CALL_STATE_RUNNING
            doubt = running and self._may_repeat_an_effect(call)
            state = ToolCallState.TOOL_CALL_STATE_IN_DOUBT if doubt else ToolCallState.TOOL_CALL_STATE_CANCELLED
            await self._end_unrun(anchor, call, state)

    async def _end_left_behind(
        self, anchor: AnchorEntry, call: ToolCallPart, left_behind: LeftBehind, *, stop: bool
    ) -> None:
        if stop:
            with contextlib.suppress(ModelError):  # none of the catalogue any more: given up as others are
                with contextlib.suppress(ToolError):  # it was given up then
                    await (await self._batch(anchor, call)).stop("the turn was cancelled")
                return
        await give_up(self._scope(anchor, left_behind), call.call_id, left_behind, "the turn was interrupted")

    def _may_repeat_an_effect(self, part: ToolCallPart) -> bool:
        if part.tool_name in DELEGATE_TOOLS:
            return False  # decided per child
        tool = self.box.tools.get(part.tool_name)
        return tool is not None and tool.manifest.effect not in (
            ToolEffect.TOOL_EFFECT_PURE,
            ToolEffect.TOOL_EFFECT_IDEMPOTENT,
        )

    def _started(self, anchor: AnchorEntry, part: ToolCallPart, state: ToolCallState) -> asyncio.Future[None]:
        tool = self.box.tools.get(part.tool_name)
        route = tool.route if tool is not None else self.box.refused.get(part.tool_name)
        if route is not None:
            part.route.CopyFrom(route)
        part.state = state
        if state == ToolCallState.TOOL_CALL_STATE_RUNNING:
            part.start_time.GetCurrentTime()
        started = ToolCallStarted(call=ToolCallPart(call_id=part.call_id))
        return self._context.writer.post(*anchor.writes(quiet=True), anchor.event_write(tool_call_started=started))

    async def _end_unrun(self, anchor: AnchorEntry, part: ToolCallPart, state: ToolCallState) -> ToolCallPart:
        words = UNRUN[state] if part.HasField("start_time") else NEVER_ALLOWED
        return await self._end_with(anchor, part, state, words)

    async def _end_refused(self, anchor: AnchorEntry, part: ToolCallPart, why: str) -> ToolCallPart:
        words = f"{part.tool_name} was refused: {why}"
        return await self._end_with(anchor, part, ToolCallState.TOOL_CALL_STATE_REFUSED, words)

    async def _end_with(
        self, anchor: AnchorEntry, part: ToolCallPart, state: ToolCallState, words: str
    ) -> ToolCallPart:
        ended = ToolCallPart()
        ended.CopyFrom(part)
        ended.state = state
        ended.result.CopyFrom(ToolResult(content=words, is_error=True))
        await self._completed(anchor, ended)
        return ended

    async def _run_in_host(self, call: ToolCallPart) -> ToolResult:
        return await self._context.host.run(call, lambda text: self._streamed(call.call_id, text))

    def _streamed(self, call_id: str, text: str) -> None:
        """Show a stretch of a running tool's output."""
        assert self._anchor is not None
        offset = self._output_bytes.get(call_id, 0)
        self._output_bytes[call_id] = offset + len(text.encode())
        shown = ToolResultStreamed(call_id=call_id, offset=offset, text=text)
        self._context.publisher.live(self._anchor.event(tool_result_streamed=shown))

    def _completed(self, anchor: AnchorEntry, ended: ToolCallPart) -> asyncio.Future[None]:
        part = anchor.call(ended.call_id)
        if part is not ended:
            part.CopyFrom(ended)
        part.end_time.GetCurrentTime()
        completed = ToolCallCompleted(call=ToolCallPart(call_id=ended.call_id))
        return self._context.writer.post(*anchor.writes(quiet=True), anchor.event_write(tool_call_completed=completed))

    async def _delegate(self, call: ToolCallPart) -> ToolResult:
        assert self._anchor is not None
        batch = await self._batch(self._anchor, call)
        try:
            return await batch.run()
        except ToolError:  # refused as a whole
            self._batches.remove(batch)
            self._limits.give_back(batch.size)
            raise

    async def _write_todos(self, call: ToolCallPart) -> ToolResult:
        """The list rests in the anchor: whoever stands on its path has it, and another branch has its own."""
        assert self._anchor is not None
        items = parse_todos(call.arguments_json)
        self._context.writer.post(
            *self._anchor.write_todos(items), self._anchor.event_write(todo_update=TodoUpdate(todos=items))
        )
        return ToolResult(content=describe_todos(items))

    async def _clarify(self, call: ToolCallPart) -> ToolResult:
        asked = parse_clarify(call.arguments_json)
        ended = await self._context.questions.clarify(self._asker(call), asked.text, asked.choices, asked.timeout_s)
        if ended.state == ClarifyState.CLARIFY_STATE_ANSWERED:
            return ToolResult(content=ended.answer)
        return ToolResult(content="Nobody answered in time. Go on as well as you can without, or say what is open.")

    def _asker(self, call: ToolCallPart) -> Asker:
        assert self._anchor is not None
        agent = self._context.agent
        return Asker(self._anchor.entry_id, call, agent.agent_id, agent.name)

    async def _read_result(self, call: ToolCallPart) -> ToolResult:
        context = self._context
        wanted = parse_read(call.arguments_json)
        return await context.delegations.result(context.owner_id, context.session.session_id, wanted)

    async def _batch(self, anchor: AnchorEntry, call: ToolCallPart) -> Batch:
        """The delegation of a call, a new one or the one that a dead owner left.

        Raises ToolError; what a dead owner left is ended then, since it may go on no more.
        """
        left_behind = self._context.batches.get(call.call_id)
        try:
            plans = await self._plans(call)
        except ToolError as error:
            if left_behind is not None:
                await give_up(self._scope(anchor, left_behind), call.call_id, left_behind, str(error))
            raise
        count = self._limits.admit if left_behind is None else self._limits.keep
        count(len(plans))
        batch = Batch(
            self._scope(anchor, left_behind, len(plans)),
            call,
            plans,
            places=self._limits.places,
            report_bytes=self._report_bytes(anchor),
            left_behind=left_behind,
        )
        if left_behind is not None:  # it counts its own from here on
            take_usage(self._spent_before, batch.usage)
        self._batches.append(batch)
        return batch

    async def _plans(self, call: ToolCallPart) -> list[ChildPlan]:
        context = self._context
        specs = parse_delegation(call.tool_name, call.arguments_json)
        earlier = {
            task_id: await context.delegations.earlier(context.owner_id, context.session.session_id, task_id)
            for task_id in {spec.resume_task_id for spec in specs if spec.resume_task_id}
        }
        parent = replace(self._parent, thinking_level=context.session.thinking_level)
        return plan_children(specs, parent, earlier)

    def _scope(self, anchor: AnchorEntry, left_behind: LeftBehind | None, children: int = 0) -> BatchScope:
        context = self._context
        return BatchScope(
            owner_id=context.owner_id,
            session_id=context.session.session_id,
            turn_id=context.turn_id,
            entry_id=anchor.entry_id,
            agent=context.agent,
            writer=context.writer,
            publisher=context.publisher,
            runner=context.runner,
            host=context.host,
            questions=context.questions,
            budget=BatchBudget.of(self._parent, children, left_behind),
            anchor_bytes=lambda: at_rest(anchor.entry).ByteSize(),
            attach=anchor.attach,
            on_spent=self._on_spent,
        )

    def _report_bytes(self, anchor: AnchorEntry) -> int:
        """What the report of one delegation may take: those of one message share the context that is left."""
        body = anchor.entry.assistant
        delegations = sum(part.tool_call.tool_name in DELEGATE_TOOLS for part in body.parts)
        window = self._context.models.get(self._context.agent.model).context_window
        return report_budget(window, body.usage.input_tokens + body.usage.output_tokens, delegations)
