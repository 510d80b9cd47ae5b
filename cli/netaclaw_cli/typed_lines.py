"""Lines of standard input, read by a thread, so that a turn goes on while somebody types."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

MAX_WAITING = 100


class TypedLines:
    """Reads from the start of its context on. Its thread ends with the input, or with the process."""

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        """Whether somebody may type while a turn runs; other input is one line per turn."""
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_WAITING)
        self._terminal: list[Any] | None = None

    def __enter__(self) -> Self:
        if self.interactive:
            self._terminal = termios.tcgetattr(0)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="typed lines", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal is not None:  # the thread may still be in the middle of editing a line
            termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)

    async def next(self) -> str | None:
        """The next line; None at the end of the input, for ever."""
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
        else:
            self._room.release()
        return line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants more
            for line in _lines(self.interactive):
                self._room.acquire()
                loop.call_soon_threadsafe(self._queue.put_nowait, line)
            loop.call_soon_threadsafe(self._queue.put_nowait, None)


def _lines(interactive: bool) -> Iterator[str]:
    if not interactive:
        # Not through sys.stdin: the interpreter cannot end while a thread waits inside it.
        with open(os.dup(0), encoding=sys.stdin.encoding or "utf-8", errors="replace") as source:
            yield from source
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415  # line editing, where there is a terminal for it
    while True:
        try:
            yield input("> ")
        except (EOFError, OSError):
            return
