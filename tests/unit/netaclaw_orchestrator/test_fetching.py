"""What others have committed reaches the readers here, whenever they are told of it and whoever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw.chat.v1.event_pb2 import ChatEvent, SessionUpdated
from netaclaw.store.v1.journal_service_pb2 import ReadEventsRequest, ReadEventsResponse
from netaclaw_orchestrator.fetching import Fetcher
from netaclaw_orchestrator.publisher import Publisher, Subscription
from netaclaw_orchestrator.sessions import Sessions


class Reading:
    """One ReadEvents call: what was committed when it began, told when it is let."""

    def __init__(self, store: Store, after_seq: int) -> None:
        self._store = store
        self._events = [_event(seq) for seq in range(after_seq + 1, store.committed + 1)]

    async def __aiter__(self) -> AsyncIterator[ReadEventsResponse]:
        await self._store.opened.wait()
        if self._store.fails:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())
        yield ReadEventsResponse(events=self._events)

    def cancel(self) -> None:
        return


class Store:
    """The reads of a store."""

    def __init__(self) -> None:
        self.committed = 0
        self.opened = asyncio.Event()
        self.asked = asyncio.Event()
        self.fails = False

    def ReadEvents(self, request: ReadEventsRequest) -> Any:
        self.asked.set()
        return Reading(self, request.after_seq)


def _event(seq: int) -> ChatEvent:
    return ChatEvent(seq=seq, session_id="s", session_updated=SessionUpdated())


async def seqs(subscription: Subscription, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(5):
        async for batch in subscription.batches():
            found += [event.seq for event in batch]
            if len(found) >= count:
                break
    return found


def started(publisher: Publisher) -> Subscription:
    publisher.start_at(0)
    return publisher.subscribe()


async def test_what_is_committed_while_events_are_read_is_read_as_well() -> None:
    store = Store()
    stub: Any = store
    fetcher, publisher = Fetcher(stub), Publisher("s")
    reading = started(publisher)
    store.committed = 2
    fetcher.fetch(publisher, "o", "s")
    await store.asked.wait()
    store.committed = 3
    fetcher.fetch(publisher, "o", "s")  # a notice of the third, which the read under way does not know
    store.opened.set()
    assert await seqs(reading, 3) == [1, 2, 3]
    await fetcher.close()


async def test_a_read_that_fails_sends_readers_away_and_lets_others_come() -> None:
    store = Store()
    store.fails = True
    store.opened.set()
    stub: Any = store
    fetcher, publisher = Fetcher(stub), Publisher("s")
    reading = started(publisher)
    store.committed = 1
    fetcher.fetch(publisher, "o", "s")
    assert await seqs(reading, 1) == [], "it is to watch again"
    store.fails = False
    later = publisher.subscribe()
    fetcher.fetch(publisher, "o", "s")
    assert await seqs(later, 1) == [1]
    await fetcher.close()


class Closing:
    """A live session that takes its time to close."""

    session_id, owner_id = "s", "o"

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()

    async def close(self, *, lost: bool) -> None:
        self.begun.set()
        await self.closed.wait()


async def test_readers_who_come_while_lost_sessions_close_are_not_forgotten() -> None:
    services: Any = None
    stub: Any = Store()
    sessions = Sessions(services, Fetcher(stub))
    old = sessions.publisher("s", "o")
    closing: Any = Closing(old)
    sessions._live["s"] = closing  # as if a turn had begun
    releasing = asyncio.create_task(sessions.release(lost=True))
    await closing.begun.wait()
    new = sessions.publisher("s", "o")  # of a session that is taken over here meanwhile, or of a reader
    reading = started(new)
    closing.closed.set()
    await releasing
    assert sessions.publisher("s", "o") is new
    new.durable([_event(1)])
    assert await seqs(reading, 1) == [1]
    assert await seqs(old.subscribe(), 1) == []
