"""The main agent's answer while it is streamed: live events, and the text so far."""

from __future__ import annotations

from netaclaw.chat.v1.event_pb2 import (
    AssistantStreamEnd,
    AssistantStreamStart,
    ChatEvent,
    StreamChannel,
)
from netaclaw.session.v1.entry_pb2 import Message, Part, TextPart, ThinkingPart
from netaclaw_agent.model import Finished, ModelError, ModelEvent, TextDelta
from netaclaw_orchestrator.publisher import Publisher

MAX_ANSWER_BYTES = 992 * 1024
"""Text and thinking: while they are being written, the text so far travels in one message of at most 1 MiB."""
MAX_CALLS_BYTES = 768 * 1024
"""Arguments of an answer's calls: they stand in the entry, which travels in one message."""


class AnswerStream:
    """Publishes one attempt of one entry; offsets are in bytes of UTF-8 per channel."""

    def __init__(self, publisher: Publisher, turn_id: str, entry_id: str, model: str, *, attempt: int = 1) -> None:
        self._publisher = publisher
        self._turn_id = turn_id
        self._entry_id = entry_id
        self._attempt = attempt
        self._model = model
        self._started = False
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._text_bytes = 0
        self._thinking_bytes = 0
        self.message: Message | None = None
        """The finished message, once it came."""

    @property
    def shown(self) -> str:
        """Text and thinking so far."""
        return "".join(self._thinking) + "".join(self._text)

    def add(self, event: ModelEvent) -> None:
        """Publish a delta, or keep the finished message. Raises ModelError for an answer that no entry can hold."""
        if isinstance(event, Finished):
            words, arguments = _sizes(event.message)
            _check("the answer is", words, MAX_ANSWER_BYTES)
            _check("the arguments of its calls are", arguments, MAX_CALLS_BYTES)
            self._start()
            self.message = event.message
            return
        size = len(event.text) if event.text.isascii() else len(event.text.encode())
        _check("the answer is", size + self._text_bytes + self._thinking_bytes, MAX_ANSWER_BYTES)
        self._start()
        if isinstance(event, TextDelta):
            self._delta(StreamChannel.STREAM_CHANNEL_TEXT, self._text_bytes, event.text)
            self._text.append(event.text)
            self._text_bytes += size
        else:
            self._delta(StreamChannel.STREAM_CHANNEL_THINKING, self._thinking_bytes, event.text)
            self._thinking.append(event.text)
            self._thinking_bytes += size

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._live(assistant_stream_start=AssistantStreamStart(attempt=self._attempt, model=self._model))

    def end(self) -> None:
        """No more deltas of this attempt."""
        if self._started:
            self._live(assistant_stream_end=AssistantStreamEnd(attempt=self._attempt))

    def partial_parts(self) -> list[Part]:
        """What was streamed so far, as parts of an entry that will not be finished."""
        parts: list[Part] = []
        if self._thinking:
            parts.append(Part(thinking=ThinkingPart(text="".join(self._thinking))))
        if self._text:
            parts.append(Part(text=TextPart(text="".join(self._text))))
        return parts

    def _delta(self, channel: StreamChannel, offset: int, text: str) -> None:
        self._publisher.text(
            text,
            turn_id=self._turn_id,
            entry_id=self._entry_id,
            channel=channel,
            attempt=self._attempt,
            offset=offset,
        )

    def _live(self, **payload: object) -> None:
        self._publisher.live(
            ChatEvent(
                turn_id=self._turn_id,
                entry_id=self._entry_id,
                **payload,  # type: ignore[arg-type]  # one member of the event oneof
            )
        )


def _sizes(message: Message) -> tuple[int, int]:
    """Bytes of text and thinking, and of everything else."""
    words = sum(len(part.text.text.encode()) + len(part.thinking.text.encode()) for part in message.parts)
    return words, message.ByteSize() - words


def _check(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise ModelError(f"{what} larger than {limit // 1024} KiB", reason="LIMIT_REACHED", retryable=False)
