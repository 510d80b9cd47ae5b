"""`netaclaw chat`: a conversation in the terminal, or one message."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys

import grpc

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, PingRequest
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw_cli import places
from netaclaw_cli.errors import CommandError, words_for
from netaclaw_cli.printing import TurnPrinter
from netaclaw_cli.wording import outcome
from netaclaw_client import Backoff, Client, SessionView, run_turn

_MAX_TRIES = 30
_PING_TIMEOUT_S = 5.0
_CANCEL_TIMEOUT_S = 10.0
_LONG_PAUSE_S = 1.0


def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends, or send one message; 0 when the last turn completed."""
    address = places.gateway_address(arguments.address, os.environ)
    with asyncio.Runner() as runner:
        chat = Chat(Client(address), arguments.agent or "")
        runner.run(chat.open(arguments.session or "", arguments.workspace or ""))
        try:
            if arguments.message:
                return 0 if _one_turn(runner, chat, " ".join(arguments.message)) else 1
            return _converse(runner, chat)
        finally:
            runner.run(chat.close())


class Chat:
    """One session at a terminal."""

    def __init__(self, client: Client, agent_name: str) -> None:
        self._client = client
        self._agent_name = agent_name
        self.view = SessionView()

    @property
    def address(self) -> str:
        return self._client.address

    async def open(self, session_id: str, workspace: str) -> None:
        """Connect, and load the session that is named or make one in the workspace that is named."""
        await self._client.__aenter__()
        await self._reach()
        if session_id:
            self.view = await self._client.load(session_id)
        elif workspace:
            made = await self._client.commands.CreateSession(CreateSessionRequest(workspace=workspace))
            self.view = SessionView(session_id=made.session.session_id, seq=made.session.seq)

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)

    async def send(self, content: str) -> bool:
        """One turn, printed as it happens; True when it completed. Survives cuts."""
        request = ChatRequest(session_id=self.view.session_id, content=content, agent_name=self._agent_name)
        printer = TurnPrinter(self.view, _write)
        backoff = Backoff(max_attempts=_MAX_TRIES, sleep=_wait_aloud)
        events = run_turn(self._client, request, self.view.seq, backoff=backoff)
        async with contextlib.aclosing(events):
            async for event in events:
                self.view.apply(event)
                printer.show(event)
        end = self.view.turn_end
        ended = outcome(end.done.outcome) if end is not None and end.HasField("done") else "FAILED"
        if ended not in ("COMPLETED", "FAILED"):
            printer.line(f"({ended.lower()})")
        return ended == "COMPLETED"

    async def cancel(self) -> None:
        """Stop the running turn; answers when everything of it is gone."""
        if self.view.session_id:
            request = CancelTurnRequest(session_id=self.view.session_id)
            await self._client.chat.CancelTurn(request, timeout=_CANCEL_TIMEOUT_S)

    async def _reach(self) -> None:
        """A wrong address is said at once, not after many tries."""
        try:
            await self._client.chat.Ping(PingRequest(), timeout=_PING_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise CommandError(words_for(error, self._client.address)) from error


def _converse(runner: asyncio.Runner, chat: Chat) -> int:
    """Read a line, answer it, until the input ends; the exit code."""
    completed = True
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415  # line editing, where there is a terminal for it
    while True:
        try:
            content = input("> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            _write("\n" if sys.stdin.isatty() else "")
            if chat.view.session_id:
                sys.stderr.write(f"netaclaw: go on with --session {chat.view.session_id}\n")
            return 0 if completed else 1
        if content:
            completed = _one_turn(runner, chat, content)


def _one_turn(runner: asyncio.Runner, chat: Chat, content: str) -> bool:
    """One turn; Ctrl-C cancels it. Errors of the call are printed, and the conversation goes on."""
    try:
        return runner.run(chat.send(content))
    except KeyboardInterrupt:
        _cancel(runner, chat)
    except grpc.aio.AioRpcError as error:
        sys.stderr.write(f"netaclaw: {words_for(error, chat.address)}\n")
    return False


def _cancel(runner: asyncio.Runner, chat: Chat) -> None:
    """Wait for the turn's end; another Ctrl-C leaves without it."""
    sys.stderr.write("\nnetaclaw: cancelling\n")
    try:
        runner.run(chat.cancel())
    except grpc.aio.AioRpcError as error:
        sys.stderr.write(f"netaclaw: {words_for(error, chat.address)}\n")


async def _wait_aloud(seconds: float) -> None:
    if seconds >= _LONG_PAUSE_S:  # short cuts heal without a word
        sys.stderr.write("\nnetaclaw: the connection is lost; trying again\n")
    await asyncio.sleep(seconds)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
