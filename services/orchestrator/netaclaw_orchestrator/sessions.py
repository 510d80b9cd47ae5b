"""The sessions that this instance owns, and the publishers of those that are watched here."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

import grpc

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.chat.v1.chat_service_pb2 import WhenBusy
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1.journal_service_pb2 import (
    BeginTurnOutcome,
    BeginTurnRequest,
    BeginTurnResponse,
    ClaimedTurn,
    Notice,
)
from netaclaw_agent.loop import user_message
from netaclaw_agent.model import ModelError
from netaclaw_agent.tokens import message_tokens
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.beginning import Beginning, Beginnings, ask_to_begin, begin_request
from netaclaw_orchestrator.fetching import Fetcher
from netaclaw_orchestrator.live_session import LiveSession, Services, give_back_lease
from netaclaw_orchestrator.prelude import EarlyCall
from netaclaw_orchestrator.publisher import Pace, Publisher, Subscription
from netaclaw_orchestrator.tree_locks import TreeLocks
from netaclaw_orchestrator.tree_reader import TreeReader
from netaclaw_orchestrator.turn import Turn
from netaclaw_orchestrator.waiting import Waiting

log = logging.getLogger(__name__)

QUEUE_RETRY_S = 1.0
DEFAULT_WORKSPACE = "default"
DEFAULT_AGENT = "assistant"
"""What the store gives to sessions that name neither."""


class Sessions:
    """Owned sessions by id. Turns begin here; idle sessions are given back after a while."""

    def __init__(self, services: Services, fetcher: Fetcher) -> None:
        self._services = services
        self._fetcher = fetcher
        self._live: dict[str, LiveSession] = {}
        self._publishers: dict[str, Publisher] = {}
        self._pace = Pace()
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._running: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.trees = TreeLocks()
        self._closing = False
        self.beginnings = Beginnings()
        self.unheard = asyncio.Event()
        """Set when turns may be leased to this instance that it does not know of."""

    def get(self, session_id: str, owner_id: str) -> LiveSession | None:
        """The owned session, if it is the owner's."""
        live = self._live.get(session_id)
        return live if live is not None and live.owner_id == owner_id else None

    @property
    def closing(self) -> bool:
        """Whether this instance stops."""
        return self._closing

    def running_turn_ids(self) -> list[str]:
        """The turns that run here."""
        return [live.turn.turn_id for live in self._live.values() if live.turn is not None and live.busy]

    def owned(self) -> list[LiveSession]:
        """All owned sessions."""
        return list(self._live.values())

    def running_turns(self, owner_id: str) -> int:
        """How many of the owner's turns run here."""
        return self._running[owner_id]

    def publisher(self, session_id: str, owner_id: str) -> Publisher:
        """The session's publisher on this instance; what others commit is brought to it when it is missed."""
        publisher = self._publishers.get(session_id)
        if publisher is None:
            publisher = Publisher(session_id, lambda seq: self._fetch(session_id, owner_id), self._pace)
            self._publishers[session_id] = publisher
        return publisher

    def publish(self, session_id: str, events: Sequence[ChatEvent]) -> None:
        """Publish what a command has committed, where anybody reads."""
        publisher = self._publishers.get(session_id)
        if publisher is not None and events:
            publisher.durable(events)

    def noticed(self, notice: Notice) -> None:
        """A session was changed: readers here get what another writer has committed."""
        publisher = self._publishers.get(notice.session_id)
        if notice.deleted:
            self._spawn(self.drop(notice.session_id))
        elif publisher is None or notice.seq <= publisher.seq:
            return
        elif notice.session_id in self._live:
            publisher.expect(notice.seq)  # most often our own writer's, and on its way
        else:
            self._fetch(notice.session_id, notice.owner_id)

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

    def call_early(self, owner_id: str, request: BeginTurnRequest) -> EarlyCall | None:
        """Make the turn's first model call before the store has begun the turn, where all that it depends on is known.

        That is so for a plain message to an idle session that is owned here, or to a new one, when the agent is the
        one that answered last. A message that may join an earlier turn, or wait for one, is never called early.
        """
        placed = request.leaf_entry_id or request.from_root
        plain = not (request.request_id or placed or request.agent_id or request.agent_name)
        if not plain or request.when_busy != WhenBusy.WHEN_BUSY_REJECT:
            return None
        live = self.get(request.session_id, owner_id)
        prelude, path, level = None, list[Entry](), ThinkingLevel.THINKING_LEVEL_UNSPECIFIED
        if request.create_session:
            prelude = self._services.preludes.known(owner_id, DEFAULT_WORKSPACE)
        elif live is not None and not live.busy and live.path and live.session is not None:
            prelude, path, level = live.prelude, live.path, live.session.thinking_level
        if prelude is None or (prelude.parent.agent.name != DEFAULT_AGENT and request.create_session):
            return None
        try:
            model = self._services.models.get(prelude.parent.agent.model)
        except ModelError:
            return None  # the turn itself says so
        size = message_tokens(user_message(request.content))
        if live is not None and live.compactor.is_due(path, prelude, model.context_window, size):
            return None
        messages = live.contexts.build(path) if live is not None else []
        messages.append(user_message(request.content))
        call = prelude.call(messages, level, request.session_id)
        return EarlyCall(prelude, model, call, [entry.entry_id for entry in path], level)

    def ask_to_begin(self, request: BeginTurnRequest) -> asyncio.Task[BeginTurnResponse]:
        """As the function: a turn that the store may have begun without an answer is looked for afterwards."""
        return ask_to_begin(self._services.journal, request, self.unheard.set)

    async def begin(
        self,
        owner_id: str,
        begun: BeginTurnResponse,
        request: BeginTurnRequest,
        beginning: Beginning,
        early: EarlyCall | None = None,
    ) -> tuple[Turn, Subscription]:
        """Start the turn that the store has begun, and read its events from the first one on.

        It is cancelled at once where that was asked for meanwhile. When beginning fails or is cancelled, the turn is
        left to whoever claims it.
        """
        session_id = begun.session.session_id
        try:
            live = await self._own(session_id, owner_id, begun.generation)
            live.publisher.start_at(begun.turn_start_seq)
            subscription = live.publisher.subscribe()
            live.publisher.durable(begun.events)
            turn = await live.begin(begun, request, early)
        except BaseException:
            self.leave(session_id, begun.generation)
            raise
        self._follow(live, turn, beginning)
        return turn, subscription

    def begin_alone(
        self, owner_id: str, request: BeginTurnRequest, asked: asyncio.Task[BeginTurnResponse], beginning: Beginning
    ) -> None:
        """Go on with a message whose client has gone before the store had answered."""
        beginning.handed_on = True
        self._spawn(self._begin_alone(owner_id, request, asked, beginning))

    async def take_over(self, claimed: ClaimedTurn, reads: TreeReader) -> None:
        """Go on with the turn of a dead owner. Raises NetaclawError when the store cannot be read."""
        session_id = claimed.session.session_id
        with self.beginnings.of(claimed.owner_id, session_id, claimed.turn_id) as beginning:
            live = await self._own(session_id, claimed.owner_id, claimed.generation)
            live.publisher.start_at(claimed.session.seq)
            turn = await live.take_over(claimed, reads)
            self._follow(live, turn, beginning)

    def leave(self, session_id: str, generation: int) -> None:
        """Leave a turn that could not be gone on with here to whoever claims it next, once the store can be told."""
        self._spawn(self._leave(session_id, generation))

    async def _leave(self, session_id: str, generation: int) -> None:
        self.unheard.set()
        live = self._live.get(session_id)
        if live is not None and live.writer.generation == generation:
            self._live.pop(session_id)
            self._publishers.pop(session_id, None)
            live.publisher.close()  # whoever still reads would wait for ever
            await live.close()
        while not await give_back_lease(self._services, session_id, generation):
            if self._closing:
                return
            await asyncio.sleep(QUEUE_RETRY_S)  # the pause between two tries

    async def enqueue(self, owner_id: str, begun: BeginTurnResponse, waiting: Waiting, beginning: Beginning) -> None:
        """A message that the store has queued behind the running turn of an owned session."""
        session_id = begun.session.session_id
        beginning.over()
        live = self.get(session_id, owner_id)
        if live is None or not live.busy:  # the turn may be known to the store alone, as yet
            await self.beginnings.settled(owner_id, session_id)
            live = self.get(session_id, owner_id)
        if live is None:
            return  # its owner has just died: whoever takes the turn over finds the message in the queue
        live.publisher.durable(begun.events)
        live.enqueue(waiting)
        if not live.busy:
            self._spawn(self._begin_waiting(live))

    async def _own(self, session_id: str, owner_id: str, generation: int) -> LiveSession:
        """The live session under a lease of this generation."""
        live = self._live.get(session_id)
        if live is not None and live.writer.generation != generation:
            await live.renew(generation)
        if live is None:
            publisher = self.publisher(session_id, owner_id)
            live = LiveSession(
                self._services, publisher, owner_id=owner_id, session_id=session_id, generation=generation
            )
            self._live[session_id] = live
        idle = self._idle.pop(session_id, None)
        if idle is not None:
            idle.cancel()
        return live

    async def cancel_turns(self, owner_id: str, session_ids: Collection[str] | None) -> None:
        """End the turns of these sessions, or of all of the owner's, as far as they run here."""
        mine = [live for live in self._live.values() if live.owner_id == owner_id and live.busy]
        turns = [live.turn for live in mine if session_ids is None or live.session_id in session_ids]
        await asyncio.gather(*(turn.cancel() for turn in turns if turn is not None))

    async def drop(self, session_id: str) -> None:
        """Cancel and forget a session that was deleted."""
        live = self._live.pop(session_id, None)
        if live is not None:
            await live.close(deleted=True)
        publisher = self._publishers.pop(session_id, None)
        if publisher is not None:
            publisher.close()

    async def give_back(self, session_id: str, generation: int) -> None:
        """A command that took the lease is over. A session that lives here keeps it until it has been idle."""
        live = self._live.get(session_id)
        if live is None:
            await give_back_lease(self._services, session_id, generation)
        elif not live.busy and live.writer.generation < generation:
            await live.renew(generation)

    async def release(self, *, lost: bool = False) -> None:
        """Give every lease back, unless they are lost. Running turns are stopped, not ended: others go on with them."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        owned, self._live = list(self._live.values()), {}
        for live in owned:  # at once: what is taken over here meanwhile has a publisher of its own
            self._publishers.pop(live.session_id, None)
        if owned:
            await asyncio.wait([asyncio.create_task(live.close(lost=lost)) for live in owned])
        for live in owned:
            live.publisher.close()

    async def close(self) -> None:
        """Release everything and end every stream; readers are to watch again elsewhere."""
        self._closing = True
        await self.release()
        for publisher in self._publishers.values():
            publisher.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _follow(self, live: LiveSession, turn: Turn, beginning: Beginning) -> None:
        if beginning.cancelled:
            turn.interrupt_soon()
        beginning.over()
        self._running[live.owner_id] += 1
        self._spawn(self._after(live, turn))

    async def _after(self, live: LiveSession, turn: Turn) -> None:
        await turn.ended.wait()
        self._running[live.owner_id] -= 1
        if not self._running[live.owner_id]:
            del self._running[live.owner_id]
        live.path = turn.path
        if self._live.get(live.session_id) is not live or self._closing:
            return
        if turn.lost:  # another owner has the session, or is to have it
            self.leave(live.session_id, live.writer.generation)
            return
        if live.waiting or live.more_wait:
            await self._begin_waiting(live)
        if not live.busy:
            loop = asyncio.get_running_loop()
            self._idle[live.session_id] = loop.call_later(self._services.idle_s, self._on_idle, live)

    async def _begin_waiting(self, live: LiveSession) -> None:
        """Begin a turn with the message that has waited longest, however long the store is away: nobody else does."""
        while not live.busy and not self._closing and self._live.get(live.session_id) is live:
            try:
                await self.begin_next(live.owner_id, live.session_id)
                return
            except NetaclawError as error:
                if error.reason == Reason.REASON_TURN_RUNNING:  # one that has just begun takes the queue over
                    return
                log.warning("queue stuck", extra={"session_id": live.session_id, "reason": error.reason_name})
                if error.code is not grpc.StatusCode.UNAVAILABLE:
                    return
            await asyncio.sleep(QUEUE_RETRY_S)  # the pause between two rounds of tries

    async def begin_next(self, owner_id: str, session_id: str) -> None:
        """Begin a turn with the message that has waited longest in a session. Raises NetaclawError."""
        request = begin_request(
            new_id,
            instance_id=self._services.instance_id,
            owner_id=owner_id,
            session_id=session_id,
            from_queue=True,
        )
        with self.beginnings.of(owner_id, session_id, request.turn_id) as beginning:
            begun = await self.ask_to_begin(request)
            known = self._live.get(session_id)
            if known is not None:
                known.waiting.pop(begun.request_id, None)
            if begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_STARTED:
                _, subscription = await self.begin(owner_id, begun, request, beginning)
                self.unsubscribe(session_id, subscription)
                live = self._live.get(session_id)
                if live is not None and known is None:
                    live.more_wait = True
            elif known is not None and begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_EMPTY:
                known.waiting.clear()
                known.more_wait = False

    async def _begin_alone(
        self, owner_id: str, request: BeginTurnRequest, asked: asyncio.Task[BeginTurnResponse], beginning: Beginning
    ) -> None:
        try:
            with self.beginnings.going_on(beginning):
                begun = await asked
                if begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_STARTED:
                    _, subscription = await self.begin(owner_id, begun, request, beginning)
                    self.unsubscribe(begun.session.session_id, subscription)
                elif begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_QUEUED:
                    waiting = Waiting(request.request_id, request.when_busy, request.content)
                    await self.enqueue(owner_id, begun, waiting, beginning)
        except NetaclawError as error:
            log.info("a message of a client that has gone", extra={"reason": error.reason_name})

    def _fetch(self, session_id: str, owner_id: str) -> None:
        publisher = self._publishers.get(session_id)
        if publisher is not None:
            self._fetcher.fetch(publisher, owner_id, session_id)

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
