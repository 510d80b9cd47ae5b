"""The resume contract: replay from the store in pages, subscribe before the last one, then live. Nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from netaclaw.chat.v1.chat_service_pb2 import WatchTarget
from netaclaw.chat.v1.event_pb2 import ChatEvent, Heartbeat
from netaclaw.session.v1.entry_pb2 import EntryState
from netaclaw.store.v1.journal_service_pb2 import ReadEventsRequest
from netaclaw_orchestrator.delegation.batch import ENDED
from netaclaw_orchestrator.journal import read_events
from netaclaw_orchestrator.sessions import Sessions

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

MERGE_QUEUE = 64
"""Batches waiting between the followed sessions and their one reader."""


class Watcher:
    """Follows sessions for readers."""

    def __init__(self, journal: JournalServiceAsyncStub, sessions: Sessions, *, heartbeat_s: float) -> None:
        self._journal = journal
        self._sessions = sessions
        self._heartbeat_s = heartbeat_s

    async def watch(self, owner_id: str, targets: Sequence[WatchTarget]) -> AsyncIterator[list[ChatEvent]]:
        """Batches of all targets, in order per session, until the reader goes. Raises what `follow` raises."""
        merged: asyncio.Queue[list[ChatEvent]] = asyncio.Queue(MERGE_QUEUE)

        async def pour(target: WatchTarget) -> None:
            async for batch in self.follow(owner_id, target.session_id, target.after_seq):
                await merged.put(batch)

        pouring = [asyncio.create_task(pour(target)) for target in targets]
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

        Ends when the session is closed here (deleted, or this instance stops). Raises NetaclawError: SESSION_NOT_FOUND,
        SEQ_OUT_OF_RANGE, SLOW_READER.
        """
        mark = after_seq
        async for events in self._replay(owner_id, session_id, mark):
            mark = events[-1].seq
            yield events
        subscription = self._sessions.publisher(session_id).subscribe()
        try:
            final: set[tuple[str, str]] = set()
            async for events in self._replay(owner_id, session_id, mark):
                mark = events[-1].seq
                final.update(key for event in events if (key := _finished(event)) is not None)
                yield events
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
