"""`netaclaw chat` at a pseudo-terminal: what is typed while a turn runs, commands, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Hang, Item, Reply, Text, Thinking, Tokens, Wait
from tests.scenarios.suites import OpenSuite, RunningSuite

LIMIT_S = 20.0
_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""The terminal becomes the controlling one, so that Ctrl-C is a signal; then the command takes its place."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """One `netaclaw chat`, typed into and read from."""

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._seen = ""
        self._came = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def type(self, line: str) -> None:
        """A line and the return key."""
        self.keys(f"{line}\r")

    def keys(self, keys: str) -> None:
        """Keys as they are."""
        os.write(self._descriptor, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self._descriptor, b"\x03")

    async def until(self, words: str) -> str:
        """Read on until the words were shown; what was shown since the last call."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while words not in self._seen:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise AssertionError(f"{words!r} is not in {self._seen!r}") from None
        end = self._seen.index(words) + len(words)
        shown, self._seen = self._seen[:end], self._seen[end:]
        return shown

    async def ended(self) -> int:
        """The exit code."""
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the other side is closed
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        self._seen += _STYLE.sub("", data.decode(errors="replace")).replace("\r", "")
        self._came.set()


@asynccontextmanager
async def chatting(suite: RunningSuite, session_id: str) -> AsyncIterator[Terminal]:
    """A chat of the session at a terminal of its own; its end is waited for."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OWN_TERMINAL),
        *("-m", "netaclaw_cli", "chat", "--address", suite.gateway, "--session", session_id),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
    )
    os.close(theirs)
    terminal = Terminal(process, ours)
    try:
        await terminal.until("> ")
        yield terminal
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        terminal.close()


async def test_a_person_talks_steers_compacts_branches_and_leaves(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()

    def rule(body: dict[str, Any]) -> Reply:
        asked = str(body["messages"][-1]["content"])
        said: list[Item] = [Thinking("hm"), Text(f"you said {asked[:20]}"), Tokens(100, 10)]
        if "Sum up" in asked:
            said = [Text("it was short")]
        elif asked == "wait":
            said = [Text("I wait. "), Wait(held), Text("Enough."), Tokens(100, 10)]
        return Reply(said)

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id) as terminal:
            terminal.type("first " + "word " * 300)
            await terminal.until("~ hm")
            await terminal.until("you said first word")
            await terminal.until("(100 tokens in, 10 out")
            terminal.type("wait")
            await terminal.until("I wait.")
            terminal.type("look at this as well")
            await terminal.until("(your message waits)")
            terminal.type("/queue and this later")
            await terminal.until("(your message waits)")
            held.set()
            await terminal.until("Enough.")
            await terminal.until("you said look at this as well")
            await terminal.until("you said and this later")
            await terminal.until("tokens in")
            terminal.type("/compact the words")
            await terminal.until("(summed up: ")
            terminal.type("/tree")
            await terminal.until("(summary of what is above: it was short)")
            terminal.type("/think high")
            terminal.type("/usage")
            await terminal.until("tokens in")
            terminal.type("/switch nowhere")
            await terminal.until("names no entry")
            terminal.type(f"/switch {await first_answer(client, session_id)}")
            await terminal.until("(the next message continues from there)")
            terminal.type("a branch")
            await terminal.until("you said a branch")
            await terminal.until("tokens in")
            terminal.type("/switch root")
            await terminal.until("(the next message continues from there)")
            terminal.type("start anew")
            await terminal.until("you said start anew")
            await terminal.until("tokens in")
            terminal.type("/tree")
            await terminal.until("(before the first message)")
            terminal.type("/quit")
            assert await terminal.ended() == 0
        branch, anew = (str(each.body["messages"]) for each in model_server.requests[-2:])
        assert "first word" in branch
        assert "look at this as well" not in branch
        assert "first word" not in anew


async def first_answer(client: Client, session_id: str) -> str:
    """The end of the id of the first answer, as a person would type it."""
    view = await client.load(session_id)
    return next(key for key, entry in view.entries.items() if entry.HasField("assistant"))[-8:]


async def test_ctrl_c_cancels_the_turn_and_twice_leaves_it_running(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = lambda _: Reply([Text("half "), Hang()])
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id) as terminal:
            terminal.type("begin")
            await terminal.until("half")
            terminal.interrupt()
            await terminal.until("cancelling")
            await terminal.until("(cancelled)")
            terminal.interrupt()
            assert await terminal.ended() == 1
            await terminal.until("go on with --session")


async def test_lines_of_a_pipe_are_one_turn_each(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = lambda body: Reply([Text(f"you said {body['messages'][-1]['content']}")])
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "netaclaw_cli", "chat", "--address", suite.gateway, "--session", session_id),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(b"one\n\n/tree\n/fly\ntwo")
    shown = out.decode()
    assert process.returncode == 0
    assert shown.index("you said one") < shown.index("you: one") < shown.index("you said two")
    assert "there is no /fly" in err.decode()
    assert f"go on with --session {session_id}" in err.decode()
