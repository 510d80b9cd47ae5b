"""How a worker is stopped from outside."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """A cancel line or SIGTERM: end now, with the text so far.

    Not an Exception, so that a tool which forgives all errors does not forgive this one.
    """


class _Term:
    """SIGTERM as an exception, at once or at the end of what must not be cut in two."""

    def __init__(self) -> None:
        self.holds = 0
        self.came = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.holds:
            self.came = True
        else:
            raise Stopped("SIGTERM")


_term = _Term()


def heed_sigterm() -> None:
    """From now on SIGTERM raises Stopped wherever this process is."""
    signal.signal(signal.SIGTERM, _term)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """SIGTERM waits: Stopped is raised at the end of the block, unless the block fails by itself."""
    _term.holds += 1
    try:
        yield
    finally:
        _term.holds -= 1
    if not _term.holds and _term.came:
        _term.came = False
        raise Stopped("SIGTERM")
