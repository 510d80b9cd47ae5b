"""Server-Sent Events, read incrementally from bytes.

Works on bytes throughout, so that a cut inside a character, a field name or a separator changes nothing: text is
decoded only when an event is whole.
"""

from __future__ import annotations

from netaclaw_agent.model import ModelError

MAX_EVENT_BYTES = 8 * 1024 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024
END_MARK = b"[DONE]"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseParser:
    """Turns chunks of a body into the data of its events, in order.

    Only data is given out: comments, `event`, `id` and `retry` are read and dropped, and an event whose data is empty
    or blank is none. Lines end with LF, CRLF or CR, mixed as they like. Several data lines are joined by LF. The event
    `[DONE]` is not given out: it sets `done`, and what follows it is dropped.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max = max_event_bytes
        self._left = max_body_bytes
        self.done = False
        self._held: list[bytes] = []
        """The unfinished line, in pieces: joining at every chunk would be quadratic for a long line in small cuts."""
        self._held_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of all events that this chunk completes.

        Raises ModelError, not retryable, for an event or a body above its limit.
        """
        if not chunk or self.done:
            return []
        self._left -= len(chunk)
        if self._left < 0:
            raise ModelError("the model provider's answer is too long", retryable=False)
        if self._after_cr and chunk[0] == 0x0A:
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return []
        self._after_cr = chunk[-1] == 0x0D
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._held:
            self._held.append(lines[0])
            lines[0] = b"".join(self._held)
            self._held.clear()
            self._held_size = 0
        events = self._take(lines) if lines else []
        if rest:
            self._held.append(rest)
            self._held_size += len(rest)
            self._check()
        return events

    def finish(self) -> list[bytes]:
        """What the body's end leaves: the data of an event whose closing blank line never came, perhaps itself cut."""
        if self.done:
            return []
        line = b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        return self._take([line, b""])

    def _take(self, lines: list[bytes]) -> list[bytes]:
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._data.append(value)
                self._data_size += len(value) + 1
                self._check()
            elif not line and self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                self._data.clear()
                self._data_size = 0
                if data.strip() == END_MARK:
                    self.done = True
                    break
                if data and not data.isspace():
                    events.append(data)
            elif line == b"data":
                self._data.append(b"")
                self._data_size += 1
                self._check()
        return events

    def _check(self) -> None:
        if self._held_size + self._data_size > self._max:
            raise ModelError(f"the model provider sent an event above {self._max} bytes", retryable=False)
