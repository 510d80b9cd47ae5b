"""A run's model calls: asked for by the worker, made here, counted against the budget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta, StreamChannel
from netaclaw.session.v1.entry_pb2 import FinishReason, Message
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2 import RunEvent, RunStreamStart, TranscriptMessage
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import text_of
from netaclaw_agent.model import Model, ModelCall, ModelEvent, NewId
from netaclaw_agent.models.ahead import CallAhead
from netaclaw_agent.models.cut import cut_usage
from netaclaw_agent.usage import add_usage
from netaclaw_runner.child_context import ChildContext
from netaclaw_runner.ending import failed, stopped_at
from netaclaw_runner.limits import Limits
from netaclaw_runner.model_calls import CallOutcome, DeltaStream, run_call
from netaclaw_runner.run_parts import RunVoice
from netaclaw_runner.transcript import Transcript

log = logging.getLogger(__name__)

_NEAR = 0.8
_WARNING = "You are near the end of what you may spend ({what}). Sum up now: give your answer, and say what is missing."


class ModelDesk:
    """One call at a time. While nobody attends to the run a request waits; a call that runs already goes on."""

    def __init__(
        self,
        run: RunVoice,
        envelope: pb.SubagentTaskEnvelope,
        model: Model,
        tools: Sequence[ToolManifest],
        transcript: Transcript,
        *,
        new_id: NewId,
        limits: Limits,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._run = run
        self._agent = envelope.agent_config
        self._session_id = envelope.session_id
        self._budget = envelope.budget
        self._model = model
        self._tools = tools
        self._transcript = transcript
        self._new_id = new_id
        self._context = ChildContext(
            run,
            model,
            envelope.agent_config.system_prompt,
            tools,
            goal_at=len(envelope.history),
            threshold=limits.compaction_threshold,
            account=self._account,
            new_id=new_id,
        )
        self._flush_s = limits.flush_s
        self._text_room = limits.text_bytes
        self._text_bytes = limits.text_bytes
        self._room = room
        self._last_request = 0
        self._pending = 0
        self._calls = 0
        self._task: asyncio.Task[None] | None = None
        self._ahead: CallAhead | None = None
        self._stream: DeltaStream | None = None
        self._last_text = ""
        self._warned = False
        self.last_finish = FinishReason.FINISH_REASON_UNSPECIFIED
        """Why the model stopped in its last call."""
        self.usage = Usage()
        """Sum over all calls, failed and cancelled ones too."""

    @property
    def partial_text(self) -> str:
        """Text of the running call, else of the last message that has any."""
        running = self._stream.text if self._stream is not None else ""
        return running or self._last_text

    def request(self, request: pb.ModelRequest) -> bool:
        """The worker asks for a call. False when it is ignored."""
        if request.request_id <= self._last_request:
            self._run.note("a repeated model_request was ignored")
            return False
        if self._pending or self._task is not None:
            self._run.end(failed("the worker asked for a second model call while one was running"))
            return False
        try:
            changed = self._transcript.replace_tail(request.keep, request.messages)
        except ValueError as error:
            self._run.end(failed(f"the worker's model_request does not fit: {error}"))
            return False
        self._close_own_stream()
        for place in sorted({*changed, *self._transcript.close_dangling()}):
            self.show(place)
        self._last_request = self._pending = request.request_id
        self.resume()
        return True

    def resume(self) -> None:
        """Start the call that waits, if there is one and it may start."""
        if not self._pending or not self._run.attended:
            return
        spent = self._spent()
        if spent:
            self._run.end(stopped_at(spent))
            return
        request_id, self._pending = self._pending, 0
        self._task = asyncio.create_task(self._call(request_id))

    def show(self, place: int) -> None:
        """Tell the caller what a message of the transcript looks like now."""
        message = TranscriptMessage(n=place, message=self._transcript.message(place))
        self._run.emit(RunEvent(message=message))

    def catch_up(self) -> list[RunEvent]:
        """Deltas with the running call's text so far, for a caller who takes over."""
        deltas = self._stream.so_far() if self._stream is not None else []
        return [RunEvent(stream_delta=delta) for delta in deltas]

    def own_text(self, channel: StreamChannel, text: str) -> bool:
        """Text from a worker that calls models itself. False when it is ignored."""
        if self._task is not None:
            self._run.note("text of a worker was ignored while a model call of ours was running")
            return False
        self._text_room -= len(text.encode())
        if self._text_room < 0:
            self._run.end(stopped_at(f"stopped after {self._text_bytes} bytes of text"))
            return False
        if self._stream is None:
            self._open_stream()
        if self._stream is not None:
            self._stream.add(channel, text)
        return bool(text)

    def warn(self, what: str) -> None:
        """Tell the worker, once, that the end is near."""
        if not self._warned:
            self._warned = True
            self._run.tell(pb.BudgetWarning(message=_WARNING.format(what=what)))

    def begin_ahead(self, messages: Sequence[Message]) -> None:
        """Make the first call while the worker is being started, with the messages that it is going to ask with.

        Nothing of it is shown before the worker asks. When it asks otherwise, the call is dropped; its cost is counted.
        """
        if self._run.attended and not self._context.is_due(messages):
            self._ahead = CallAhead(self._model, self._model_call(tuple(messages)), new_id=self._new_id)

    async def stop(self) -> None:
        """Cut the running call. Its cost is counted; its text stays readable. Idempotent."""
        await self._drop_ahead()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        elif self._stream is not None:
            self._stream.flush()

    def _open_stream(self) -> DeltaStream:
        self._calls += 1
        self._run.emit(RunEvent(stream_start=RunStreamStart(call_no=self._calls)))
        self._stream = DeltaStream(self._calls, self._emit_delta, self._flush_s)
        return self._stream

    def _close_own_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            self._last_text = self._stream.text or self._last_text
            self._stream = None

    def _emit_delta(self, delta: AssistantStreamDelta) -> None:
        self._run.emit(RunEvent(stream_delta=delta))

    async def _call(self, request_id: int) -> None:
        try:
            outcome = await self._outcome(await self._context.prepared(self._transcript.messages))
            if outcome.too_long and self._stream is not None and not self._stream.shown:
                shorter = await self._context.shortened(self._transcript.messages)
                if shorter is not None:
                    self._account(outcome.usage)
                    outcome = await self._outcome(shorter)
        except Exception as error:
            log.error("model call broke: %s", type(error).__name__, extra={"model": self._model.name})
            outcome = CallOutcome(None, Usage(model_calls=1), "internal error in the model call")
        self._task = None
        self._answer(request_id, outcome)

    async def _outcome(self, messages: Sequence[Message]) -> CallOutcome:
        stream = self._open_stream()
        call = self._model_call(messages)
        try:
            events = await self._events(call)
            return await run_call(events, stream, progress=self._run.progress, room=self._room)
        except asyncio.CancelledError:
            self._account(cut_usage(self._model, call, stream.shown))
            raise

    def _model_call(self, messages: Sequence[Message]) -> ModelCall:
        return ModelCall(
            system=self._agent.system_prompt,
            messages=messages,
            tools=self._tools,
            thinking_level=self._agent.thinking_level,
            session_id=self._session_id,
        )

    async def _events(self, call: ModelCall) -> AsyncIterator[ModelEvent]:
        """The call's events: of the one that was made ahead, when it is the same."""
        ahead = self._ahead
        if ahead is not None and ahead.call == call:
            self._ahead = None
            return ahead.stream()
        await self._drop_ahead()
        return self._model.stream(call, new_id=self._new_id)

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._account(cut_usage(self._model, ahead.call, ""))
            await ahead.drop()

    def _answer(self, request_id: int, outcome: CallOutcome) -> None:
        if outcome.message is None:
            self._account(outcome.usage)
            self._run.end(failed(f"the model call failed: {outcome.error}"))
            return
        self._stream = None
        self._last_text = text_of(outcome.message) or self._last_text
        self.last_finish = outcome.message.finish_reason
        place = self._transcript.append(outcome.message)
        self.show(place)
        self._account(outcome.usage)
        self._warn_when_near()
        self._run.progress()
        self._run.tell(pb.ModelResponse(request_id=request_id, message=self._transcript.message(place)))

    def _account(self, usage: Usage) -> None:
        counted = Usage()
        counted.CopyFrom(usage)
        counted.model_calls = max(counted.model_calls, 1)
        add_usage(self.usage, counted)
        self._run.emit(RunEvent(usage=pb.ModelCallUsage(model=self._model.name, usage=counted)))

    @property
    def _tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    def _spent(self) -> str:
        """Why no further call may start; the worker's loop stops by itself before, unless it does not count."""
        budget = self._budget
        if budget.max_tool_rounds and self._calls >= budget.max_tool_rounds:
            return f"stopped after {self._calls} model calls"
        if budget.max_tokens and self._tokens >= budget.max_tokens:
            return f"stopped after {self._tokens} tokens"
        return ""

    def _warn_when_near(self) -> None:
        budget = self._budget
        if budget.max_tool_rounds >= 2 and self._calls == budget.max_tool_rounds - 1:
            self.warn("one model call is left")
        elif budget.max_tokens and self._tokens >= _NEAR * budget.max_tokens:
            self.warn(f"{self._tokens} of {budget.max_tokens} tokens are used")
