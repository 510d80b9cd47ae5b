"""Questions to a person: durable entries that wait for an answer, wherever and however often it is given.

asked (committed) → answered, expired or closed (committed) → whoever asked goes on. The first of these wins. A question
of a dead owner goes on waiting under the next one, until the time that its entry names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.chat.v1.event_pb2 import ChatEvent, ClarifyRequest, ClarifyResolved
from netaclaw.session.v1.entry_pb2 import ClarifyBody, ClarifyState, Entry, EntryKind, EntryState, ToolCallPart
from netaclaw.store.v1.journal_service_pb2 import EntryWrite, EventWrite, Write
from netaclaw_chassis.errors import Violations
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.standing_approvals import ALLOW, ALWAYS, CHOICES, DENY, StandingApprovals

MAX_APPROVAL_BYTES = 768 * 1024
"""Longest arguments of a call that a person is asked about: they stand whole in the question."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long questions wait, in seconds."""

    clarify_s: float = 86_400.0
    """For an answer, unless the call says how long."""
    approval_s: float = 3_600.0
    """For a person's agreement; then silence denies."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and for which call."""

    entry_id: str
    """The anchor."""
    call: ToolCallPart
    agent_id: str
    agent_name: str
    task_id: str = ""
    """The asking task; empty for the main agent."""

    @property
    def key(self) -> tuple[str, str]:
        """Names the call in its session."""
        return self.task_id, self.call.call_id


@dataclass(slots=True)
class _Waiting:
    entry: Entry
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once its end is committed, or cannot be."""

    @property
    def open(self) -> bool:
        return self.entry.clarify.state == ClarifyState.CLARIFY_STATE_OPEN


class Questions:
    """The questions of one turn."""

    def __init__(
        self,
        writer: JournalWriter,
        standing: StandingApprovals,
        patience: Patience,
        *,
        session_id: str,
        turn_id: str,
        left_behind: Sequence[Entry] = (),
    ) -> None:
        """`left_behind`: the turn's questions that a dead owner had asked."""
        self._writer = writer
        self._standing = standing
        self._patience = patience
        self._session_id = session_id
        self._turn_id = turn_id
        self._waiting: dict[str, _Waiting] = {}
        self._left_behind = {(entry.clarify.task_id, entry.tool_call_id): entry for entry in left_behind}

    async def clarify(
        self, asker: Asker, text: str, choices: Sequence[str] = (), timeout_s: float | None = None
    ) -> ClarifyBody:
        """Ask and wait; returns the question as it ended: ANSWERED or EXPIRED.

        Cancelling it closes the question, unless the session is left to another owner.
        """
        body = ClarifyBody(question=text, choices=choices)
        return await self._ask(asker, body, self._patience.clarify_s if timeout_s is None else timeout_s)

    async def standing(self, asker: Asker) -> bool:
        """Whether a person has agreed to such calls for the whole session. Raises NetaclawError."""
        return await self._standing.has(asker.agent_id, asker.call.tool_name)

    async def approve(self, asker: Asker) -> str:
        """Have a person agree to a call; empty when it may run, otherwise why not, in words for the model.

        Cancelling it closes the question, unless the session is left to another owner. Raises NetaclawError.
        """
        if asker.key not in self._left_behind and await self.standing(asker):
            return ""
        if len(asker.call.arguments_json.encode()) > MAX_APPROVAL_BYTES:
            return "its arguments are too long to be shown to the person who must agree"
        call = ToolCallPart(
            call_id=asker.call.call_id, tool_name=asker.call.tool_name, arguments_json=asker.call.arguments_json
        )
        words = f"May {asker.agent_name or 'the agent'} run {asker.call.tool_name}?"
        ended = await self._ask(
            asker, ClarifyBody(question=words, choices=CHOICES, approval=call), self._patience.approval_s
        )
        if ended.state == ClarifyState.CLARIFY_STATE_ANSWERED:
            return "a person was asked and denied it" if ended.answer == DENY else ""
        return "a person was asked and did not answer in time, which counts as a denial"

    def undecided(self, task_id: str) -> set[str]:
        """Calls of a task that a dead owner had asked about and that nobody has allowed: none of them has begun."""
        return {
            call_id
            for (asking, call_id), entry in self._left_behind.items()
            if asking == task_id and entry.clarify.answer not in (ALLOW, ALWAYS)
        }

    async def answer(self, request_id: str, answer: str) -> Entry | None:
        """Answer an open question; returns it once that is committed. None when it is not open here.

        Raises InvalidRequest when an approval is answered by other than its choices; NetaclawError as `append`.
        """
        waiting = self._waiting.get(request_id)
        if waiting is None:
            return None
        if not waiting.open:  # its end is under way: whoever looks why it is not open is to find it in the store
            await waiting.over.wait()
            return None
        body = waiting.entry.clarify
        if body.HasField("approval"):
            wrong = Violations()
            wrong.check(answer in CHOICES, "answer", f"must be one of {', '.join(CHOICES)}")
            wrong.raise_if_any()
        done = self._settle(waiting, ClarifyState.CLARIFY_STATE_ANSWERED, answer)
        if body.HasField("approval") and answer == ALWAYS:
            self._standing.add(body.agent_id, body.approval.tool_name)
            for each in self._alike(waiting):
                done = self._settle(each, ClarifyState.CLARIFY_STATE_ANSWERED, ALLOW)
        await asyncio.shield(done)
        return waiting.entry

    def close(self, task_id: str | None = None) -> list[Write]:
        """The writes that close what is open still: of the whole turn, or what a dead owner had asked for a task."""
        writes: list[Write] = []
        for key, entry in list(self._left_behind.items()):
            if task_id in (None, key[0]):
                del self._left_behind[key]
                if entry.clarify.state == ClarifyState.CLARIFY_STATE_OPEN:
                    writes += self._resolve(_Waiting(entry), ClarifyState.CLARIFY_STATE_CLOSED)
        return writes

    async def _ask(self, asker: Asker, body: ClarifyBody, timeout_s: float) -> ClarifyBody:
        known = self._left_behind.get(asker.key)
        if known is not None and known.clarify.state != ClarifyState.CLARIFY_STATE_OPEN:
            return known.clarify
        waiting = _Waiting(known if known is not None else self._entry(asker, body, timeout_s))
        entry = waiting.entry
        self._waiting[entry.entry_id] = waiting
        try:
            if known is None:
                asked = ClarifyRequest(entry=Entry(entry_id=entry.entry_id))
                await self._writer.append(_write(entry), self._event(entry, clarify_request=asked))
            await self._until_over(waiting)
        except asyncio.CancelledError:
            if waiting.open and not self._writer.sealed:
                self._settle(waiting, ClarifyState.CLARIFY_STATE_CLOSED)
            raise
        finally:
            self._waiting.pop(entry.entry_id, None)
            if not self._writer.sealed:
                self._left_behind.pop(asker.key, None)
        return entry.clarify

    async def _until_over(self, waiting: _Waiting) -> None:
        left_s = waiting.entry.clarify.expire_time.ToNanoseconds() / 1e9 - time.time()
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                await waiting.over.wait()
        except TimeoutError:
            if waiting.open:
                await asyncio.shield(self._settle(waiting, ClarifyState.CLARIFY_STATE_EXPIRED))
            else:  # answered at the last moment: its commit is under way
                await waiting.over.wait()

    def _alike(self, waiting: _Waiting) -> list[_Waiting]:
        """Other open questions that a standing approval answers too."""
        body = waiting.entry.clarify
        return [
            each
            for each in self._waiting.values()
            if each is not waiting
            and each.open
            and each.entry.clarify.HasField("approval")
            and each.entry.clarify.agent_id == body.agent_id
            and each.entry.clarify.approval.tool_name == body.approval.tool_name
        ]

    def _settle(self, waiting: _Waiting, state: ClarifyState, answer: str = "") -> asyncio.Future[None]:
        """Have its end written; whoever waits goes on then, or meets the failure at the next write."""
        done = self._writer.post(*self._resolve(waiting, state, answer))
        done.add_done_callback(lambda _: waiting.over.set())
        return done

    def _resolve(self, waiting: _Waiting, state: ClarifyState, answer: str = "") -> list[Write]:
        entry = waiting.entry
        entry.clarify.state = state
        entry.clarify.answer = answer
        resolved = ClarifyResolved(entry=Entry(entry_id=entry.entry_id))
        return [_write(entry), self._event(entry, clarify_resolved=resolved)]

    def _entry(self, asker: Asker, body: ClarifyBody, timeout_s: float) -> Entry:
        entry = Entry(
            entry_id=new_id(),
            session_id=self._session_id,
            parent_entry_id=asker.entry_id,
            turn_id=self._turn_id,
            kind=EntryKind.ENTRY_KIND_CLARIFY,
            state=EntryState.ENTRY_STATE_COMPLETE,
            tool_call_id=asker.call.call_id,
            clarify=body,
        )
        asked = entry.clarify
        asked.request_id = entry.entry_id
        asked.state = ClarifyState.CLARIFY_STATE_OPEN
        asked.task_id = asker.task_id
        asked.agent_id = asker.agent_id
        asked.agent_name = asker.agent_name
        expires = Timestamp()
        expires.FromNanoseconds(time.time_ns() + round(timeout_s * 1e9))
        asked.expire_time.CopyFrom(expires)
        return entry

    def _event(self, entry: Entry, **payload: object) -> Write:
        event = ChatEvent(
            session_id=self._session_id,
            turn_id=self._turn_id,
            entry_id=entry.parent_entry_id,
            task_id=entry.clarify.task_id,
            **payload,  # type: ignore[arg-type]  # one member of the event oneof
        )
        return Write(event=EventWrite(event=event))


def _write(entry: Entry) -> Write:
    """The entry as it stands; its event carries it whole, so it needs none of its own."""
    return Write(entry=EntryWrite(entry=entry, quiet=True))
