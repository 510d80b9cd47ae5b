"""A terminal as a person has it: a pseudo-terminal with an emulator behind it, typed into and looked at."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios

import pyte

LIMIT_S = 20.0


class Terminal:
    """What was shown, from the first line on, also what has left the screen; and a keyboard."""

    def __init__(self, *, columns: int = 200, rows: int = 50) -> None:
        self.keyboard, self.theirs = pty.openpty()
        """Our end, and the one that a program has as its terminal."""
        self.raw = bytearray()
        """All bytes that came."""
        os.set_blocking(self.keyboard, False)
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._looked = 0
        """Where, in all that is shown, the next look begins."""
        self._came = asyncio.Event()
        self._set_size(columns, rows)
        asyncio.get_running_loop().add_reader(self.keyboard, self._read)

    @property
    def marks_pastes(self) -> bool:
        """Whether the program has asked for it."""
        return self._screen.marks_pastes

    def type(self, line: str) -> None:
        """A line and the return key."""
        self.keys(f"{line}\r")

    def keys(self, keys: str) -> None:
        """A few keys as they are."""
        data = keys.encode()
        assert os.write(self.keyboard, data) == len(data)

    async def many_keys(self, keys: str) -> None:
        """Any number of keys, as fast as the program takes them."""
        loop, data = asyncio.get_running_loop(), keys.encode()
        while data:
            room = asyncio.Event()
            loop.add_writer(self.keyboard, room.set)
            await room.wait()
            loop.remove_writer(self.keyboard)
            data = data[os.write(self.keyboard, data[:512]) :]

    async def paste(self, text: str) -> None:
        """A text between the marks that a terminal puts around it."""
        assert self.marks_pastes
        await self.many_keys(f"\x1b[200~{text}\x1b[201~")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.keys("\x03")

    def resize(self, columns: int, rows: int) -> None:
        """The window is drawn larger or smaller."""
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)

    def shown(self) -> str:
        """Everything; the last lines are the prompt with what is typed."""
        return "\n".join(self._screen.all_lines())

    async def prompted(self) -> None:
        """Until there is a prompt; the next look begins where it would have begun."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while "\n> " not in f"\n{self.shown()}":
                    await self.news()
        except TimeoutError:
            raise AssertionError(f"no prompt in {self.shown()!r}, {bytes(self.raw[-500:])!r}") from None

    async def until(self, words: str) -> str:
        """Look until the words are shown behind those of the last call; what is shown from there on up to them.

        The line being typed moves down while output comes, so that a next look begins with it, not behind it.
        """
        try:
            async with asyncio.timeout(LIMIT_S):
                while (found := self.shown().find(words, self._looked)) < 0:
                    await self.news()
        except TimeoutError:
            raise AssertionError(f"{words!r} is not in {self.shown()[self._looked :]!r}") from None
        everything, begin, end = self.shown(), self._looked, found + len(words)
        prompt = f"\n{everything}".rfind("\n> ")
        self._looked = max(begin, min(end, prompt)) if prompt >= 0 else end
        return everything[begin:end]

    async def news(self) -> None:
        """Until anything more comes."""
        self._came.clear()
        await asyncio.wait_for(self._came.wait(), LIMIT_S)

    def look_away(self) -> None:
        """Take no more output."""
        asyncio.get_running_loop().remove_reader(self.keyboard)

    def hang_up(self) -> None:
        """The window is closed."""
        asyncio.get_running_loop().remove_reader(self.keyboard)
        os.close(self.keyboard)
        self.keyboard = -1

    def close(self) -> None:
        """Both ends, as far as they are open."""
        if self.keyboard >= 0:
            self.hang_up()
        self.give()

    def give(self) -> None:
        """The other end is a program's alone, so that its end is seen."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        try:
            data = os.read(self.keyboard, 65536)
        except OSError:  # the other side is closed
            asyncio.get_running_loop().remove_reader(self.keyboard)
            return
        self.raw += data
        self._stream.feed(data)
        self._came.set()


class _Screen(pyte.Screen):
    """Keeps lines that leave it at the top, as text."""

    marks_pastes = False

    def __init__(self, columns: int, rows: int) -> None:
        self._left: list[str] = []
        super().__init__(columns, rows)

    def all_lines(self) -> list[str]:
        """Without blanks at the ends, but as far as the cursor has come."""
        rows = [self._text(y) for y in range(self.lines)]
        used = max([self.cursor.y, *(y for y, row in enumerate(rows) if row)])
        return [*self._left, *rows[: used + 1]]

    def index(self) -> None:
        """A line feed; at the last line everything moves up."""
        if self.cursor.y == self.lines - 1:
            self._left.append(self._text(0))
        super().index()

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        """Notes whether pastes are marked."""
        self.marks_pastes = self.marks_pastes or (2004 in modes and bool(kwargs.get("private")))
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        """Notes whether pastes are marked."""
        self.marks_pastes = self.marks_pastes and 2004 not in modes
        super().reset_mode(*modes, **kwargs)

    def _text(self, y: int) -> str:
        row = self.buffer[y]
        end = max(row, default=-1) + 1
        text = "".join(row[x].data for x in range(end)).rstrip()
        before = "".join(row[x].data for x in range(self.cursor.x)) if y == self.cursor.y else ""
        return text if len(text) > len(before) else before
