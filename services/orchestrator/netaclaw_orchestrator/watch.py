"""The resume contract: replay from the store in pages, subscribe before the last one, then live. Nothing twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import grpc

from netaclaw.chat.v1.chat_service_pb2 import WatchRequest, WatchResponse, WatchTarget
from netaclaw.chat.v1.event_pb2 import ChatEvent, Heartbeat
from netaclaw.session.v1.entry_pb2 import EntryKind, EntryState
from netaclaw.store.v1.journal_service_pb2 import Notice, ReadEventsRequest
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_orchestrator.delegation.outcome import ENDED
from netaclaw_orchestrator.journal import read_events
from netaclaw_orchestrator.owners import Owners, onward
from netaclaw_orchestrator.session_list import SessionList
from netaclaw_orchestrator.sessions import Sessions

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

log = logging.getLogger(__name__)

RETRY_S = 0.2
BEHIND_S = 0.5
"""How long an owner may take to send what the store has told of, until it is asked who the owner is."""
Batches: TypeAlias = "AsyncGenerator[list[ChatEvent], None]"

MERGE_QUEUE = 64
"""Batches waiting between the followed sessions and their one reader."""


@dataclass(eq=False, slots=True)
class _Relay:
    """A session that is followed at its owner."""

    address: str
    seq: int
    """Of the last durable event that came."""
    told: int = 0
    """Of the last one that is known to be committed."""
    behind: asyncio.Event = field(default_factory=asyncio.Event)


class Watcher:
    """Follows sessions for readers."""

    def __init__(
        self,
        journal: JournalServiceAsyncStub,
        sessions: Sessions,
        owners: Owners,
        session_list: SessionList,
        *,
        heartbeat_s: float,
    ) -> None:
        self._journal = journal
        self._sessions = sessions
        self._owners = owners
        self._session_list = session_list
        self.heartbeat_s = heartbeat_s
        """A stream on which nothing happens for so long carries a heartbeat."""
        self._relays: dict[str, set[_Relay]] = {}

    def noticed(self, notice: Notice) -> None:
        """A session was changed: an owner that does not send what was written is looked after."""
        for relay in self._relays.get(notice.session_id, ()):
            relay.told = max(relay.told, notice.seq)
            if relay.told > relay.seq:
                relay.behind.set()

    async def watch(
        self, owner_id: str, targets: Sequence[WatchTarget], *, here: bool = False, session_list: bool = False
    ) -> AsyncIterator[list[ChatEvent]]:
        """Batches of all targets, in order per session, until the reader goes. Raises what `follow` raises.

        `here`: another instance asks, and is not sent on to a third. `session_list`: changes of the owner's list, too.
        """
        follow = self._local if here else self.follow
        sources = [follow(owner_id, target.session_id, target.after_seq) for target in targets]
        if session_list:
            sources.append(self._session_list.follow(owner_id, None if targets else self.heartbeat_s))
        batches = sources[0] if len(sources) == 1 else _merged(sources)  # the usual case needs nothing to merge
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def follow(self, owner_id: str, session_id: str, after_seq: int) -> AsyncGenerator[list[ChatEvent], None]:
        """One session's events after a seq; an idle stream carries heartbeats.

        Follows the session wherever its turns run. Ends when this instance stops. Raises NetaclawError:
        SESSION_NOT_FOUND, SEQ_OUT_OF_RANGE, SLOW_READER.
        """
        mark = after_seq
        while True:
            address = await self._owners.address(session_id, owner_id)
            batches = (
                self._remote(_Relay(address, mark), owner_id, session_id)
                if address
                else self._local(owner_id, session_id, mark)
            )
            async with aclosing(batches):
                async for batch in batches:
                    mark = max(mark, *(event.seq for event in batch))
                    yield batch
            if self._sessions.closing:
                return

    async def _remote(self, relay: _Relay, owner_id: str, session_id: str) -> AsyncGenerator[list[ChatEvent], None]:
        """The same, asked of the owner; ends when it is the owner no more, or cannot be reached."""
        request = WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=relay.seq)])
        call = self._owners.at(relay.address).Watch(request, metadata=onward(owner_id))
        moving = asyncio.create_task(self._until_moved(relay, owner_id, session_id))
        self._relays.setdefault(session_id, set()).add(relay)
        try:
            while (response := await _first(call.read(), moving)) is not None:
                events = list(response.events)
                relay.seq = max(relay.seq, *(event.seq for event in events))
                yield events
        except grpc.aio.AioRpcError as error:
            failure = from_rpc(error)
            if failure.code is not grpc.StatusCode.UNAVAILABLE:
                raise failure from error
        finally:
            call.cancel()
            moving.cancel()
            self._relays[session_id].discard(relay)
            if not self._relays[session_id]:
                del self._relays[session_id]
        await asyncio.sleep(RETRY_S)  # the lease of a dead owner has to run out first

    async def _until_moved(self, relay: _Relay, owner_id: str, session_id: str) -> None:
        """Returns when events that are known to be committed do not come, since the session has another owner now."""
        while True:
            await relay.behind.wait()
            await asyncio.sleep(BEHIND_S)  # they are most often on their way
            if relay.told <= relay.seq:
                relay.behind.clear()
                continue
            try:
                if await self._owners.address(session_id, owner_id) != relay.address:
                    return
            except NetaclawError as error:
                log.info("owner not known", extra={"session_id": session_id, "reason": error.reason_name})

    async def _local(self, owner_id: str, session_id: str, after_seq: int) -> AsyncGenerator[list[ChatEvent], None]:
        """Replay, subscribe before the last page, then live.

        Ends when the publisher closes, and when a turn is found to run on another instance: its text is live there.
        """
        mark = after_seq
        running = ""
        async for events in self._replay(owner_id, session_id, mark):
            mark = events[-1].seq
            running = _running(events, running)
            yield events
        publisher = self._sessions.publisher(session_id, owner_id)
        subscription = publisher.subscribe()
        try:
            final: set[tuple[str, str]] = set()
            async for events in self._replay(owner_id, session_id, mark):
                mark = events[-1].seq
                final.update(key for event in events if (key := _finished(event)) is not None)
                running = _running(events, running)
                yield events
            publisher.start_at(mark)
            if running and await self._owners.elsewhere(session_id, owner_id) is not None:
                return
            started = [event for event in subscription.snapshots if _stream_key(event) not in final]
            if started:
                yield started
            async for batch in subscription.batches(self.heartbeat_s):
                if not batch:
                    yield [heartbeat(session_id, mark)]
                    continue
                fresh = [event for event in batch if _is_fresh(event, mark, final)]
                if fresh:
                    newest = max(event.seq for event in fresh)
                    mark = max(mark, newest)
                    running = _running(fresh, running)
                    yield fresh
                    if running and newest and await self._owners.elsewhere(session_id, owner_id) is not None:
                        return
        finally:
            self._sessions.unsubscribe(session_id, subscription)

    async def _replay(self, owner_id: str, session_id: str, after_seq: int) -> AsyncIterator[list[ChatEvent]]:
        request = ReadEventsRequest(owner_id=owner_id, session_id=session_id, after_seq=after_seq)
        async for page in read_events(self._journal, request):
            if page.events:
                yield list(page.events)


def heartbeat(session_id: str, seq: int) -> ChatEvent:
    """Nothing happened for a while; the stream holds the session's durable events up to a seq."""
    event = ChatEvent(session_id=session_id, heartbeat=Heartbeat(seq=seq))
    event.time.GetCurrentTime()
    return event


async def _first(reading: Awaitable[object], moving: asyncio.Task[None]) -> WatchResponse | None:
    """The next message; None at the end of the stream, and when the session has moved before."""
    message = asyncio.ensure_future(reading)
    try:
        await asyncio.wait([message, moving], return_when=asyncio.FIRST_COMPLETED)
        response = message.result() if message.done() else None
    finally:
        message.cancel()
    return response if isinstance(response, WatchResponse) else None


def _running(events: Sequence[ChatEvent], turn_id: str) -> str:
    """The turn that runs after these events, when `turn_id` ran before them; empty when none does."""
    for event in events:
        if event.session_entry_added.entry.kind == EntryKind.ENTRY_KIND_USER:
            turn_id = event.turn_id
        elif event.WhichOneof("event") in ("done", "error") and event.turn_id == turn_id:
            turn_id = ""
    return turn_id


def _is_fresh(event: ChatEvent, mark: int, final: set[tuple[str, str]]) -> bool:
    """Durable events that were replayed, and live ones of what is already final, came before."""
    if event.seq:
        return event.seq > mark
    return _stream_key(event) not in final


def _stream_key(event: ChatEvent) -> tuple[str, str]:
    return (event.entry_id, event.task_id)


def _finished(event: ChatEvent) -> tuple[str, str] | None:
    """What the event brings into its final form."""
    if event.WhichOneof("event") == "session_entry_updated":
        entry = event.session_entry_updated.entry
        return (entry.entry_id, "") if entry.state != EntryState.ENTRY_STATE_STREAMING else None
    if event.WhichOneof("event") == "subagent_event" and event.subagent_event.item.state in ENDED:
        return (event.entry_id, event.task_id)
    return None


async def _merged(sources: Sequence[Batches]) -> Batches:
    """The batches of several sources as they come; ends with the last source, or raises what ends one."""
    merged: asyncio.Queue[list[ChatEvent]] = asyncio.Queue(MERGE_QUEUE)

    async def pour(source: Batches) -> None:
        async with aclosing(source):
            async for batch in source:
                await merged.put(batch)

    pouring = [asyncio.create_task(pour(source)) for source in sources]
    taking = asyncio.create_task(merged.get())
    try:
        while True:
            await asyncio.wait([taking, *pouring], return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                batch, taking = taking.result(), asyncio.create_task(merged.get())
                yield batch
                continue
            for ended in [task for task in pouring if task.done()]:
                ended.result()  # raises what ended it
                pouring.remove(ended)
            if not pouring:
                return
    finally:
        for task in (taking, *pouring):
            task.cancel()
