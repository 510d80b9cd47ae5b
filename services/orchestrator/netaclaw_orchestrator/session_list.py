"""Tells readers which of an owner's sessions changed, from the store's notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import grpc

from netaclaw.chat.v1.event_pb2 import ChatEvent, Heartbeat, SessionListChanged
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest
from netaclaw.store.v1.journal_service_pb2 import Notice
from netaclaw_chassis import calls

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub


class SessionList:
    """One coalescing set of changed sessions per reader: it never grows beyond the owner's sessions."""

    def __init__(self, reads: SessionServiceAsyncStub) -> None:
        self._reads = reads
        self._readers: dict[str, set[_Changed]] = {}

    def noticed(self, notice: Notice) -> None:
        """A session changed, or was deleted."""
        for changed in self._readers.get(notice.owner_id, ()):
            changed.add(notice.session_id, deleted=notice.deleted)

    async def follow(self, owner_id: str, heartbeat_s: float | None = None) -> AsyncGenerator[list[ChatEvent], None]:
        """session_list_changed events for as long as the reader reads; several changes of one session become one. A
        heartbeat, of no session, as soon as changes are listened for, and when nothing changed for heartbeat_s
        seconds."""
        changed = _Changed()
        self._readers.setdefault(owner_id, set()).add(changed)
        try:
            yield [_heartbeat()]
            while True:
                try:
                    async with asyncio.timeout(heartbeat_s):
                        taken = await changed.take()
                except TimeoutError:
                    yield [_heartbeat()]
                    continue
                events = [await self._event(owner_id, *each) for each in taken]
                yield [event for event in events if event is not None]
        finally:
            readers = self._readers[owner_id]
            readers.discard(changed)
            if not readers:
                del self._readers[owner_id]

    async def _event(self, owner_id: str, session_id: str, deleted: bool) -> ChatEvent | None:
        change = SessionListChanged(session=Session(session_id=session_id), deleted=deleted)
        if not deleted:
            try:
                request = GetSessionRequest(session_id=session_id)
                found = await self._reads.GetSession(request, metadata=calls.outgoing(owner_id))
            except grpc.aio.AioRpcError:  # deleted meanwhile, or the store is away: another notice will come
                return None
            change.session.CopyFrom(found.session)
        event = ChatEvent(session_id=session_id, session_list_changed=change)
        event.time.GetCurrentTime()
        return event


class _Changed:
    """Changed sessions that a reader has not been told of."""

    def __init__(self) -> None:
        self._sessions: dict[str, bool] = {}
        self._wake = asyncio.Event()

    def add(self, session_id: str, *, deleted: bool) -> None:
        self._sessions[session_id] = deleted
        self._wake.set()

    async def take(self) -> list[tuple[str, bool]]:
        """Wait for changes and take them all."""
        while not self._sessions:
            self._wake.clear()
            await self._wake.wait()
        taken, self._sessions = self._sessions, {}
        return list(taken.items())


def _heartbeat() -> ChatEvent:
    event = ChatEvent(heartbeat=Heartbeat())
    event.time.GetCurrentTime()
    return event
