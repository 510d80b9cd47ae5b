"""`netaclaw chat` at a pseudo-terminal: what is typed while a turn runs, commands, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Hang, Item, Reply, Text, Thinking, Tokens, Wait
from tests.scenarios.suites import OpenSuite, RunningSuite
from tests.terminals import LIMIT_S, Terminal

_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""The terminal becomes the controlling one, so that its end is a signal; then the command takes its place."""


class Chat(Terminal):
    """One `netaclaw chat` at a terminal of its own."""

    process: asyncio.subprocess.Process

    async def ended(self) -> int:
        """The exit code."""
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


@asynccontextmanager
async def chatting(
    suite: RunningSuite, session_id: str, *, term: str = "xterm", stdout: int | None = None
) -> AsyncIterator[Chat]:
    """A chat of the session at a terminal of its own; its end is waited for. `stdout`: not the terminal, but this."""
    terminal = Chat()
    process = terminal.process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OWN_TERMINAL),
        *("-m", "netaclaw_cli", "chat", "--address", suite.gateway, "--session", session_id),
        stdin=terminal.theirs,
        stdout=terminal.theirs if stdout is None else stdout,
        stderr=terminal.theirs,
        env={**os.environ, "TERM": term},
        start_new_session=True,
    )
    try:
        if stdout is None:
            await terminal.prompted()
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
            out, err = await process.communicate(b"one\n\n/tree\n/fly\n" + b"x" * 600_000 + b"\ntwo")
    shown = out.decode()
    assert process.returncode == 0, err.decode()
    assert shown.index("you said one") < shown.index("you: one") < shown.index("you said two")
    assert "there is no /fly" in err.decode()
    assert err.decode().count("content: is 262145 bytes long, but at most 262144 are allowed") == 1
    assert f"go on with --session {session_id}" in err.decode()


async def test_keys_and_an_answer_at_full_speed_do_not_disturb_each_other_and_a_pasted_text_is_one_message(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    words = [f"w{n}" + ("\n" if n % 9 == 0 else " ") for n in range(1, 1000)]
    typed = "".join(f"k{n:03d}" for n in range(600))
    held = asyncio.Event()

    def rule(body: dict[str, Any]) -> Reply:
        asked = str(body["messages"][-1]["content"])
        return Reply([Text("I begin. "), Wait(held), *map(Text, words)] if asked == "begin" else [Text("Read.")])

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        chatting(suite, await suite.new_session(client)) as terminal,
    ):
        terminal.type("begin")
        await terminal.until("I begin.")
        held.set()
        await terminal.many_keys(typed)
        await terminal.until(words[-1].strip())
        await terminal.until("tokens in")
        terminal.keys("\r")
        await terminal.until("Read.")
        await terminal.until("tokens in")
        shown = terminal.shown()
        await terminal.paste("first\n/quit\n\nlast")
        await terminal.until("> first\n  /quit\n\n  last")
        terminal.keys("\r")
        await terminal.until("Read.")
        await terminal.until("tokens in")
    assert shown[shown.index("I begin.") : shown.index("\n(about")].split() == "".join(["I begin. ", *words]).split()
    assert shown.replace("\n", "").count(f"> {typed}") == 1
    said = [request.body["messages"][-1]["content"] for request in model_server.requests]
    assert said == ["begin", typed, "first\n/quit\n\nlast"]


async def test_who_is_told_to_end_or_loses_the_terminal_ends_and_a_turn_goes_on(
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
            terminal.keys("typed")
            await terminal.until("> typed")
            terminal.process.send_signal(signal.SIGTERM)
            assert await terminal.ended() == -signal.SIGTERM
            assert termios.tcgetattr(terminal.theirs)[3] & termios.ECHO
            while terminal.marks_pastes:
                await terminal.news()
        async with chatting(suite, session_id) as terminal:
            await terminal.until("half")
            terminal.give()
            terminal.hang_up()
            assert await terminal.ended() == -signal.SIGHUP
        assert (await client.load(session_id)).session.running_turn_id


async def test_a_terminal_without_a_moving_cursor_and_an_output_that_is_none_are_served_line_by_line(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = lambda body: Reply([Text(f"you said {body['messages'][-1]['content']}")])
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id, term="dumb") as terminal:
            terminal.type("one")
            await terminal.until("you said one")
            await terminal.until("tokens in")
            terminal.keys("\x04")
            assert await terminal.ended() == 0
            await terminal.until("go on with --session")
            assert b"\x1b" not in terminal.raw
        reading, writing = os.pipe()
        async with chatting(suite, session_id, stdout=writing) as terminal:
            os.close(writing)
            terminal.keys("two\r\x04")
            assert await terminal.ended() == 0
            await terminal.until("go on with --session")
        output = os.read(reading, 65536)
        os.close(reading)
        assert b"you said two" in output
        assert b"\x1b" not in output
