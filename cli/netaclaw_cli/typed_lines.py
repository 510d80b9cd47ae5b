"""The terminal of a conversation: lines that are typed while a turn goes on, and output above the line being typed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

from rich.cells import cell_len

MAX_WAITING = 100
PROMPT = "> "
_PROMPT_S = 2.0
"""An editor that takes longer to show its prompt does not say that it has."""
_REST_S = 0.15
"""Output that has rested for so long makes room for the prompt again."""


class TypedLines:
    """Reads from the start of its context on. Its thread ends with the input, or with the process."""

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        """Whether somebody may type while a turn runs; other input is one line per turn."""
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_WAITING)
        self._terminal: list[Any] | None = None
        self._editor: ModuleType | None = None
        self._prompted = False
        """Whether the cursor's line is the one being typed."""
        self._editing = False
        self._line_begins = True
        self._resting: asyncio.TimerHandle | None = None
        self._screen = threading.Lock()
        """Held while something is drawn: by the loop's thread its output, by the reader's the prompt."""
        self._prompting = False

    def __enter__(self) -> Self:
        if self.interactive:
            self._terminal = termios.tcgetattr(0)
            self._editor = _line_editor() if sys.stdout.isatty() else None
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="typed lines", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._drawing():  # without the prompt
            pass
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

    def write(self, text: str) -> None:
        """Show text. A line that is being typed moves below it, once the output rests at the beginning of a line."""
        with self._drawing():
            sys.stdout.write(text)
            sys.stdout.flush()
            if text:
                self._line_begins = text.endswith("\n")
        if self._editor is not None:
            self._resting = asyncio.get_running_loop().call_later(_REST_S, self._prompt_again)

    def complain(self, text: str) -> None:
        """Show a line on standard error."""
        if not self._line_begins:
            self.write("\n")
        with self._drawing():
            sys.stderr.write(f"netaclaw: {text}\n")
            sys.stderr.flush()
        self.write("")  # the prompt comes back

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """The terminal for ourselves, without the line being typed: the editor is not in the middle of its prompt."""
        held = self._editor is not None and self._screen.acquire(timeout=_PROMPT_S)
        if not held:
            self._editor = None  # it has shown no prompt, or never says so: output comes as it comes
        try:
            if self._resting is not None:
                self._resting.cancel()
                self._resting = None
            self._clear_prompt()
            yield
        finally:
            if held:
                self._screen.release()

    def _clear_prompt(self) -> None:
        if self._prompted:
            self._prompted = False
            typed = self._editor.get_line_buffer() if self._editor is not None else ""
            sys.stdout.write(erasing(f"{PROMPT}{typed}", shutil.get_terminal_size().columns))
            sys.stdout.flush()

    def _prompt_again(self) -> None:
        """As the editor believes the line to look, which has not noticed that output came between."""
        self._resting = None
        with self._drawing():
            if self._editor is not None and self._editing and self._line_begins:
                sys.stdout.write(f"{PROMPT}{self._editor.get_line_buffer()}")
                sys.stdout.flush()
                self._prompted = True

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants more
            for line in self._lines():
                self._room.acquire()
                loop.call_soon_threadsafe(self._queue.put_nowait, line)
            loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def _lines(self) -> Iterator[str]:
        if not self.interactive:
            # Not through sys.stdin: the interpreter cannot end while a thread waits inside it.
            with open(os.dup(0), encoding=sys.stdin.encoding or "utf-8", errors="replace") as source:
                yield from source
            return
        if self._editor is not None:
            self._editor.set_pre_input_hook(self._begin_editing)
        while True:
            self._begin_prompt()
            try:
                line = input(PROMPT)
            except (EOFError, OSError):
                return
            finally:
                self._end_prompt()
                self._editing = self._prompted = False
                self._line_begins = True
            yield line

    def _begin_prompt(self) -> None:
        if self._editor is not None:
            self._screen.acquire()
            self._prompting = True

    def _begin_editing(self) -> None:
        """Called by the editor behind its prompt."""
        self._editing = self._prompted = True
        self._end_prompt()

    def _end_prompt(self) -> None:
        if self._prompting:
            self._prompting = False
            self._screen.release()


def erasing(typed: str, columns: int) -> str:
    """What takes a line away that may have run over the terminal's edge; the cursor stands at its end."""
    rows = (max(1, cell_len(typed)) - 1) // max(1, columns)
    return f"\r\x1b[{rows}A\x1b[J" if rows else "\r\x1b[K"


def _line_editor() -> ModuleType | None:
    """Line editing, where there is a terminal for it."""
    try:
        import readline  # noqa: PLC0415  # it takes hold of the terminal
    except ImportError:
        return None
    return readline
