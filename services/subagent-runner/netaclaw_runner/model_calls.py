"""One model call on a child's behalf: its stream becomes batched deltas, its end one message and its cost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta, StreamChannel
from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Finished, ModelError, ModelEvent, TextDelta

_TEXT = StreamChannel.STREAM_CHANNEL_TEXT
_THINKING = StreamChannel.STREAM_CHANNEL_THINKING
_PIECE_CHARS = 32 * 1024
"""A delta holds no more, so that no event is large; at most four bytes each."""


class DeltaStream:
    """Text and thinking of one model call. The first stretch goes out at once, then one batch per interval."""

    def __init__(self, call_no: int, emit: Callable[[AssistantStreamDelta], None], interval_s: float) -> None:
        self._call_no = call_no
        self._emit = emit
        self._interval_s = interval_s
        self._waiting: list[tuple[StreamChannel, str]] = []
        self._sent: dict[StreamChannel, list[str]] = {_TEXT: [], _THINKING: []}
        self._offsets: dict[StreamChannel, int] = {_TEXT: 0, _THINKING: 0}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        """All text so far, sent or not."""
        return "".join([*self._sent[_TEXT], *(text for channel, text in self._waiting if channel == _TEXT)])

    @property
    def shown(self) -> str:
        """Text and thinking that were sent."""
        return "".join("".join(texts) for texts in self._sent.values())

    def add(self, channel: StreamChannel, text: str) -> None:
        """More of a channel."""
        if not text:
            return
        if self._waiting and self._waiting[-1][0] == channel:
            self._waiting[-1] = (channel, self._waiting[-1][1] + text)
        else:
            self._waiting.append((channel, text))
        if self._timer is None:
            self._send()
            self._arm()

    def flush(self) -> None:
        """Send what waits, and no more after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send()

    def so_far(self) -> list[AssistantStreamDelta]:
        """What was sent, for a reader who comes later."""
        found = []
        for channel, texts in self._sent.items():
            offset = 0
            for piece in _pieces("".join(texts)):
                found.append(AssistantStreamDelta(channel=channel, attempt=self._call_no, offset=offset, text=piece))
                offset += len(piece.encode())
        return found

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._waiting:
            self._send()
            self._arm()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for channel, text in waiting:
            for piece in _pieces(text):
                self._emit(
                    AssistantStreamDelta(
                        channel=channel, attempt=self._call_no, offset=self._offsets[channel], text=piece
                    )
                )
                self._offsets[channel] += len(piece.encode())
            self._sent[channel].append(text)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a model call ended."""

    message: Message | None
    """Absent when it failed."""
    usage: Usage
    error: str = ""
    too_long: bool = False
    """It failed because the prompt does not fit."""


async def run_call(
    events: AsyncIterator[ModelEvent],
    stream: DeltaStream,
    *,
    progress: Callable[[], None],
    room: Callable[[], Awaitable[None]],
) -> CallOutcome:
    """Run one model call's events into the stream. A model's own failure is an outcome; cancellation passes through."""
    try:
        async for event in events:
            if isinstance(event, Finished):
                progress()
                return CallOutcome(event.message, event.message.usage)
            if event.text:
                progress()
            stream.add(_channel_of(event), event.text)
            await room()
    except ModelError as error:
        return CallOutcome(None, error.usage, str(error), too_long=error.reason == "CONTEXT_TOO_LONG")
    finally:
        stream.flush()
        await _close(events)
    return CallOutcome(None, Usage(model_calls=1), "the model ended without a finished message")


def _channel_of(event: ModelEvent) -> StreamChannel:
    return _TEXT if isinstance(event, TextDelta) else _THINKING


async def _close(events: AsyncIterator[ModelEvent]) -> None:
    """Give up the stream, so that the provider's connection closes now and not when it is collected."""
    close = getattr(events, "aclose", None)
    if close is not None:
        with contextlib.suppress(ModelError):
            await close()


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]
