"""The resume contract: replay from the store in pages, subscribe before the last one, then live. Nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import grpc

from netaclaw.chat.v1.chat_service_pb2 import WatchRequest, WatchTarget
from netaclaw.chat.v1.event_pb2 import ChatEvent, Heartbeat
from netaclaw.session.v1.entry_pb2 import EntryState
from netaclaw.store.v1.journal_service_pb2 import ReadEventsRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_orchestrator.delegation.batch import ENDED
from netaclaw_orchestrator.journal import read_events
from netaclaw_orchestrator.owners import Owners, onward
from netaclaw_orchestrator.session_list import SessionList
from netaclaw_orchestrator.sessions import Sessions

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

RETRY_S = 0.2
MERGE_QUEUE = 64
"""Batches waiting between the followed sessions and their one reader."""


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
        self._heartbeat_s = heartbeat_s

    async def watch(
        self, owner_id: str, targets: Sequence[WatchTarget], *, here: bool = False, session_list: bool = False
    ) -> AsyncIterator[list[ChatEvent]]:
        """Batches of all targets, in order per session, until the reader goes. Raises what `follow` raises.

        `here`: another instance asks, and is not sent on to a third. `session_list`: changes of the owner's list, too.
        """
        merged: asyncio.Queue[list[ChatEvent]] = asyncio.Queue(MERGE_QUEUE)

        async def pour(target: WatchTarget) -> None:
            follow = self._local if here else self.follow
            async for batch in follow(owner_id, target.session_id, target.after_seq):
                await merged.put(batch)

        async def pour_list() -> None:
            async for batch in self._session_list.follow(owner_id):
                await merged.put(batch)

        pouring = [asyncio.create_task(pour(target)) for target in targets]
        if session_list:
            pouring.append(asyncio.create_task(pour_list()))
        try:
            while True:
                taking = asyncio.create_task(merged.get())
                await asyncio.wait([taking, *pouring], return_when=asyncio.FIRST_COMPLETED)
                if taking.done():
                    yield taking.result()
                    continue
                taking.cancel()
                for ended in [task for task in pouring if task.done()]:
                    ended.result()  # raises what ended it
                    pouring.remove(ended)
                if not pouring:
                    return
        finally:
            for task in pouring:
                task.cancel()

    async def follow(self, owner_id: str, session_id: str, after_seq: int) -> AsyncIterator[list[ChatEvent]]:
        """One session's events after a seq; an idle stream carries heartbeats.

        Follows the session wherever it is owned. Ends when it is deleted, or this instance stops. Raises NetaclawError:
        SESSION_NOT_FOUND, SEQ_OUT_OF_RANGE, SLOW_READER.
        """
        mark = after_seq
        while True:
            other = await self._owners.elsewhere(session_id, owner_id)
            batches = (
                self._local(owner_id, session_id, mark)
                if other is None
                else self._remote(other, owner_id, session_id, mark)
            )
            async for batch in batches:
                mark = max(mark, *(event.seq for event in batch))
                yield batch
            if self._sessions.closing:
                return

    async def _remote(
        self, owner: ChatServiceAsyncStub, owner_id: str, session_id: str, after_seq: int
    ) -> AsyncIterator[list[ChatEvent]]:
        """The same, asked of the owner; ends when it cannot be reached any more."""
        request = WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=after_seq)])
        call = owner.Watch(request, metadata=onward(owner_id))
        try:
            async for response in call:
                yield list(response.events)
        except grpc.aio.AioRpcError as error:
            failure = from_rpc(error)
            if failure.code is not grpc.StatusCode.UNAVAILABLE:
                raise failure from error
        finally:
            call.cancel()
        await asyncio.sleep(RETRY_S)  # the lease of a dead owner has to run out first

    async def _local(self, owner_id: str, session_id: str, after_seq: int) -> AsyncIterator[list[ChatEvent]]:
        """Replay, subscribe before the last page, then live; ends when the publisher closes."""
        mark = after_seq
        async for events in self._replay(owner_id, session_id, mark):
            mark = events[-1].seq
            yield events
        publisher = self._sessions.publisher(session_id, owner_id)
        subscription = publisher.subscribe()
        try:
            final: set[tuple[str, str]] = set()
            async for events in self._replay(owner_id, session_id, mark):
                mark = events[-1].seq
                final.update(key for event in events if (key := _finished(event)) is not None)
                yield events
            publisher.start_at(mark)
            started = [event for event in subscription.snapshots if _stream_key(event) not in final]
            if started:
                yield started
            async for batch in subscription.batches(self._heartbeat_s):
                if not batch:
                    yield [self._heartbeat(session_id, mark)]
                    continue
                fresh = [event for event in batch if _is_fresh(event, mark, final)]
                if fresh:
                    mark = max(mark, *(event.seq for event in fresh))
                    yield fresh
        finally:
            self._sessions.unsubscribe(session_id, subscription)

    async def _replay(self, owner_id: str, session_id: str, after_seq: int) -> AsyncIterator[list[ChatEvent]]:
        request = ReadEventsRequest(owner_id=owner_id, session_id=session_id, after_seq=after_seq)
        async for page in read_events(self._journal, request):
            if page.events:
                yield list(page.events)

    def _heartbeat(self, session_id: str, seq: int) -> ChatEvent:
        event = ChatEvent(session_id=session_id, heartbeat=Heartbeat(seq=seq))
        event.time.GetCurrentTime()
        return event


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
