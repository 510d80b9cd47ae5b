"""The line being typed at a terminal, and output that streams above it: one task of the loop draws both."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.cells import chop_cells

from netaclaw_cli.wording import clean

PROMPT = "> "
MAX_BYTES = 256 * 1024
"""Of a line, as of a message."""
_INDENT = " " * len(PROMPT)
"""Before the lines of a text that are not its first."""
_REDRAW_S = 0.03
"""From one drawing to the next, at least; what comes meanwhile is drawn together."""
_REDRAW_MOST_S = 1.0
_SHARE = 5
"""The next drawing waits so many times as long as the last one took: that of a text of 250,000 characters takes 0.2 s,
and keys and output would find no time between two of them."""
_LIVE_ROWS = 8
"""Of a line of output that has not ended, at most; of a longer one the begin goes above with a line break."""
_LEAVING = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l\r\n"
"""For a process that ends at once: no style, wrapping, the cursor, and pastes unmarked."""


class LineEditor:
    """Edits lines from `start` to the end of the input or to `stop`; meanwhile nothing else may use the terminal.

    Whole lines of output go above; one that has not ended is part of the prompt, and is drawn anew as it grows.
    What is typed is never touched. Ctrl-C sends SIGINT to this process. SIGTERM, SIGHUP and the terminal's end
    end the process as they do others, but leave a terminal that can be used.
    """

    def __init__(
        self,
        take: Callable[[str], bool],
        complain: Callable[[str], None],
        *,
        keyboard: TextIO = sys.stdin,
        screen: TextIO = sys.stdout,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`take` gets every line and refuses it where there is no room; `complain` says what was refused, and why.

        A line has at most `max_bytes` of UTF-8.
        """
        self._take = take
        self._complain = complain
        self._max_bytes = max_bytes
        self._above: list[str] = []
        self._tail = ""
        """The line of output that has not ended."""
        self._rows: list[str] = []
        """The tail as it is drawn."""
        self._refused = False
        self._drawing_since = 0.0
        self._screen = _Screen(screen)
        self._keyboard = _Keyboard(keyboard)
        self._attributes = termios.tcgetattr(keyboard.fileno())
        self._handlers: dict[int, Any] = {}
        """Of signals, as they were before."""
        self._session = self._made_session()
        self._running: asyncio.Task[None] | None = None

    def start(self, ended: Callable[[], None]) -> None:
        """Begin to edit; `ended` is called once, when the input has ended and the screen is left to others."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._end_process)
        self._running = asyncio.create_task(self._run())
        self._running.add_done_callback(lambda _: self._leave(ended))

    async def stop(self) -> None:
        """Take the prompt away; what is being typed is lost. Raises what made the editor end before its time."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            if not self._running.cancelled():
                self._running.result()

    def write(self, text: str) -> None:
        """Show text at the next drawing; control sequences in it are shown, not obeyed."""
        self._add(text)
        self._session.app.invalidate()

    def _made_session(self) -> PromptSession[None]:
        session: PromptSession[None] = PromptSession(
            PROMPT,
            prompt_continuation=lambda width, line, wrapped: "" if wrapped else _INDENT,
            key_bindings=self._keys(),
            enable_suspend=True,
            erase_when_done=True,
            input=self._keyboard,
            output=self._screen,
        )
        # The lines that it edits do not end it: the terminal stays with us from the first one to the last.
        session.default_buffer.accept_handler = self._entered
        tail = Window(FormattedTextControl(lambda: "\n".join(self._rows)), dont_extend_height=True)
        live = ConditionalContainer(tail, Condition(lambda: bool(self._rows)))
        session.app.layout = Layout(HSplit([live, session.app.layout.container]), session.default_buffer)
        session.app.before_render += self._draw_above
        session.app.after_render += self._rest
        session.app.terminal_size_polling_interval = None  # a signal tells of it
        return session

    async def _run(self) -> None:
        try:
            await self._session.prompt_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            if self._keyboard.closed:
                self._end_process(signal.SIGHUP)

    def _leave(self, ended: Callable[[], None]) -> None:
        self._screen.leave("".join([*self._above, self._tail]))
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        ended()

    def _add(self, text: str) -> None:
        whole, newline, self._tail = (self._tail + text).rpartition("\n")
        if newline:
            self._above.append(whole + newline)

    def _draw_above(self, app: Application[None]) -> None:
        """Before each drawing of the prompt: what is to stand above it, and the tail within its bounds."""
        self._drawing_since = time.monotonic()
        size = self._screen.get_size()
        self._rows = chop_cells(self._tail.expandtabs(), size.columns)
        most = max(1, min(_LIVE_ROWS, size.rows // 2))
        if len(self._rows) > most:
            end = max(1, len(self._tail) - len(self._rows[-1]))
            end = self._tail.rfind(" ", max(0, end - size.columns // 2), end) + 1 or end
            self._above.append(f"{self._tail[:end]}\n")
            self._tail = self._tail[end:]
            self._rows = chop_cells(self._tail.expandtabs(), size.columns)
        if self._above:
            app.renderer.erase()
            self._screen.write("".join(self._above))
            self._above.clear()

    def _rest(self, app: Application[None]) -> None:
        took = time.monotonic() - self._drawing_since
        app.min_redraw_interval = min(_REDRAW_MOST_S, max(_REDRAW_S, _SHARE * took))

    def _entered(self, buffer: Buffer) -> bool:
        """Give the line away; True keeps it for more editing."""
        line = buffer.text.encode(errors="replace").decode()
        if len(line.encode()) > self._max_bytes:
            self._complain(f"that is more than {self._max_bytes} bytes; it has not been sent")
            return True
        if not self._take(line):
            buffer.insert_text("\n")  # what is typed next is not glued to it
            if not self._refused:
                self._complain("too many lines wait; this one stays here until there is room")
            self._refused = True
            return True
        self._refused = False
        # For the arrow keys: else it would be loaded at the next drawing, perhaps behind the next key.
        asyncio.get_running_loop().call_soon(buffer.load_history_if_not_yet_loaded)
        if self._tail:
            self._add("\n")
        self._add(PROMPT + clean(line).replace("\n", f"\n{_INDENT}") + "\n")
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)

        @keys.add("c-c", filter=typing)
        def _interrupt(event: KeyPressEvent) -> None:
            signal.raise_signal(signal.SIGINT)

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(f"{event.current_buffer.text}{text}".encode(errors="replace")) > self._max_bytes:
                self._complain(f"with the pasted text it would be more than {self._max_bytes} bytes; nothing is pasted")
            else:
                event.current_buffer.insert_text(text)

        @keys.add(
            Keys.Any, filter=typing & Condition(lambda: len(self._session.default_buffer.text) >= self._max_bytes)
        )
        def _full(event: KeyPressEvent) -> None:
            event.app.output.bell()

        return keys

    def _end_process(self, number: int, frame: FrameType | None = None) -> None:
        """As a signal does that nobody handles; at once, also where the loop stands still."""
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(self._keyboard.fileno(), termios.TCSANOW, self._attributes)
            if select.select([], [self._screen.fileno()], [], 0)[1]:
                os.write(self._screen.fileno(), _LEAVING)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


class _Screen(Vt100_Output):
    """Asks the terminal nothing, since not all answer."""

    def __init__(self, screen: TextIO) -> None:
        super().__init__(screen, self._size, term=os.environ.get("TERM"), enable_cpr=False)

    def disable_bracketed_paste(self) -> None:
        """Not between two drawings: a text that is pasted just then would be many lines."""

    def flush(self) -> None:
        """Write what is held; to a terminal that is gone nothing, its reader will notice."""
        with contextlib.suppress(OSError):
            super().flush()

    def leave(self, text: str) -> None:
        """The last words, behind the last drawing."""
        super().disable_bracketed_paste()
        self.write(text)
        self.flush()

    def _size(self) -> Size:
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self.fileno())
            if columns and rows:
                return Size(rows=rows, columns=columns)
        return Size(rows=24, columns=80)


class _Keyboard(Vt100Input):
    def __init__(self, keyboard: TextIO) -> None:
        super().__init__(keyboard)
        self.stdin_reader = _Reader(keyboard.fileno(), keyboard.encoding)


class _Reader(PosixStdinReader):
    """Takes an error for the end, which the library would meet again at once, for ever; and keeps text valid."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        super().__init__(descriptor, encoding=encoding)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def read(self, count: int = 1024) -> str:
        """What has been typed; never waits."""
        if self.closed or not select.select([self.stdin_fd], [], [], 0)[0]:
            return ""
        try:
            data = os.read(self.stdin_fd, count)
        except OSError:
            data = b""
        self.closed = not data
        return self._decoder.decode(data)
