"""What is typed in a conversation, line by line while a turn goes on, and its output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from netaclaw_cli.line_editor import LineEditor

MAX_WAITING = 100
_MAX_CHARACTERS = 256 * 1024 + 1
"""Of a line that is not edited here; it is a message that is refused, for it is too long, and its rest is not read."""


class TypedLines:
    """Reads from the start of its context on: with an editor at a terminal that can move its cursor, else line by line.

    The thread that reads without an editor ends with the input, or with the process.
    """

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        """Whether somebody may type while a turn runs; other input is one line per turn."""
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_WAITING)
        self._editor: LineEditor | None = None
        """While it has the screen."""
        self._started: LineEditor | None = None
        self._prompts = False
        self._line_begins = True

    async def __aenter__(self) -> Self:
        if self.interactive and sys.stdout.isatty():
            if os.environ.get("TERM", "") not in ("", "dumb", "unknown"):
                from netaclaw_cli.line_editor import LineEditor  # noqa: PLC0415  # 0.1 s that other commands do not pay

                self._editor = self._started = LineEditor(self._take, self.complain)
                self._editor.start(self._editor_ended)
                return self
            self._prompts = True
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="typed lines", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started is not None:
            await self._started.stop()

    async def next(self) -> str | None:
        """The next line; None at the end of the input, for ever."""
        if self._prompts and self._queue.empty():
            self.write("> ")
            self._line_begins = True  # once the line is entered
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
        else:
            self._room.release()
        return line

    def write(self, text: str) -> None:
        """Show text as it comes; where lines are edited, above the one being typed."""
        if self._editor is not None:
            self._editor.write(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
        if text:
            self._line_begins = text.endswith("\n")

    def complain(self, text: str) -> None:
        """Show a line on standard error."""
        if not self._line_begins:
            self.write("\n")
        line = f"netaclaw: {text}\n"
        if self._editor is not None and sys.stderr.isatty():
            self._editor.write(line)
        else:
            sys.stderr.write(line)
            sys.stderr.flush()

    def _take(self, line: str) -> bool:
        if not self._room.acquire(blocking=False):
            return False
        self._queue.put_nowait(line)
        self._line_begins = True
        return True

    def _editor_ended(self) -> None:
        self._editor = None
        self._queue.put_nowait(None)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants more
            for line in self._lines():
                self._room.acquire()
                loop.call_soon_threadsafe(self._queue.put_nowait, line)
            loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def _lines(self) -> Iterator[str]:
        # Not through sys.stdin: the interpreter cannot end while a thread waits inside it.
        with (
            contextlib.suppress(OSError),  # the terminal is gone
            open(os.dup(0), encoding=sys.stdin.encoding or "utf-8", errors="replace") as source,
        ):
            while line := source.readline(_MAX_CHARACTERS):
                yield line
                while len(line) == _MAX_CHARACTERS and not line.endswith("\n"):
                    line = source.readline(_MAX_CHARACTERS)
