"""The sessions that this instance owns, and the publishers of those that are watched here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw.store.v1.journal_service_pb2 import (
    BeginTurnRequest,
    BeginTurnResponse,
    ReadPathRequest,
    ReleaseSessionRequest,
)
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.policy import SubagentSettings
from netaclaw_orchestrator.journal import JournalWriter, translated
from netaclaw_orchestrator.publisher import Publisher, Subscription
from netaclaw_orchestrator.tool_host import ToolHost
from netaclaw_orchestrator.turn import Turn
from netaclaw_orchestrator.turn_context import TurnContext, policy_of

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """What sessions work with."""

    instance_id: str
    journal: JournalServiceAsyncStub
    runner: RunnerServiceAsyncStub
    models: ModelCatalogue
    settings: SubagentSettings
    idle_s: float


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
        self.turn: Turn | None = None
        self.host: ToolHost | None = None
        self.path: list[Entry] = []
        """The path to the leaf where the last turn left it."""

    @property
    def busy(self) -> bool:
        return self.turn is not None and not self.turn.ended.is_set()

    async def begin(self, begun: BeginTurnResponse, request: BeginTurnRequest) -> Turn:
        """Build and start the turn that the store has begun."""
        path = await self._path(begun, request)
        user, placeholder = _made_entries(begun, request)
        turn = Turn(self._context(begun.session, begun.turn_id, begun.agent, begun.presets), path, user, placeholder)
        self.turn = turn
        turn.start()
        return turn

    async def close(self) -> None:
        """Cancel what runs, write out what is queued, end the tool host, give the lease back."""
        if self.turn is not None and not self.turn.ended.is_set():
            await self.turn.cancel()
        await self.writer.close()
        if self.host is not None:
            await self.host.close()
        release = ReleaseSessionRequest(
            instance_id=self._services.instance_id, session_id=self.session_id, generation=self.writer.generation
        )
        try:
            await self._services.journal.ReleaseSession(release, timeout=2.0)
        except grpc.aio.AioRpcError as error:
            log.info("lease not given back", extra={"session_id": self.session_id, "status": error.code().name})

    def _context(self, session: Session, turn_id: str, agent: Agent, presets: Sequence[Agent]) -> TurnContext:
        policy = policy_of(agent, session, self._services.settings)
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
            agent=agent,
            presets=presets,
            writer=self.writer,
            publisher=self.publisher,
            runner=self._services.runner,
            models=self._services.models,
            settings=self._services.settings,
            host=self.host,
            policy=policy,
        )

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
        first = added[0] if added else _made_entries(begun, request)[0]
        known = request.known_entry_id
        continues = bool(known) and first.parent_entry_id == known
        return [*self.path, *added] if continues else added


class Sessions:
    """Owned sessions by id. Turns begin here; idle sessions are given back after a while."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._live: dict[str, LiveSession] = {}
        self._publishers: dict[str, Publisher] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, session_id: str, owner_id: str) -> LiveSession | None:
        """The owned session, if it is the owner's."""
        live = self._live.get(session_id)
        return live if live is not None and live.owner_id == owner_id else None

    def publisher(self, session_id: str) -> Publisher:
        """The session's publisher on this instance."""
        return self._publishers.setdefault(session_id, Publisher(session_id))

    def unsubscribe(self, session_id: str, subscription: Subscription) -> None:
        """Stop reading; a publisher that nobody needs any more goes."""
        publisher = self._publishers.get(session_id)
        if publisher is None:
            return
        publisher.unsubscribe(subscription)
        if session_id not in self._live and not publisher.watched:
            self._publishers.pop(session_id)
            publisher.close()

    def known_entry_id(self, session_id: str, owner_id: str) -> str:
        """The last path entry that is held in memory; empty when the store must send the whole path."""
        live = self.get(session_id, owner_id)
        if live is None or live.busy or not live.path:
            return ""
        return live.path[-1].entry_id

    def forget_path(self, session_id: str) -> None:
        """The tree is going to change by a command: the next turn reads its path anew."""
        live = self._live.get(session_id)
        if live is not None:
            live.path = []

    async def begin(
        self, owner_id: str, begun: BeginTurnResponse, request: BeginTurnRequest
    ) -> tuple[Turn, Subscription]:
        """Start the turn that the store has begun, and read its events from the first one on."""
        session_id = begun.session.session_id
        live = self._live.get(session_id)
        if live is not None and live.writer.generation != begun.generation:
            self._live.pop(session_id)
            await live.writer.close()
            live = None
        if live is None:
            live = LiveSession(self._services, self.publisher(session_id), owner_id, session_id, begun.generation)
            self._live[session_id] = live
        idle = self._idle.pop(session_id, None)
        if idle is not None:
            idle.cancel()
        subscription = live.publisher.subscribe()
        live.publisher.durable(begun.events)
        turn = await live.begin(begun, request)
        self._spawn(self._after(live, turn))
        return turn, subscription

    async def drop(self, session_id: str) -> None:
        """Cancel and forget a session that is going to be deleted."""
        live = self._live.pop(session_id, None)
        if live is not None:
            await live.close()
        publisher = self._publishers.pop(session_id, None)
        if publisher is not None:
            publisher.close()

    async def close(self) -> None:
        """Cancel every turn and give every lease back."""
        for timer in self._idle.values():
            timer.cancel()
        closing = [asyncio.create_task(live.close()) for live in self._live.values()]
        self._live.clear()
        if closing:
            await asyncio.wait(closing)
        for publisher in self._publishers.values():
            publisher.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _after(self, live: LiveSession, turn: Turn) -> None:
        await turn.ended.wait()
        live.path = turn.path
        if self._live.get(live.session_id) is live:
            loop = asyncio.get_running_loop()
            self._idle[live.session_id] = loop.call_later(self._services.idle_s, self._on_idle, live)

    def _on_idle(self, live: LiveSession) -> None:
        self._idle.pop(live.session_id, None)
        if live.busy or self._live.get(live.session_id) is not live:
            return
        self._live.pop(live.session_id)
        if not live.publisher.watched:
            self._publishers.pop(live.session_id, None)
        self._spawn(live.close())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def begin_request(make: Callable[[], str], **fields: object) -> BeginTurnRequest:
    """A BeginTurnRequest with fresh ids for the turn and its first two entries."""
    return BeginTurnRequest(
        turn_id=make(),
        user_entry_id=make(),
        assistant_entry_id=make(),
        **fields,  # type: ignore[arg-type]  # fields of the message
    )


def _made_entries(begun: BeginTurnResponse, request: BeginTurnRequest) -> tuple[Entry, Entry]:
    """The user entry and the placeholder, as the store wrote them."""
    made = {
        event.session_entry_added.entry.entry_id: event.session_entry_added.entry
        for event in begun.events
        if event.WhichOneof("event") == "session_entry_added"
    }
    return made[request.user_entry_id], made[request.assistant_entry_id]
