"""The line being typed, and output above it, at a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from netaclaw_cli.line_editor import LineEditor
from tests.terminals import Terminal

ROOM = 3
FLOOD = """
import asyncio, signal
from netaclaw_cli.typed_lines import TypedLines
async def main():
    async with TypedLines() as lines:
        while True:
            lines.write("line\\n" * 100)
            await asyncio.sleep(0.001)  # the editor's turn
signal.signal(signal.SIGHUP, signal.SIG_IGN)
asyncio.run(main())
"""
MAX_BYTES = 9001


class Edited:
    """An editor at a terminal, and what came of it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.terminal = Terminal(columns=columns, rows=rows)
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self.ended = asyncio.Event()
        self.entered = asyncio.Event()
        self.room = ROOM
        theirs = self.terminal.theirs
        self._keyboard = open(theirs, encoding="utf-8", closefd=False)  # noqa: SIM115  # closed by close
        self._screen = open(theirs, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # closed by close
        self.editor = LineEditor(
            self._take, self.complaints.append, keyboard=self._keyboard, screen=self._screen, max_bytes=MAX_BYTES
        )

    async def line(self) -> str:
        """The oldest line that was entered."""
        while not self.lines:
            self.entered.clear()
            await asyncio.wait_for(self.entered.wait(), 20)
        return self.lines.pop(0)

    async def close(self) -> None:
        """Stops the editor, and takes the terminal away."""
        await self.editor.stop()
        self._screen.close()
        self._keyboard.close()
        self.terminal.close()

    def _take(self, line: str) -> bool:
        self.entered.set()
        if len(self.lines) >= self.room:
            return False
        self.lines.append(line)
        return True


@asynccontextmanager
async def editing(columns: int = 80, rows: int = 24) -> AsyncIterator[Edited]:
    """An editor that shows its prompt; stopped at the end."""
    edited = Edited(columns, rows)
    try:
        edited.editor.start(edited.ended.set)
        await edited.terminal.until("> ")
        yield edited
    finally:
        await edited.close()


@pytest.fixture(autouse=True)
def terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


async def test_output_shows_as_it_comes_and_the_line_being_typed_stays_below() -> None:
    async with editing() as edited:
        edited.editor.write("whole\npart")
        await edited.terminal.until("whole\npart\n> ")
        edited.terminal.keys("half a ")
        await edited.terminal.until("> half a ")
        edited.editor.write("ly, and more")
        await edited.terminal.until("more\n> half a ")
        edited.editor.write(".\nnext")
        edited.terminal.keys("message")
        await edited.terminal.until("next\n> half a message")
        assert edited.terminal.shown() == "whole\npartly, and more.\nnext\n> half a message"
        edited.terminal.keys("\r")
        assert await edited.line() == "half a message"
        edited.editor.write(" line\n")
        await edited.terminal.until("line\n> ")
        assert edited.terminal.shown() == "whole\npartly, and more.\nnext\n> half a message\n line\n> "


async def test_thousands_of_keys_and_deltas_at_once_are_each_shown_once_and_unmixed() -> None:
    typed = "".join(f"k{n:03d}" for n in range(500))
    deltas = [f"d{n}" + ("\n" if n % 7 == 0 else " ") for n in range(1000)]
    async with editing(columns=100, rows=60) as edited:

        async def stream() -> None:
            for delta in deltas:
                edited.editor.write(delta)
                await asyncio.sleep(0)

        await asyncio.gather(stream(), edited.terminal.many_keys(typed))
        edited.terminal.keys("\r")
        assert await edited.line() == typed
        edited.editor.write("end\n")
        await edited.terminal.until("\nend\n> ")
        output, _, line = edited.terminal.shown().removesuffix("\nend\n> ").partition("\n> ")
        assert output == "".join(deltas).replace(" \n", "\n").rstrip()
        assert line.replace("\n", "") == typed


@pytest.mark.parametrize("word", ["想象", "word", "é", "wörter-ohne-leerstelle" * 5])
async def test_a_paragraph_longer_than_the_window_is_shown_once_and_whole(word: str) -> None:
    async with editing(columns=40, rows=8) as edited:
        for n in range(400):
            edited.editor.write(f"{word}{n} ")
            if n % 20 == 0:
                await edited.terminal.news()
        edited.terminal.keys("mine")
        await edited.terminal.until("> mine")
        edited.editor.write("end\n")
        await edited.terminal.until("end\n> mine")
        words = "".join(f"{word}{n}" for n in range(400))
        assert edited.terminal.shown().replace(" ", "").replace("\n", "") == f"{words}end>mine"


async def test_a_line_of_output_keeps_its_spaces_and_has_no_breaks_of_ours() -> None:
    async with editing(columns=40) as edited:
        text = "x" * 100
        edited.editor.write(text)
        await edited.terminal.until("x" * 20 + "\n> ")
        edited.editor.write("  end\n")
        await edited.terminal.until("end\n> ")
        assert f"{'x' * 100}  end\r\n".encode() in edited.terminal.raw, "the terminal itself wraps it, for copying"


async def test_wide_characters_are_typed_and_taken_back() -> None:
    async with editing(columns=20) as edited:
        edited.terminal.keys("想" * 25)
        await edited.terminal.until("想" * 7)
        edited.terminal.keys("\x7f" * 24 + "象")
        await edited.terminal.until("> 想象")
        edited.editor.write("above\n")
        await edited.terminal.until("above\n> 想象")
        edited.terminal.keys("\r")
        assert await edited.line() == "想象"


async def test_a_pasted_text_of_many_lines_is_one_message_that_can_be_edited() -> None:
    async with editing() as edited:
        edited.terminal.keys("see: ")
        await edited.terminal.paste("one\r\ntwo\rthree")
        await edited.terminal.until("> see: one\n  two\n  three")
        edited.editor.write("output\n")
        await edited.terminal.until("output\n> see: one\n  two\n  three")
        edited.terminal.keys("!\r")
        assert await edited.line() == "see: one\ntwo\nthree!"
        await edited.terminal.until("> see: one\n  two\n  three!\n> ")
        await edited.terminal.paste("again\n")
        edited.terminal.keys("\r")
        assert await edited.line() == "again\n"


async def test_pastes_stay_marked_while_output_is_drawn() -> None:
    async with editing() as edited:
        for n in range(20):
            edited.editor.write(f"{n}\n")
            await edited.terminal.until(f"{n}\n> ")
        assert b"\x1b[?2004l" not in edited.terminal.raw
        await edited.editor.stop()
        while not edited.terminal.raw.endswith(b"\x1b[?2004l"):
            await edited.terminal.news()


async def test_what_is_pasted_beyond_the_limit_is_refused_and_what_was_typed_stays() -> None:
    async with editing() as edited:
        edited.terminal.keys("mine")
        await edited.terminal.paste("x" * MAX_BYTES)
        edited.terminal.keys("!\r")
        assert await edited.line() == "mine!"
        assert edited.complaints == ["with the pasted text it would be more than 9001 bytes; nothing is pasted"]


async def test_a_text_of_the_most_bytes_is_taken_and_one_more_is_not() -> None:
    async with editing(rows=10) as edited:
        text = "想" * (MAX_BYTES // 3)
        await edited.terminal.paste(text)
        edited.terminal.keys("xy\r\x7f\r")
        assert await edited.line() == text + "x"
        assert edited.complaints == ["that is more than 9001 bytes; it has not been sent"]


async def test_lines_that_find_no_room_stay_and_are_not_glued_together() -> None:
    async with editing() as edited:
        edited.terminal.keys("1\r2\r3\r4\r5\r")
        await edited.terminal.until("> 4\n  5\n  ")
        assert edited.lines == ["1", "2", "3"]
        assert edited.complaints == ["too many lines wait; this one stays here until there is room"]
        edited.lines.clear()
        edited.terminal.keys("\r")
        assert await edited.line() == "4\n5\n"


async def test_control_sequences_in_output_and_pastes_are_harmless() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x1b[6n\x9b5n\u202e"
    async with editing() as edited:
        edited.editor.write(f"before\nsaid {hostile}\n")
        await edited.terminal.until("said ")
        await edited.terminal.paste(f"mine {hostile}")
        edited.terminal.keys("\r")
        assert await edited.line() == f"mine {hostile}"
        edited.editor.write("after\n")
        await edited.terminal.until("after\n> ")
        assert edited.terminal.shown().startswith("before\n")
        for sequence in (b"\x1b]0", b"\x1b[2J", b"\x1b[6n"):
            assert sequence not in edited.terminal.raw


async def test_bytes_that_are_no_text_become_marks() -> None:
    async with editing() as edited:
        os.write(edited.terminal.keyboard, b"caf\xe9 au\r")
        assert await edited.line() == "caf� au"


async def test_lines_are_found_again_with_the_arrow_and_by_search() -> None:
    async with editing() as edited:
        for line in ("first", "second"):
            edited.terminal.type(line)
            assert await edited.line() == line
            await edited.terminal.until(f"> {line}\n> ")
        edited.terminal.keys("\x1b[A\x1b[A")
        await edited.terminal.until("> first")
        edited.terminal.keys("\r")
        assert await edited.line() == "first"
        edited.terminal.keys("\x1b[A")
        await edited.terminal.until("> first\n> first")
        edited.terminal.keys("\x1b[B\x12sec")
        await edited.terminal.until("sec': second")
        edited.editor.write("above\n")
        await edited.terminal.until("above\n")
        edited.terminal.keys("\r\r")
        assert await edited.line() == "second"


async def test_ctrl_c_is_a_signal_and_the_line_stays() -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        async with editing() as edited:
            edited.terminal.keys("half")
            edited.terminal.interrupt()
            await asyncio.wait_for(interrupted.wait(), 20)
            edited.terminal.keys("\r")
            assert await edited.line() == "half"
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


async def test_ctrl_d_ends_the_input_and_leaves_the_terminal_as_it_was() -> None:
    edited = Edited(80, 24)
    before = termios.tcgetattr(edited.terminal.theirs)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    edited.editor.start(edited.ended.set)
    await edited.terminal.until("> ")
    assert termios.tcgetattr(edited.terminal.theirs) != before
    edited.editor.write("whole\nhalf")
    edited.terminal.keys("\x04")
    await asyncio.wait_for(edited.ended.wait(), 20)
    await edited.terminal.until("whole\nhalf")
    assert edited.terminal.shown() == "whole\nhalf"
    assert termios.tcgetattr(edited.terminal.theirs) == before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == handlers
    await edited.close()


async def test_stopping_at_once_leaves_what_was_written() -> None:
    edited = Edited(80, 24)
    edited.editor.start(edited.ended.set)
    edited.editor.write("last\nwords")
    await edited.editor.stop()
    await edited.terminal.until("last\nwords")
    assert edited.terminal.shown() == "last\nwords"
    await edited.close()


async def test_a_window_that_becomes_narrow_and_low_loses_nothing() -> None:
    async with editing() as edited:
        edited.editor.write("a line that has not ended " * 3)
        edited.terminal.keys("typed")
        await edited.terminal.until("> typed")
        edited.terminal.resize(10, 3)
        signal.raise_signal(signal.SIGWINCH)
        edited.editor.write("and ends\n")
        edited.terminal.keys("\r")
        assert await edited.line() == "typed"
        edited.editor.write("more\n")
        await edited.terminal.until("more\n> ")


async def test_the_terminal_is_asked_nothing() -> None:
    async with editing() as edited:
        edited.terminal.keys("x")
        await edited.terminal.until("> x")
    assert b"\x1b[6n" not in edited.terminal.raw
    assert b"\x1b[c" not in edited.terminal.raw


@asynccontextmanager
async def flooding() -> AsyncIterator[tuple[Terminal, asyncio.subprocess.Process]]:
    """A process that writes to its terminal without end, and ignores SIGHUP."""
    terminal = Terminal()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FLOOD), stdin=terminal.theirs, stdout=terminal.theirs, stderr=subprocess.PIPE
    )
    terminal.give()
    try:
        await terminal.until("line")
        yield terminal, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        terminal.close()


async def test_a_terminal_that_is_gone_ends_the_process_also_where_its_signal_is_ignored() -> None:
    async with flooding() as (terminal, process):
        terminal.hang_up()
        _, said = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == -signal.SIGHUP
        assert said == b""


def used(pid: int) -> bytes:
    """The processor time of a process, its own and the kernel's for it."""
    return b" ".join(Path(f"/proc/{pid}/stat").read_bytes().split()[13:15])


async def test_who_is_told_to_end_ends_also_while_the_terminal_takes_no_output() -> None:
    async with flooding() as (terminal, process):
        terminal.look_away()
        looks: list[bytes] = []
        while len(looks) < 20 or len(set(looks[-20:])) > 1:  # until it rests, in the middle of writing
            looks.append(used(process.pid))
            await asyncio.sleep(0.05)  # between two looks
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGTERM


def test_other_commands_do_not_load_the_editor() -> None:
    code = "import sys, netaclaw_cli.__main__; sys.exit('prompt_toolkit' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
