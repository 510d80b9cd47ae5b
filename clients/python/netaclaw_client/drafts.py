"""Text that is being written: live deltas, kept apart from entries until the final one arrives."""

from __future__ import annotations

from dataclasses import dataclass, field

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta, AssistantStreamStart, StreamChannel, ToolResultStreamed

MAX_OUTPUT_BYTES = 64 * 1024
"""Of a running tool's output the last this many bytes are kept."""


@dataclass(slots=True)
class Draft:
    """What one attempt has written so far, per channel."""

    attempt: int = 0
    model: str = ""
    started: bool = False
    """False when the stream was joined without its start: nothing is shown until one comes."""
    _text: bytearray = field(default_factory=bytearray)
    _thinking: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """The answer so far."""
        return self._text.decode(errors="replace")

    @property
    def thinking(self) -> str:
        """The reasoning so far."""
        return self._thinking.decode(errors="replace")

    def start(self, event: AssistantStreamStart) -> None:
        """A start carries the text so far and replaces everything."""
        self.attempt = event.attempt
        self.model = event.model
        self.started = True
        self._text = bytearray(event.text.encode())
        self._thinking = bytearray(event.thinking.encode())

    def add(self, delta: AssistantStreamDelta) -> bool:
        """Take a delta where its offset says; True when it added something.

        What is known already is ignored, and so are deltas of another attempt and those that would leave a hole: the
        next start, or the final entry, brings the whole.
        """
        if not self.started or delta.attempt != self.attempt:
            return False
        channel = self._thinking if delta.channel == StreamChannel.STREAM_CHANNEL_THINKING else self._text
        return _splice(channel, delta.offset, delta.text.encode())


@dataclass(slots=True)
class ToolOutput:
    """The last stretch of a running tool's output."""

    end: int = 0
    """Bytes of output that have arrived, kept or not."""
    _kept: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """What is kept."""
        return self._kept.decode(errors="replace")

    def add(self, event: ToolResultStreamed) -> None:
        """Take a stretch; what is known is ignored. After a hole only what follows it is kept."""
        data = event.text.encode()
        if event.offset > self.end:
            self._kept.clear()
            self.end = event.offset
        fresh = data[self.end - event.offset :]
        self._kept += fresh
        self.end += len(fresh)
        del self._kept[:-MAX_OUTPUT_BYTES]


def _splice(known: bytearray, offset: int, data: bytes) -> bool:
    if offset > len(known):
        return False
    fresh = data[len(known) - offset :]
    known += fresh
    return bool(fresh)
