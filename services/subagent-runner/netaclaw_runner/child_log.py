"""What a worker said beside its protocol: stderr, noise lines, log lines. Bounded, and never in the service's log."""

from __future__ import annotations

from collections import Counter, deque

_LINE_BYTES = 2000
_TAIL_BYTES = 2000
_TAIL_LINES = 8
_MOST_NOTES = 32


class ChildLog:
    """Keeps the last bytes of a worker's words, counts all, and collects what an operator should know."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._noise: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self.stderr_bytes = 0

    @property
    def text(self) -> str:
        """What is kept, oldest first."""
        return b"".join(self._kept).decode(errors="replace")

    def stderr(self, data: bytes) -> None:
        """Bytes from the worker's stderr and stdout."""
        self.stderr_bytes += len(data)
        self._keep(data)

    def noise(self, data: bytes, why: str) -> None:
        """A line that is none of the protocol's."""
        self._noise[why] += 1
        self._keep(b"[noise] " + data[:_LINE_BYTES] + b"\n")

    def log(self, level: str, message: str) -> None:
        """A `log` line."""
        self._keep(f"[{level[:16] or 'info'}] {message[:_LINE_BYTES]}\n".encode(errors="replace"))

    def note(self, fact: str) -> None:
        """Something that an operator should know; repeats are counted."""
        if fact in self._notes or len(self._notes) < _MOST_NOTES:
            self._notes[fact] += 1

    def diagnostics(self, *, with_tail: bool = False) -> list[str]:
        """Facts for the run's end; with the last lines of stderr when the worker broke."""
        found = [fact if count == 1 else f"{fact} ({count} times)" for fact, count in self._notes.items()]
        if self._noise:
            kinds = ", ".join(f"{count} × {why}" for why, count in self._noise.most_common(5))
            found.append(f"{self._noise.total()} noise lines: {kinds}")
        if self.stderr_bytes:
            found.append(f"{self.stderr_bytes} bytes on stderr")
            if with_tail:
                lines = self.text[-_TAIL_BYTES:].splitlines()[-_TAIL_LINES:]
                found.append("last words: " + " | ".join(line.strip() for line in lines if line.strip()))
        return found

    def _keep(self, data: bytes) -> None:
        data = data[-self._cap :]
        self._kept.append(data)
        self._size += len(data)
        while self._size > self._cap:
            oldest = self._kept.popleft()
            excess = self._size - self._cap
            self._size -= len(oldest)
            if len(oldest) > excess:
                self._kept.appendleft(oldest[excess:])
                self._size += len(oldest) - excess
