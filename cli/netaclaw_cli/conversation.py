"""The conversation of `netaclaw chat`: lines that are typed, the turn that runs meanwhile, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc

from netaclaw.chat.v1.chat_service_pb2 import WhenBusy
from netaclaw_cli.chat_commands import HELP, Command, parse
from netaclaw_cli.chat_session import ChatSession
from netaclaw_cli.errors import CommandError, words_for
from netaclaw_cli.tree_lines import last_exchange, tree_lines
from netaclaw_cli.typed_lines import TypedLines
from netaclaw_cli.wording import usage_line


class Conversation:
    """Reads lines until they end; at most one turn or command of its own runs at a time."""

    def __init__(self, chat: ChatSession, lines: TypedLines) -> None:
        self._chat = chat
        self._lines = lines
        self._work: asyncio.Task[bool] | None = None
        self._cancelling: asyncio.Task[bool] | None = None
        self._ends_with_us = False
        """Whether what runs ends when its call does; all else goes on without its caller."""
        self._left = asyncio.Event()
        self._completed = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C cancels what runs; another one, or one while nothing runs, leaves."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def one_message(self, content: str) -> int:
        """One turn; the exit code."""
        await self._attend(self._chat.send(content), None)
        return 0 if self._completed and not self._left.is_set() else 1

    async def run(self) -> int:
        """Until the input ends or somebody leaves; the exit code."""
        line = self._next_line()
        if self._lines.interactive:
            self._line("(/help lists what can be typed)")
            self._show_last()
        line = await self._attend(self._chat.go_on(), line)
        while not self._left.is_set():
            await self._either(line)
            if not line.done():
                break
            typed = line.result()
            if typed is None:
                break
            line = self._next_line()
            command = parse(typed)
            if command is not None:
                line = await self._obey(command, line)
        line.cancel()
        if self._chat.view.session_id:
            self._lines.complain(f"go on with --session {self._chat.view.session_id}")
        return 0 if self._completed else 1

    async def _obey(self, command: Command, line: asyncio.Task[str | None]) -> asyncio.Task[str | None]:
        """Do it, with what is typed meanwhile; the line that is awaited now."""
        if command.name in ("say", "queue"):
            line = await self._attend(self._chat.send(command.text), line)
        else:
            self._ends_with_us = command.name == "summarize"
            await self._attend(self._done(command), None)
            self._ends_with_us = False
        while self._chat.waiting and not self._left.is_set():
            line = await self._attend(self._chat.follow_waiting(), line)
        return line

    async def _attend(self, work: Coroutine[Any, Any, bool], line: asyncio.Task[str | None] | None) -> Any:
        """Run the work to its end, and obey lines that come meanwhile where a line is given and somebody types."""
        self._work = asyncio.create_task(self._quietly(work))
        listening = line if self._lines.interactive else None
        while not self._work.done() and not self._left.is_set():
            await self._either(self._work, *([listening] if listening is not None else []))
            if listening is not None and listening.done() and not self._work.done():
                typed = listening.result()
                if typed is None:  # the turn is waited for; then the same line ends the conversation
                    listening = None
                    continue
                line = listening = self._next_line()
                command = parse(typed)
                if command is not None:
                    await self._quietly(self._done_meanwhile(command))
        if self._work.done():
            self._completed = not self._work.cancelled() and self._work.result()
        else:
            self._work.cancel()
        self._work = None
        return line

    async def _done_meanwhile(self, command: Command) -> bool:
        """A command, or a message, while something runs."""
        match command.name:
            case "say" if self._chat.question() is not None:
                await self._chat.answer(command.text)
            case "say":
                await self._chat.leave(command.text, WhenBusy.WHEN_BUSY_STEER)
            case "queue":
                await self._chat.leave(command.text, WhenBusy.WHEN_BUSY_ENQUEUE)
            case "compact" | "switch" | "summarize" | "fork":
                raise CommandError(f"/{command.name} has to wait for the turn's end")
            case "tree":
                self._show_tree()
            case _:
                await self._done(command)
        return True

    async def _done(self, command: Command) -> bool:
        do = _COMMANDS.get(command.name)
        if do is None:
            raise CommandError(command.text)
        await do(self, command)
        return True

    async def _compact(self, command: Command) -> None:
        before, after = await self._chat.compact(command.text)
        self._line(f"(summed up: {before} tokens are {after} now)")

    async def _tree(self, command: Command) -> None:
        await self._chat.reload()
        self._show_tree()

    def _show_tree(self) -> None:
        view = self._chat.view
        for each in tree_lines(view.entries.values(), view.leaf_entry_id):
            self._line(each)

    def _show_last(self) -> None:
        for each in last_exchange(self._chat.view):
            self._line(each)

    async def _switch(self, command: Command) -> None:
        await self._chat.switch(command.target)
        self._show_last()
        self._line("(the next message continues from there)")

    async def _summarize(self, command: Command) -> None:
        summary = await self._chat.switch(command.target, summarize=True, instructions=command.text)
        self._line(f"(summary of the branch that is left: {summary})" if summary else "(nothing is left behind)")

    async def _fork(self, command: Command) -> None:
        self._line(f"(this is session {await self._chat.fork(command.target)} now)")

    async def _think(self, command: Command) -> None:
        await self._chat.think(command.text)

    async def _cancel(self, command: Command) -> None:
        await (self._chat.cancel_task(command.target) if command.target else self._chat.cancel())

    async def _steer(self, command: Command) -> None:
        await self._chat.steer_task(command.target, command.text)

    async def _answer(self, command: Command) -> None:
        await self._chat.answer(command.text)

    async def _usage(self, command: Command) -> None:
        self._line(f"({usage_line(await self._chat.usage())})")

    async def _help(self, command: Command) -> None:
        self._line(HELP)

    async def _quit(self, command: Command) -> None:
        self._left.set()

    async def _quietly(self, work: Coroutine[Any, Any, bool]) -> bool:
        """Run it; expected errors are a line, and the conversation goes on."""
        try:
            return await work
        except CommandError as error:
            self._lines.complain(str(error))
        except grpc.aio.AioRpcError as error:
            self._lines.complain(words_for(error, self._chat.address))
        return False

    def _interrupt(self) -> None:
        if self._work is None or (self._cancelling is not None and not self._cancelling.done()):
            self._left.set()
            return
        self._lines.complain("cancelling; once more leaves")
        self._cancelling = asyncio.create_task(self._quietly(self._cancelled()))

    async def _cancelled(self) -> bool:
        if self._ends_with_us and self._work is not None:
            self._work.cancel()
            self._line("(cancelled)")
        else:
            await self._chat.cancel()
        return True

    async def _either(self, *tasks: asyncio.Task[Any]) -> None:
        """Until one of them is done, or somebody leaves."""
        left = asyncio.create_task(self._left.wait())
        await asyncio.wait([left, *tasks], return_when=asyncio.FIRST_COMPLETED)
        left.cancel()

    def _next_line(self) -> asyncio.Task[str | None]:
        return asyncio.create_task(self._lines.next())

    def _line(self, text: str) -> None:
        self._lines.write(f"{text}\n")


_COMMANDS: Mapping[str, Callable[[Conversation, Command], Awaitable[None]]] = {
    "compact": Conversation._compact,
    "tree": Conversation._tree,
    "switch": Conversation._switch,
    "summarize": Conversation._summarize,
    "fork": Conversation._fork,
    "think": Conversation._think,
    "cancel": Conversation._cancel,
    "steer": Conversation._steer,
    "answer": Conversation._answer,
    "usage": Conversation._usage,
    "help": Conversation._help,
    "quit": Conversation._quit,
}
