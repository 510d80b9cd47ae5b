"""One session under this instance's lease: its writer, its turn, its tool host and its waiting messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import grpc

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.chat_service_pb2 import WhenBusy
from netaclaw.chat.v1.event_pb2 import StreamChannel
from netaclaw.session.v1.entry_pb2 import Entry, Part, Session, TextPart, ThinkingPart
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import (
    BeginTurnRequest,
    BeginTurnResponse,
    ClaimedTurn,
    Draft,
    QueuedMessage,
    ReadPathRequest,
    ReleaseSessionRequest,
)
from netaclaw_agent.context import ContextBuilder
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.compaction import Compactor
from netaclaw_orchestrator.delegation.outcome import LeftBehind
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.journal import JournalWriter, translated
from netaclaw_orchestrator.large_content import Contents
from netaclaw_orchestrator.prelude import EarlyCall, Prelude, Preludes
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.questions import Patience, Questions
from netaclaw_orchestrator.standing_approvals import QuestionReader, StandingApprovals
from netaclaw_orchestrator.tool_host import ToolHost
from netaclaw_orchestrator.tree_reader import TreeReader
from netaclaw_orchestrator.turn import Turn
from netaclaw_orchestrator.turn_context import TurnContext
from netaclaw_orchestrator.waiting import Waiting

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

log = logging.getLogger(__name__)


MAX_TAKEOVERS = 2
"""A turn whose owners died more often than this ends as interrupted: it may be what kills them."""


@dataclass(frozen=True, slots=True)
class Services:
    """What sessions work with."""

    instance_id: str
    journal: JournalServiceAsyncStub
    runner: RunnerServiceAsyncStub
    models: ModelCatalogue
    preludes: Preludes
    delegations: DelegationReader
    contents: Contents
    questions: QuestionReader
    patience: Patience
    idle_s: float
    compaction_threshold: float
    """Part of a model's window; 0: compactions only after an overflow."""


class LiveSession:
    """A session under this instance's lease."""

    def __init__(
        self, services: Services, publisher: Publisher, owner_id: str, session_id: str, generation: int
    ) -> None:
        self._services = services
        self.publisher = publisher
        self.owner_id = owner_id
        self.session_id = session_id
        self.writer = JournalWriter(
            services.journal, publisher, owner_id=owner_id, session_id=session_id, generation=generation
        )
        self._standing = StandingApprovals(services.questions, owner_id, session_id)
        self.turn: Turn | None = None
        self.host: ToolHost | None = None
        self.path: list[Entry] = []
        """The path to the leaf where the last turn left it."""
        self.contexts = ContextBuilder()
        self.compactor = Compactor(services.compaction_threshold)
        self.prelude: Prelude | None = None
        """The agent of the last turn, made ready."""
        self.session: Session | None = None
        """The session as the last turn began."""
        self.waiting: dict[str, Waiting] = {}
        """Messages that wait in the store's queue, by request id, in order."""
        self._begun_by = ""
        """Request id of the message that began the turn, where it has one."""
        self.more_wait = False
        """Whether others may wait there that came to an owner before."""

    @property
    def busy(self) -> bool:
        return self.turn is not None and not self.turn.ended.is_set()

    async def begin(self, begun: BeginTurnResponse, request: BeginTurnRequest, early: EarlyCall | None) -> Turn:
        """Build and start the turn that the store has begun."""
        self._begun_by = begun.request_id
        path = await self._path(begun, request)
        user, placeholder = _made_entries(begun, request)
        context = self._context(begun.session, begun.turn_id, begun.agent, begun.presets)
        if early is not None and early.fits(context.prelude, path, begun.session.thinking_level):
            context = replace(context, early=early)
        elif early is not None:  # agent, tree or level were changed meanwhile
            await early.drop()
            context = replace(context, lost_usage=Usage(model_calls=1))
        self.turn = Turn(context, [*path, user], AnchorEntry(placeholder))
        self.turn.start()
        if request.from_queue:  # what still waits there to interrupt came behind it
            self._interrupt_again()
        return self.turn

    async def take_over(self, claimed: ClaimedTurn, reads: TreeReader) -> Turn:
        """Go on with the turn of a dead owner, or end it as interrupted when that has failed too often."""
        path = await reads.path(self.owner_id, self.session_id)
        await self._services.contents.fill(self.owner_id, self.session_id, path)
        anchor = None
        if path and path[-1].HasField("assistant") and path[-1].turn_id == claimed.turn_id:
            anchor = AnchorEntry(path.pop())
        calls = anchor.open_calls if anchor is not None else set()
        batches = (
            await reads.batches(self.owner_id, self.session_id, anchor.entry_id, calls) if anchor and calls else {}
        )
        asked = await self._questions_of(claimed.turn_id) if calls else []
        context = self._context(claimed.session, claimed.turn_id, claimed.agent, claimed.presets, batches, asked=asked)
        delegated = await self._services.delegations.spent(self.owner_id, self.session_id, claimed.turn_id)
        drafts = await reads.drafts(self.owner_id, self.session_id, claimed.session.seq)
        context = replace(context, delegated=delegated, shown=_draft_parts(drafts, anchor))
        turn = Turn(context, path, anchor)
        self.turn = turn
        self.waiting = {each.request_id: _waiting(each) for each in claimed.queued}
        for waiting in self.waiting.values():
            if waiting.when_busy == WhenBusy.WHEN_BUSY_STEER:
                turn.steer(waiting)
        if claimed.takeovers > MAX_TAKEOVERS:
            await turn.interrupt()
        else:
            committed = None
            if anchor is not None and anchor.streaming:
                anchor.begin_again()  # committed before its call, so that an owner after this one counts it, too
                committed = self.writer.post(*anchor.writes())
            turn.start(committed)
            self._interrupt_again()
        return turn

    def _interrupt_again(self) -> None:
        """A message that waits has come to interrupt what runs now."""
        interrupting = (waiting.when_busy == WhenBusy.WHEN_BUSY_INTERRUPT for waiting in self.waiting.values())
        if self.turn is not None and any(interrupting):
            self.turn.interrupt_soon()

    def enqueue(self, waiting: Waiting) -> None:
        """A message that the store has queued: steers or interrupts the running turn, or waits for its end."""
        if waiting.request_id == self._begun_by:  # it was taken before its client's call had come so far
            return
        self.waiting[waiting.request_id] = waiting
        if self.turn is None or not self.busy:
            return
        if waiting.when_busy == WhenBusy.WHEN_BUSY_STEER:
            self.turn.steer(waiting)
        elif waiting.when_busy == WhenBusy.WHEN_BUSY_INTERRUPT:
            self.turn.interrupt_soon()

    def retract(self, request_id: str) -> bool:
        """Keep a message that is to be taken back out of the running turn; False when it has entered. Until the store
        has taken it back it waits like others."""
        return self.turn is None or not self.busy or self.turn.retract(request_id)

    async def renew(self, generation: int) -> None:
        """Write under a newer lease from now on."""
        before = self.writer
        self.writer = JournalWriter(
            self._services.journal,
            self.publisher,
            owner_id=self.owner_id,
            session_id=self.session_id,
            generation=generation,
        )
        await before.close()

    async def close(self, *, lost: bool = False, deleted: bool = False) -> None:
        """Stop what runs without ending it, write out what is queued, end the tool host, give the lease back.

        `lost`: the lease has run out, most likely because the store cannot be reached, so nothing is asked of it.
        `deleted`: nobody goes on with what runs, so it is cancelled.
        """
        if lost:
            self.writer.abandon()
        if self.turn is not None:
            await (self.turn.cancel() if deleted else self.turn.stop())
        await self.writer.close()
        if self.host is not None:
            await self.host.close()
        if lost or deleted:
            return
        await give_back_lease(self._services, self.session_id, self.writer.generation)

    def _context(
        self,
        session: Session,
        turn_id: str,
        agent: Agent,
        presets: Sequence[Agent],
        batches: Mapping[str, LeftBehind] | None = None,
        *,
        asked: Sequence[Entry] = (),
    ) -> TurnContext:
        prelude = self._services.preludes.of(self.owner_id, agent, presets, session.workspace)
        policy = prelude.parent.policy
        self.prelude, self.session = prelude, session
        if self.host is not None and self.host.policy != policy:
            closing = asyncio.create_task(self.host.close())
            closing.add_done_callback(lambda done: done.exception())
            self.host = None
        if self.host is None:
            self.host = ToolHost(
                self._services.runner, owner_id=self.owner_id, session_id=self.session_id, policy=policy
            )
        return TurnContext(
            owner_id=self.owner_id,
            session=session,
            turn_id=turn_id,
            prelude=prelude,
            writer=self.writer,
            publisher=self.publisher,
            runner=self._services.runner,
            models=self._services.models,
            host=self.host,
            questions=Questions(
                self.writer,
                self._standing,
                self._services.patience,
                session_id=self.session_id,
                turn_id=turn_id,
                left_behind=asked,
            ),
            delegations=self._services.delegations,
            contexts=self.contexts,
            compactor=self.compactor,
            batches=batches or {},
            on_taken=lambda request_id: self.waiting.pop(request_id, None),
        )

    async def _questions_of(self, turn_id: str) -> list[Entry]:
        return await self._services.questions.of_turn(self.owner_id, self.session_id, turn_id)

    async def _path(self, begun: BeginTurnResponse, request: BeginTurnRequest) -> list[Entry]:
        """The path before the turn: what is known here, and what the store added."""
        added = list(begun.path)
        if begun.path_omitted:
            reading = ReadPathRequest(
                owner_id=self.owner_id,
                session_id=self.session_id,
                leaf_entry_id=request.assistant_entry_id,
                known_entry_id=request.known_entry_id,
            )
            with translated():
                pages = [page async for page in self._services.journal.ReadPath(reading)]
            made = {request.user_entry_id, request.assistant_entry_id}
            added = [entry for page in pages for entry in page.entries if entry.entry_id not in made]
        await self._services.contents.fill(self.owner_id, self.session_id, added)
        first = added[0] if added else _made_entries(begun, request)[0]
        known = request.known_entry_id
        continues = bool(known) and first.parent_entry_id == known
        return [*self.path, *added] if continues else added


async def give_back_lease(services: Services, session_id: str, generation: int) -> bool:
    """Let others have the session at once, unless the lease is lost already. A store that is away is not waited for;
    False when it was."""
    release = ReleaseSessionRequest(instance_id=services.instance_id, session_id=session_id, generation=generation)
    try:
        await services.journal.ReleaseSession(release, timeout=2.0)
    except grpc.aio.AioRpcError as error:
        log.info("lease not given back", extra={"session_id": session_id, "status": error.code().name})
        return error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    return True


def _made_entries(begun: BeginTurnResponse, request: BeginTurnRequest) -> tuple[Entry, Entry]:
    """The user entry and the placeholder, as the store wrote them."""
    made = {
        event.session_entry_added.entry.entry_id: event.session_entry_added.entry
        for event in begun.events
        if event.WhichOneof("event") == "session_entry_added"
    }
    return made[request.user_entry_id], made[request.assistant_entry_id]


def _waiting(queued: QueuedMessage) -> Waiting:
    return Waiting(queued.request_id, queued.when_busy, queued.content)


def _draft_parts(drafts: Sequence[Draft], anchor: AnchorEntry | None) -> list[Part]:
    """What a dead owner had streamed into the anchor, as far as it was written down."""
    if anchor is None:
        return []
    texts = {draft.channel: draft.text for draft in drafts if draft.entry_id == anchor.entry_id and not draft.task_id}
    parts: list[Part] = []
    if StreamChannel.STREAM_CHANNEL_THINKING in texts:
        parts.append(Part(thinking=ThinkingPart(text=texts[StreamChannel.STREAM_CHANNEL_THINKING])))
    if StreamChannel.STREAM_CHANNEL_TEXT in texts:
        parts.append(Part(text=TextPart(text=texts[StreamChannel.STREAM_CHANNEL_TEXT])))
    return parts
