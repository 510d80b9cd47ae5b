"""Output of unknown length in bounded memory: its beginning and its end, and how much there was."""

from __future__ import annotations

from collections import deque


class KeptOutput:
    """Half of the room goes to the beginning, half to the end: what began it stands there, and how it ended here."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of UTF-8 that are kept, the notice in the middle not counted."""
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_room = limit // 2
        self._tail_limit = limit - limit // 2
        self._tail_size = 0
        self._gone = 0
        self.size = 0
        """Bytes that came, kept or not."""

    def add(self, text: str) -> None:
        """More of the output."""
        data = text.encode()
        self.size += len(data)
        if self._head_room:
            kept = data[: self._head_room].decode(errors="ignore")
            self._head.append(kept)
            size = len(kept.encode())
            # A character that does not fit closes the head, or a later one would stand before it.
            self._head_room = self._head_room - size if size == len(data) else 0
            data = data[size:]
        if data:
            self._tail.append(data.decode())
            self._tail_size += len(data)
            self._drop()

    def text(self) -> str:
        """What is kept; where something is gone a line of its own says how much."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._gone:
            return head + tail
        return f"{head}\n[… {self._gone} of {self.size} bytes cut here …]\n{tail}"

    def _drop(self) -> None:
        while self._tail_size > self._tail_limit:
            excess = self._tail_size - self._tail_limit
            oldest = self._tail.popleft().encode()
            rest = oldest[excess:].decode(errors="ignore")  # cut between characters
            dropped = len(oldest) - len(rest.encode())
            self._gone += dropped
            self._tail_size -= dropped
            if rest:
                self._tail.appendleft(rest)
