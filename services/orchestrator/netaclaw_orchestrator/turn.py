"""One turn of the main agent: the loop's port, seen from the journal and the live stream.

The order per model call: placeholder committed → stream start, deltas, end → entry updated → per tool call: started
(committed), run, completed (committed). The turn ends with exactly one `done` or `error` event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from netaclaw.chat.v1.event_pb2 import ChatEvent, Done, Error, ReceiptState, ThinkingDone, TokenUpdate, TurnOutcome
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState, Message, ToolCallPart, UserBody
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import (
    EntryWrite,
    EventWrite,
    LeafWrite,
    QueueTakeWrite,
    TurnEndWrite,
    Write,
)
from netaclaw_agent.loop import LoopEnd, LoopLimits, calls_of, run_loop, text_of
from netaclaw_agent.model import Model, ModelError, ModelEvent
from netaclaw_agent.models.cut import cut_usage
from netaclaw_agent.usage import add_usage
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.answer import AnswerStream
from netaclaw_orchestrator.compaction import CUT_CALL
from netaclaw_orchestrator.tool_calls import ToolCalls
from netaclaw_orchestrator.turn_context import TurnContext
from netaclaw_orchestrator.waiting import Waiting

log = logging.getLogger(__name__)

DEFAULT_MAX_ROUNDS = 50


class Turn:
    """Runs one turn in the background; a client that goes away cancels nothing."""

    def __init__(self, context: TurnContext, path: Sequence[Entry], anchor: AnchorEntry | None) -> None:
        """`path` ends with the turn's last entry before the anchor; without an anchor one is made for the next model
        call, with a finished one the turn goes on with its calls."""
        self._context = context
        self._path = list(path)
        self._anchor = anchor
        self._fresh = anchor is not None and anchor.streaming
        self._unwritten = False
        self._tokens = TokenUpdate()
        self._answer: AnswerStream | None = None
        self._cancelled = False
        self._stopped = False
        self._begun = False
        self.lost = False
        """Set when the journal cannot be written any more: another owner has the session, or the store is gone."""
        self._steering: dict[str, Waiting | None] = {}
        """Messages that are to enter it, by request id; None for those that have entered or were taken back."""
        self._early = context.early
        self._transcript: list[Message] = []
        """What the loop sends; a compaction shortens it in place."""
        self._tools = ToolCalls(context, self._on_spent)
        if anchor is not None and context.lost_usage.model_calls:
            anchor.spent(context.lost_usage)
        self._tools.remember(self._own_entries())
        self._task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set when the turn's end is committed, or the session was lost to another owner."""

    @property
    def turn_id(self) -> str:
        return self._context.turn_id

    @property
    def path(self) -> list[Entry]:
        """The session's path with this turn's entries, once it ended."""
        return [*self._path, *([self._anchor.entry] if self._anchor is not None else [])]

    def steer(self, waiting: Waiting) -> None:
        """Let a message enter before the next model call; one that is sent again enters once."""
        self._steering.setdefault(waiting.request_id, waiting)

    def retract(self, request_id: str) -> bool:
        """A message that was to enter does not; False when it has entered."""
        if request_id in self._steering and self._steering[request_id] is None:
            return False
        self._steering[request_id] = None
        return True

    def start(self, committed: asyncio.Future[None] | None = None) -> None:
        """Begin to run, once what must stand before is committed."""
        self._task = asyncio.create_task(self._run(committed))

    async def cancel(self) -> None:
        """Cancel the turn with all its children; returns when they are gone and the end is committed."""
        self.interrupt_soon()
        await self.ended.wait()

    def interrupt_soon(self) -> None:
        """Cancel without waiting: another message is to take its place."""
        if self._task is not None and not self.ended.is_set() and not self._cancelled:
            self._cancelled = True
            if self._begun:  # a task that is cancelled before its first step takes none: it sees for itself
                self._task.cancel()

    async def stop(self) -> None:
        """Stop running without ending the turn: another instance will go on with it."""
        if self._task is not None and not self.ended.is_set():
            self._stopped = True
            self._context.writer.seal()
            if self._begun:
                self._task.cancel()
            await self.ended.wait()

    async def cancel_subagent(self, task_id: str) -> SubagentTask | None:
        """End one child; None when this turn has no such task."""
        return await self._tools.cancel_subagent(task_id)

    async def steer_subagent(self, task_id: str, request_id: str, content: str) -> ReceiptState | None:
        """Send a message to one child; None when this turn has no such task."""
        return await self._tools.steer_subagent(task_id, request_id, content)

    async def answer_question(self, request_id: str, answer: str) -> Entry | None:
        """As Questions.answer."""
        return await self._context.questions.answer(request_id, answer)

    # --- the loop's port ---------------------------------------------------------------------------------------------

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        """Stream one answer into its entry. Where the context has become too large, or the provider says that it is, a
        compaction shortens the transcript first, once."""
        anchor, committed = self._next_anchor()
        self._answer = None
        context = self._context
        model = context.models.get(context.agent.model)
        if self._early is None and context.compactor.is_due(self._path, context.prelude, model.context_window):
            made = await context.compactor.compact(anchor, self._path, context.prelude, model, context.writer)
            anchor, committed = self._behind(made) or (anchor, committed)
        try:
            return await self._answer_into(anchor, committed, transcript, model)
        except ModelError as error:
            if error.reason != "CONTEXT_TOO_LONG" or (self._answer is not None and self._answer.shown):
                raise
            made = await context.compactor.compact_overflow(anchor, self._path, model, context.writer)
            further = self._behind(made)
            if further is None:
                raise
        return await self._answer_into(*further, transcript, model)

    def _behind(self, compaction: Entry | None) -> tuple[AnchorEntry, asyncio.Future[None]] | None:
        """The anchor behind a compaction that took the last one's place; None when there is none."""
        if compaction is None:
            return None
        self._path.append(compaction)
        self._anchor = None
        self._transcript[:] = self._context.contexts.build(self._path)
        window = self._context.models.get(self._context.agent.model).context_window
        self._tokens = TokenUpdate(context_used=compaction.compaction.tokens_after, context_window=window)
        self._on_spent()
        return self._new_anchor()

    async def _answer_into(
        self, anchor: AnchorEntry, committed: asyncio.Future[None] | None, transcript: Sequence[Message], model: Model
    ) -> Message:
        context = self._context
        answer = AnswerStream(context.publisher, self.turn_id, anchor.entry_id, model.name, attempt=anchor.attempt)
        self._answer = answer
        try:
            async with aclosing(self._stream(model, transcript)) as events:  # type: ignore[type-var]  # generators, all
                async for event in events:
                    if committed is not None:  # no delta before its entry is committed; the call is under way meanwhile
                        await committed
                        committed = None
                    answer.add(event)
        except ModelError as error:
            anchor.spent(error.usage)
            raise
        except asyncio.CancelledError:
            if answer.message is None:
                call = context.prelude.call(transcript, context.session.thinking_level)
                anchor.spent(cut_usage(model, call, answer.shown))
            raise
        finally:
            if committed is not None:
                await committed
            answer.end()
        if answer.message is None:
            raise ModelError("the model's stream ended without a message")
        self._complete(anchor, answer.message, model)
        return answer.message

    def _stream(self, model: Model, transcript: Sequence[Message]) -> AsyncIterator[ModelEvent]:
        """The model's events, of the call that was begun ahead where there is one."""
        early, self._early = self._early, None
        if early is not None:
            return early.stream()
        session = self._context.session
        call = self._context.prelude.call(transcript, session.thinking_level, session.session_id)
        return model.stream(call, new_id=new_id)

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        assert self._anchor is not None
        return await self._tools.run(self._anchor, calls)

    async def take_steering(self) -> list[str]:
        """Messages that arrived meanwhile become entries on the path, behind the last answer."""
        taken = [waiting for waiting in self._steering.values() if waiting is not None]
        self._steering = dict.fromkeys(self._steering)
        for waiting in taken:
            self._settle_anchor()
            entry = Entry(
                entry_id=new_id(),
                session_id=self._context.session.session_id,
                parent_entry_id=self._path[-1].entry_id,
                turn_id=self.turn_id,
                kind=EntryKind.ENTRY_KIND_USER,
                state=EntryState.ENTRY_STATE_COMPLETE,
                user=UserBody(text=waiting.content, origin="steer"),
            )
            leaf = LeafWrite(leaf_entry_id=entry.entry_id, expected_leaf_entry_id=self._path[-1].entry_id)
            self._context.writer.post(
                Write(entry=EntryWrite(entry=entry)),
                Write(leaf=leaf),
                Write(queue_take=QueueTakeWrite(request_id=waiting.request_id, turn_id=self.turn_id)),
            )
            self._path.append(entry)
            self._context.on_taken(waiting.request_id)
        return [waiting.content for waiting in taken]

    def _settle_anchor(self) -> None:
        """The last answer is final and part of the path now."""
        if self._anchor is None:
            return
        if self._unwritten:
            self._context.writer.post(*self._anchor.writes())
            self._unwritten = False
        self._path.append(self._anchor.entry)
        self._anchor = None

    def _next_anchor(self) -> tuple[AnchorEntry, asyncio.Future[None] | None]:
        """The entry of the next model call, and what to wait for before it may be spoken of."""
        if self._anchor is not None and self._fresh:  # made when the turn began, or left behind by a dead owner
            self._fresh = False
            return self._anchor, None
        self._settle_anchor()
        return self._new_anchor()

    def _new_anchor(self) -> tuple[AnchorEntry, asyncio.Future[None]]:
        before = self._path[-1].entry_id
        self._anchor = AnchorEntry.placeholder(
            new_id(),
            session_id=self._context.session.session_id,
            turn_id=self.turn_id,
            parent_entry_id=before,
            agent_id=self._context.agent.agent_id,
        )
        leaf = LeafWrite(leaf_entry_id=self._anchor.entry_id, expected_leaf_entry_id=before)
        return self._anchor, self._context.writer.post(*self._anchor.writes(), Write(leaf=leaf))

    def _complete(self, anchor: AnchorEntry, message: Message, model: Model) -> None:
        """Bring the entry into its final form; without calls its commit goes out with whatever comes next."""
        anchor.complete(message, self._context.agent.agent_id, model.name)
        thinking = "".join(part.thinking.text for part in message.parts)
        if thinking:
            self._context.writer.post(anchor.event_write(thinking_done=ThinkingDone(text=thinking)))
        self._unwritten = not calls_of(message)
        if not self._unwritten:
            self._context.writer.post(*anchor.writes())
        used = message.usage.input_tokens + message.usage.output_tokens
        self._tokens = TokenUpdate(context_used=used, context_window=model.context_window)
        self._on_spent()

    def _on_spent(self) -> None:
        """Show what the turn has cost so far, children included."""
        self._tokens.usage.CopyFrom(self._total_usage())
        self._context.publisher.live(self._event(token_update=self._tokens))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _run(self, committed: asyncio.Future[None] | None) -> None:
        self._begun = True
        try:
            await self._run_to_end(committed)
        except Exception as error:
            reason = error.reason_name if isinstance(error, NetaclawError) else type(error).__name__
            log.warning("turn lost", extra={"turn_id": self.turn_id, "reason": reason})
            self.lost = True
            self._context.publisher.close()
        finally:
            self.ended.set()

    async def _run_to_end(self, committed: asyncio.Future[None] | None) -> None:
        limits = LoopLimits(max_rounds=self._context.agent.max_tool_rounds or DEFAULT_MAX_ROUNDS)
        resume = self._anchor.message() if self._anchor is not None and not self._anchor.streaming else None
        try:
            if self._cancelled or self._stopped:
                raise asyncio.CancelledError
            if committed is not None:
                await committed
            if resume is not None and not calls_of(resume):  # its owner died between the answer and the turn's end
                end = LoopEnd(SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED, text_of(resume), "", 0, resume)
            else:
                self._transcript = self._context.contexts.build(self._path)
                end = await run_loop(self, self._transcript, limits, resume=resume)
        except asyncio.CancelledError:
            if self._stopped:
                return
            await self._break_off(EntryState.ENTRY_STATE_CANCELLED)
            await self._end_turn(TurnOutcome.TURN_OUTCOME_CANCELLED, self._done(TurnOutcome.TURN_OUTCOME_CANCELLED))
        except ModelError as error:
            await self._break_off(EntryState.ENTRY_STATE_FAILED)
            await self._end_failed(error.reason, str(error), retryable=error.retryable)
        except NetaclawError:
            raise  # there is no end that could be written
        except Exception:
            log.exception("turn failed", extra={"turn_id": self.turn_id})
            await self._break_off(EntryState.ENTRY_STATE_FAILED)
            await self._end_failed("INTERNAL", "internal error", retryable=True)
        else:
            await self._finish(end)

    async def _break_off(self, state: EntryState) -> None:
        early, self._early = self._early, None
        if early is not None:  # its call was not asked for
            await early.drop()
        if self._anchor is not None:
            self._anchor.spent(CUT_CALL if early is not None else Usage())
            shown = list(self._context.shown) if self._fresh else []
            self._anchor.break_off(state, self._answer.partial_parts() if self._answer is not None else shown)
            await self._tools.interrupt(self._anchor, stop=state == EntryState.ENTRY_STATE_CANCELLED)

    async def _finish(self, end: LoopEnd) -> None:
        if end.state == SubagentTaskState.SUBAGENT_TASK_STATE_FAILED:
            await self._end_failed("MODEL_UNAVAILABLE", end.error, retryable=True)
        elif end.state == SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL and calls_of(end.last or Message()):
            await self._end_failed("LIMIT_REACHED", end.error, retryable=False)
        else:
            if self._anchor is not None:
                self._anchor.entry.assistant.error = end.error
            await self._end_turn(TurnOutcome.TURN_OUTCOME_COMPLETED, self._done(TurnOutcome.TURN_OUTCOME_COMPLETED))

    async def interrupt(self) -> None:
        """End a turn that was taken over too often: partial text kept, nothing run again."""
        await self._break_off(EntryState.ENTRY_STATE_INTERRUPTED)
        await self._end_turn(TurnOutcome.TURN_OUTCOME_INTERRUPTED, self._done(TurnOutcome.TURN_OUTCOME_INTERRUPTED))
        self.ended.set()

    async def _end_failed(self, reason: str, message: str, *, retryable: bool) -> None:
        if self._anchor is not None:
            self._anchor.entry.assistant.error = message
        last = self._last_entry_id()
        error = Error(
            reason=reason, message=message, retryable=retryable, usage=self._total_usage(), assistant_entry_id=last
        )
        await self._end_turn(TurnOutcome.TURN_OUTCOME_FAILED, self._event(error=error))

    async def _end_turn(self, outcome: TurnOutcome, event: ChatEvent) -> None:
        last = self._anchor.writes() if self._anchor is not None else []
        self._unwritten = False
        await self._context.writer.append(
            *last,
            *self._context.questions.close(),
            Write(turn_end=TurnEndWrite(turn_id=self.turn_id, outcome=outcome)),
            Write(event=EventWrite(event=event)),
        )

    def _done(self, outcome: TurnOutcome) -> ChatEvent:
        last, count = self._last_entry_id(), self._tools.count
        done = Done(outcome=outcome, usage=self._total_usage(), tool_call_count=count, assistant_entry_id=last)
        return self._event(done=done)

    def _last_entry_id(self) -> str:
        """The last assistant entry of the turn."""
        return next((entry.entry_id for entry in reversed(self._own_entries())), "")

    def _own_entries(self) -> list[Entry]:
        """The turn's assistant entries."""
        return [entry for entry in self.path if entry.turn_id == self.turn_id and entry.HasField("assistant")]

    def _event(self, **payload: object) -> ChatEvent:
        return ChatEvent(
            session_id=self._context.session.session_id,
            turn_id=self.turn_id,
            entry_id=self._last_entry_id(),
            **payload,  # type: ignore[arg-type]  # one member of the event oneof
        )

    def _total_usage(self) -> Usage:
        total = self._tools.usage
        for entry in self.path:
            if entry.turn_id == self.turn_id:
                add_usage(total, entry.assistant.usage)
                add_usage(total, entry.compaction.usage)
        return total
