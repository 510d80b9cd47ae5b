"""One session of `netaclaw chat`: what can be asked of the suite, and what is known of the session."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import cast

import grpc

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.chat.v1 import chat_service_pb2 as pb
from netaclaw.chat.v1.chat_service_pb2 import WhenBusy
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ClarifyBody, ClarifyState, EntryKind
from netaclaw.session.v1.session_command_service_pb2 import (
    CreateSessionRequest,
    ForkSessionRequest,
    SwitchLeafRequest,
)
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_chassis.errors import from_rpc
from netaclaw_cli.chat_commands import named
from netaclaw_cli.errors import CommandError, words_for
from netaclaw_cli.printing import TurnPrinter, Write, question_lines
from netaclaw_cli.tree_lines import ROOT
from netaclaw_cli.wording import outcome
from netaclaw_client import Backoff, Client, SessionView, run_turn
from netaclaw_client.follow import running_turn

_MAX_TRIES = 30
_PING_TIMEOUT_S = 5.0
_CANCEL_TIMEOUT_S = 10.0
_COMPACT_TIMEOUT_S = 600.0
_LONG_PAUSE_S = 1.0


class ChatSession:
    """A session at a terminal; every call may raise grpc.aio.AioRpcError."""

    def __init__(self, client: Client, agent_name: str, write: Write, complain: Callable[[str], None]) -> None:
        """`write` shows text as it is, `complain` a line that says what is wrong."""
        self._client = client
        self._agent_name = agent_name
        self._write = write
        self._complain = complain
        self.view = SessionView()
        self.waiting: dict[str, pb.ChatRequest] = {}
        """Messages that were sent while a turn ran, and have not been taken, by request id, in order."""

    @property
    def address(self) -> str:
        return self._client.address

    async def open(self, session_id: str, workspace: str) -> None:
        """Load the session that is named, or make one in the workspace that is named."""
        await self._reach()
        if session_id:
            self.view = await self._client.load(session_id)
        elif workspace:
            made = await self._client.commands.CreateSession(CreateSessionRequest(workspace=workspace))
            self.view = SessionView(session_id=made.session.session_id, seq=made.session.seq)

    async def reload(self) -> None:
        """Take the session as it stands."""
        if self.view.session_id:
            self.view = await self._client.load(self.view.session_id)

    async def send(self, content: str) -> bool:
        """One turn, printed as it happens; True when it completed. Survives cuts.

        Where a turn runs already, begun elsewhere, the message enters that one.
        """
        request = pb.ChatRequest(session_id=self.view.session_id, content=content, agent_name=self._agent_name)
        try:
            return await self._follow(request)
        except grpc.aio.AioRpcError as error:
            if from_rpc(error).reason != Reason.REASON_TURN_RUNNING:
                raise
        await self.reload()
        await self.leave(content, WhenBusy.WHEN_BUSY_STEER)
        return await self.go_on()

    async def go_on(self) -> bool:
        """Show a turn that runs, with its open question, to its end; True unless there is one and it failed."""
        turn_id = self.view.session.running_turn_id
        if not turn_id:
            return True
        question = self.question()
        for line in question_lines(question, self.view) if question is not None else ():
            self._write(f"{line}\n")
        return await self._print(running_turn(self._client, self.view, turn_id, backoff=self._backoff()))

    async def follow_waiting(self) -> bool:
        """The turn of the message that has waited longest."""
        request_id = next(iter(self.waiting))
        return await self._follow(self.waiting.pop(request_id))

    async def leave(self, content: str, when_busy: WhenBusy) -> None:
        """Send a message to the running turn, or behind it; a receipt among its events says what became of it."""
        request = pb.ChatRequest(
            session_id=self.view.session_id,
            content=content,
            agent_name=self._agent_name,
            request_id=str(uuid.uuid4()),
            when_busy=when_busy,
        )
        self.waiting[request.request_id] = request
        call = self._client.chat.Chat(request)
        try:
            async for _ in call:  # its first words say that the store has it; what follows is shown elsewhere
                return
        except grpc.aio.AioRpcError:
            self.waiting.pop(request.request_id, None)
            raise
        finally:
            call.cancel()

    async def cancel(self) -> None:
        """Stop the running turn or compaction; answers when everything of it is gone."""
        if self.view.session_id:
            request = pb.CancelTurnRequest(session_id=self.view.session_id)
            await self._client.chat.CancelTurn(request, timeout=_CANCEL_TIMEOUT_S)

    async def cancel_task(self, word: str) -> None:
        """Stop one subagent."""
        request = pb.CancelSubagentRequest(session_id=self.view.session_id, task_id=self._task(word))
        await self._client.chat.CancelSubagent(request, timeout=_CANCEL_TIMEOUT_S)

    async def steer_task(self, word: str, content: str) -> None:
        """Say something to one subagent."""
        request = pb.SteerSubagentRequest(
            session_id=self.view.session_id,
            task_id=self._task(word),
            content=content,
            request_id=str(uuid.uuid4()),
        )
        await self._client.chat.SteerSubagent(request)

    async def compact(self, instructions: str) -> tuple[int, int]:
        """Compact now; tokens before and after."""
        request = pb.CompactRequest(session_id=self._existing(), instructions=instructions)
        body = (await self._client.chat.Compact(request, timeout=_COMPACT_TIMEOUT_S)).entry.compaction
        await self.reload()
        return body.tokens_before, body.tokens_after

    async def switch(self, word: str, *, summarize: bool = False, instructions: str = "") -> str:
        """Stand on another entry, or on the root; the summary of what is left behind, where one is wanted and something
        is."""
        await self.reload()
        request = SwitchLeafRequest(
            session_id=self._existing(),
            leaf_entry_id="" if word == ROOT else self._entry(word),
            to_root=word == ROOT,
            summarize=summarize,
            instructions=instructions,
        )
        await self._client.commands.SwitchLeaf(request, timeout=_COMPACT_TIMEOUT_S)
        await self.reload()
        made = self.view.entries.get(self.view.leaf_entry_id)
        return made.branch_summary.summary if summarize and made is not None else ""

    async def fork(self, word: str) -> str:
        """Go on in a copy; its id."""
        await self.reload()
        request = ForkSessionRequest(session_id=self._existing(), entry_id=self._entry(word) if word else "")
        made = (await self._client.commands.ForkSession(request)).session
        self.view = await self._client.load(made.session_id)
        return made.session_id

    async def think(self, level: str) -> None:
        """Set the thinking level."""
        if not self.view.session_id:
            made = await self._client.commands.CreateSession(CreateSessionRequest())
            self.view = SessionView(session_id=made.session.session_id, seq=made.session.seq)
        wanted = cast("ThinkingLevel", ThinkingLevel.Value(f"THINKING_LEVEL_{level.upper()}"))
        request = pb.SetThinkingLevelRequest(session_id=self.view.session_id, level=wanted)
        await self._client.chat.SetThinkingLevel(request)

    async def usage(self) -> Usage:
        """What the session has cost."""
        return (await self._client.sessions.GetUsage(GetUsageRequest(session_id=self._existing()))).total

    def question(self) -> ClarifyBody | None:
        """The oldest open question."""
        for entry in self.view.entries.values():
            if entry.kind == EntryKind.ENTRY_KIND_CLARIFY and entry.clarify.state == ClarifyState.CLARIFY_STATE_OPEN:
                return entry.clarify
        return None

    async def answer(self, text: str) -> None:
        """Answer the oldest open question; a number chooses. Raises CommandError when none is open."""
        question = self.question()
        if question is None:
            raise CommandError("no question is open")
        chosen = int(text) if text.isdecimal() and text.isascii() and len(text) < 4 else 0
        answer = question.choices[chosen - 1] if 0 < chosen <= len(question.choices) else text
        request = pb.RespondClarifyRequest(
            session_id=self.view.session_id, request_id=question.request_id, answer=answer
        )
        await self._client.chat.RespondClarify(request)

    async def _follow(self, request: pb.ChatRequest) -> bool:
        return await self._print(run_turn(self._client, request, self.view.seq, backoff=self._backoff()))

    async def _print(self, events: AsyncGenerator[ChatEvent, None]) -> bool:
        printer = TurnPrinter(self.view, self._write)
        async with contextlib.aclosing(events):
            async for event in events:
                if not self.view.apply(event):
                    continue
                receipt = event.message_receipt
                if receipt.state in (ReceiptState.RECEIPT_STATE_TAKEN, ReceiptState.RECEIPT_STATE_RETRACTED):
                    self.waiting.pop(receipt.request_id, None)
                printer.show(event)
        end = self.view.turn_end
        ended = outcome(end.done.outcome) if end is not None and end.HasField("done") else "FAILED"
        if ended not in ("COMPLETED", "FAILED"):
            printer.line(f"({ended.lower()})")
        return ended == "COMPLETED"

    def _existing(self) -> str:
        if not self.view.session_id:
            raise CommandError("there is no conversation yet")
        return self.view.session_id

    def _entry(self, word: str) -> str:
        entry_id = named(word, list(self.view.entries))
        if entry_id is None:
            raise CommandError(f"{word} names no entry, or several; /tree shows them")
        return entry_id

    def _task(self, word: str) -> str:
        items = [item for entry in self.view.batches() for item in entry.subagent_batch.batch.items]
        by_name = [item.task_id for item in items if item.name == word]
        task_id = by_name[0] if len(by_name) == 1 else named(word, [item.task_id for item in items])
        if task_id is None:
            raise CommandError(f"{word} names no running subagent, or several")
        return task_id

    async def _reach(self) -> None:
        """A wrong address is said at once, not after many tries."""
        try:
            await self._client.chat.Ping(pb.PingRequest(), timeout=_PING_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise CommandError(words_for(error, self._client.address)) from error

    def _backoff(self) -> Backoff:
        return Backoff(max_attempts=_MAX_TRIES, sleep=self._wait_aloud)

    async def _wait_aloud(self, seconds: float) -> None:
        if seconds >= _LONG_PAUSE_S:  # short cuts heal without a word
            self._complain("the connection is lost; trying again")
        await asyncio.sleep(seconds)  # the pause itself
