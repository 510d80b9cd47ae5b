"""Waiting for processes that are nobody's children here to end."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from types import TracebackType

_GONE_S = 20.0


class Watched:
    """Processes held by descriptor since before their end, so that no other one is taken for them."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._held = ExitStack()
        self._waiting: dict[int, int] = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                self._held.callback(os.close, fd)
                self._waiting[fd] = pid

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._held.close()

    def left(self, *, but: int = 0) -> list[int]:
        """Wait until all but so many have ended; the ones that have not, in good time."""
        poll = select.poll()
        for fd in self._waiting:
            poll.register(fd, select.POLLIN)
        while len(self._waiting) > but and (ended := poll.poll(_GONE_S * 1000)):
            for fd, _ in ended:
                poll.unregister(fd)
                del self._waiting[fd]
        return list(self._waiting.values())
