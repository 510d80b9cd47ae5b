"""One turn of the main agent: the loop's port, seen from the journal and the live stream.

The order per model call: placeholder committed → stream start, deltas, end → entry updated → per tool call: started
(committed), run, completed (committed). The turn ends with exactly one `done` or `error` event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from netaclaw.chat.v1.event_pb2 import ChatEvent, Done, Error, ReceiptState, TokenUpdate, TurnOutcome
from netaclaw.session.v1.entry_pb2 import Entry, EntryState, Message, Part, ToolCallPart
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import EventWrite, LeafWrite, TurnEndWrite, Write
from netaclaw_agent.context import build_context
from netaclaw_agent.guidance import supervisor_system_prompt
from netaclaw_agent.loop import LoopEnd, LoopLimits, calls_of, run_loop
from netaclaw_agent.model import Model, ModelCall, ModelError
from netaclaw_agent.policy import effective_subagent_config
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.answer import AnswerStream
from netaclaw_orchestrator.delegation.sources import Parent, allowed_presets
from netaclaw_orchestrator.tool_calls import ToolCalls
from netaclaw_orchestrator.turn_context import TurnContext
from netaclaw_orchestrator.usage import add_usage

log = logging.getLogger(__name__)

DEFAULT_MAX_ROUNDS = 50


class Turn:
    """Runs one turn in the background; a client that goes away cancels nothing."""

    def __init__(self, context: TurnContext, path: Sequence[Entry], user: Entry, placeholder: Entry) -> None:
        self._context = context
        self._path = [*path, user]
        self._anchor = AnchorEntry(placeholder)
        self._first = True
        self._usage = Usage()
        self._answer: AnswerStream | None = None
        self._cancelled = False
        config = effective_subagent_config(context.agent, context.settings)
        parent = Parent(context.agent, context.policy, context.presets, config, context.settings)
        self._system = supervisor_system_prompt(context.agent, allowed_presets(parent), config)
        self._tools = ToolCalls(context, parent)
        self._task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set when the turn's end is committed, or the session was lost to another owner."""

    @property
    def turn_id(self) -> str:
        return self._context.turn_id

    @property
    def path(self) -> list[Entry]:
        """The session's path with this turn's entries, once it ended."""
        return [*self._path, self._anchor.entry]

    def start(self) -> None:
        """Begin to run."""
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """Cancel the turn with all its children; returns when they are gone and the end is committed."""
        if self._task is not None and not self.ended.is_set() and not self._cancelled:
            self._cancelled = True
            self._task.cancel()
        await self.ended.wait()

    async def cancel_subagent(self, task_id: str) -> SubagentTask | None:
        """End one child; None when this turn has no such task."""
        return await self._tools.cancel_subagent(task_id)

    async def steer_subagent(self, task_id: str, request_id: str, content: str) -> ReceiptState | None:
        """Send a message to one child; None when this turn has no such task."""
        return await self._tools.steer_subagent(task_id, request_id, content)

    # --- the loop's port ---------------------------------------------------------------------------------------------

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        """Stream one answer into its entry."""
        committed = self._next_anchor()
        context = self._context
        model = context.models.get(context.agent.model)
        call = ModelCall(
            system=self._system,
            messages=transcript,
            tools=self._tools.box.manifests,
            thinking_level=context.session.thinking_level or context.agent.thinking_level,
        )
        answer = AnswerStream(context.publisher, self.turn_id, self._anchor.entry_id, model.name)
        self._answer = answer
        try:
            async with aclosing(model.stream(call, new_id=new_id)) as events:  # type: ignore[type-var]  # a generator
                async for event in events:
                    if committed is not None:  # no delta before its entry is committed; the call is under way meanwhile
                        await committed
                        committed = None
                    answer.add(event)
        except ModelError as error:
            add_usage(self._usage, error.usage)
            raise
        finally:
            if committed is not None:
                await committed
            answer.end()
        if answer.message is None:
            raise ModelError("the model's stream ended without a message")
        self._complete(answer.message, model)
        return answer.message

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        return await self._tools.run(self._anchor, calls)

    async def take_steering(self) -> list[str]:
        return []

    def _next_anchor(self) -> asyncio.Future[None] | None:
        """The entry of the next model call; the first one was made when the turn began."""
        if self._first:
            self._first = False
            return None
        before = self._anchor
        self._path.append(before.entry)
        self._anchor = before.next(new_id())
        leaf = LeafWrite(leaf_entry_id=self._anchor.entry_id, expected_leaf_entry_id=before.entry_id)
        return self._context.writer.post(self._anchor.write(), Write(leaf=leaf))

    def _complete(self, message: Message, model: Model) -> None:
        """Bring the entry into its final form; its commit goes out with whatever comes next."""
        add_usage(self._usage, message.usage)
        self._anchor.complete(message, self._context.agent.agent_id, model.name)
        if calls_of(message):
            self._context.writer.post(self._anchor.write())
        used = message.usage.input_tokens + message.usage.output_tokens
        update = TokenUpdate(usage=self._total_usage(), context_used=used, context_window=model.context_window)
        self._context.publisher.live(self._anchor.event(token_update=update))

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._run_to_end()
        except NetaclawError as error:
            log.warning("turn lost", extra={"turn_id": self.turn_id, "reason": error.reason_name})
            self._context.publisher.close()
        except Exception:
            log.exception("turn failed", extra={"turn_id": self.turn_id})
            self._context.publisher.close()
        finally:
            self.ended.set()

    async def _run_to_end(self) -> None:
        rounds = self._context.agent.max_tool_rounds or DEFAULT_MAX_ROUNDS
        try:
            end = await run_loop(self, build_context(self._path), LoopLimits(max_rounds=rounds))
        except asyncio.CancelledError:
            self._anchor.break_off(EntryState.ENTRY_STATE_CANCELLED, self._partial())
            await self._end_turn(TurnOutcome.TURN_OUTCOME_CANCELLED, self._done(TurnOutcome.TURN_OUTCOME_CANCELLED))
        except ModelError as error:
            self._anchor.break_off(EntryState.ENTRY_STATE_FAILED, self._partial())
            await self._end_failed(error.reason, str(error), retryable=error.retryable)
        else:
            await self._finish(end)

    async def _finish(self, end: LoopEnd) -> None:
        if end.state == SubagentTaskState.SUBAGENT_TASK_STATE_FAILED:
            await self._end_failed("MODEL_UNAVAILABLE", end.error, retryable=True)
        elif end.state == SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL and calls_of(end.last or Message()):
            await self._end_failed("LIMIT_REACHED", end.error, retryable=False)
        else:
            self._anchor.entry.assistant.error = end.error
            await self._end_turn(TurnOutcome.TURN_OUTCOME_COMPLETED, self._done(TurnOutcome.TURN_OUTCOME_COMPLETED))

    async def _end_failed(self, reason: str, message: str, *, retryable: bool) -> None:
        self._anchor.entry.assistant.error = message
        error = Error(
            reason=reason,
            message=message,
            retryable=retryable,
            usage=self._total_usage(),
            assistant_entry_id=self._anchor.entry_id,
        )
        await self._end_turn(TurnOutcome.TURN_OUTCOME_FAILED, self._anchor.event(error=error))

    async def _end_turn(self, outcome: TurnOutcome, event: ChatEvent) -> None:
        await self._context.writer.append(
            self._anchor.write(),
            Write(turn_end=TurnEndWrite(turn_id=self.turn_id, outcome=outcome)),
            Write(event=EventWrite(event=event)),
        )

    def _done(self, outcome: TurnOutcome) -> ChatEvent:
        done = Done(
            outcome=outcome,
            usage=self._total_usage(),
            tool_call_count=self._tools.count,
            assistant_entry_id=self._anchor.entry_id,
        )
        return self._anchor.event(done=done)

    def _partial(self) -> list[Part]:
        return self._answer.partial_parts() if self._answer is not None else []

    def _total_usage(self) -> Usage:
        total = self._tools.usage
        add_usage(total, self._usage)
        return total
