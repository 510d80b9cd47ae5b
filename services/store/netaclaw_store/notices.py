"""Tells who asks which sessions changed: soon within this store, by NOTIFY across stores, by a poll in any case.

Notices carry ids and a seq, are coalesced, may repeat, and are never sent inside a writing transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_store.database import Database
from netaclaw_store.queries import SQL

log = logging.getLogger(__name__)

CHANNEL = "netaclaw_sessions"
MAX_PENDING = 10_000
_DELETED = -1
"""In place of a deleted session's seq, where stores tell each other."""
_MAX_PAYLOAD = 7_500
"""Postgres takes 8000 bytes."""
_MAX_PER_MESSAGE = 500
_COALESCE_S = 0.05
_AFTER_S = 0.005
"""Whoever made a change gets the answer first: notices of it would compete with it for the same processors."""
_OVERLAP = timedelta(seconds=2)
"""update_time is the transaction's start: a slow one commits behind a later one."""
_POLL_PAGE = 1000
_RETRY_S = 1.0
_KEPT_S = 60.0
"""So long is kept what was told before, once nobody listens: most often somebody was cut off, and comes back."""


class _Subscriber:
    """One call's coalesced notices."""

    def __init__(self) -> None:
        self.pending: dict[str, j.Notice] = {}
        self.wake = asyncio.Event()

    def tell(self, notice: j.Notice) -> None:
        self.pending[notice.session_id] = notice
        self.wake.set()


class Notices:
    """Use as an async context: its tasks live as long as it does."""

    def __init__(self, database: Database, poll_seconds: float) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._origin = new_id()
        self._subscribers: set[_Subscriber] = set()
        self._fresh: dict[str, j.Notice] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._outgoing: dict[str, j.Notice] = {}
        self._wake = asyncio.Event()
        self._missed = asyncio.Event()
        """Set when somebody begins to listen: what was told before is looked up."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Notices:
        self._tasks = [asyncio.create_task(each) for each in (self._send(), self._hear(), self._poll())]
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def changed(self, session_id: str, owner_id: str, seq: int) -> None:
        """A session's rows were committed. Returns at once."""
        self._tell_soon(_notice(session_id, owner_id, seq))

    def deleted(self, session_id: str, owner_id: str) -> None:
        """A session was deleted. Returns at once."""
        self._tell_soon(_notice(session_id, owner_id, _DELETED))

    def _tell_soon(self, notice: j.Notice) -> None:
        self._fresh[notice.session_id] = notice
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_AFTER_S, self._tell_fresh)

    async def subscribe(self) -> AsyncIterator[j.NoticesResponse]:
        """Notices from now on. Ends with ABORTED (SLOW_READER) when the reader falls far behind."""
        subscriber = _Subscriber()
        self._subscribers.add(subscriber)
        self._missed.set()
        try:
            while True:
                await subscriber.wake.wait()
                subscriber.wake.clear()
                if len(subscriber.pending) > MAX_PENDING:
                    raise NetaclawError(Reason.REASON_SLOW_READER, "too many notices wait: ask again")
                told = list(subscriber.pending.values())
                subscriber.pending.clear()
                for start in range(0, len(told), _MAX_PER_MESSAGE):
                    yield j.NoticesResponse(notices=told[start : start + _MAX_PER_MESSAGE])
        finally:
            self._subscribers.discard(subscriber)

    def _tell_fresh(self) -> None:
        self._timer = None
        fresh, self._fresh = self._fresh, {}
        self._tell(fresh.values())
        if len(self._outgoing) < MAX_PENDING:  # beyond that the other stores' polls are quick enough
            self._outgoing.update(fresh)
        self._wake.set()

    def _tell(self, notices: Iterable[j.Notice]) -> None:
        for notice in notices:
            for subscriber in self._subscribers:
                if len(subscriber.pending) <= MAX_PENDING:
                    subscriber.tell(notice)

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            payloads = list(_payloads(self._origin, self._outgoing.values()))
            self._outgoing.clear()
            try:
                await self._database.read(
                    lambda connection, told=payloads: connection.execute(  # type: ignore[misc]  # one use
                        "SELECT pg_notify($1, told) FROM unnest($2::text[]) AS told", CHANNEL, told
                    )
                )
            except (NetaclawError, asyncpg.PostgresError):
                log.warning("notices were not sent; polls will find them")
            await asyncio.sleep(_COALESCE_S)

    async def _hear(self) -> None:
        while True:
            with contextlib.suppress(NetaclawError, asyncpg.PostgresError):
                connection = await self._database.listen(CHANNEL, self._heard)
                self._missed.set()
                gone = asyncio.Event()
                connection.add_termination_listener(lambda _connection, over=gone: over.set())
                if connection.is_closed():  # before anybody listened for that
                    gone.set()
                try:
                    await gone.wait()
                finally:
                    await connection.close(timeout=1.0)
            await asyncio.sleep(_RETRY_S)

    def _heard(self, payload: str) -> None:
        try:
            origin, *changes = json.loads(payload)
            if origin != self._origin:
                self._tell(_notice(*change) for change in changes)
        except (ValueError, TypeError):
            log.warning("a notice could not be read")

    async def _poll(self) -> None:
        since: datetime | None = None
        clock = asyncio.get_running_loop()
        heard = clock.time()
        while True:
            with contextlib.suppress(NetaclawError, asyncpg.PostgresError):
                if since is None:
                    since = await self._database.read(lambda connection: connection.fetchval("SELECT now()"))
                elif self._subscribers:
                    heard = clock.time()
                    since = await self._tell_changed_since(since)
                elif clock.time() - heard > _KEPT_S:
                    since = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._missed.wait()
            self._missed.clear()

    async def _tell_changed_since(self, since: datetime) -> datetime:
        after = (since - _OVERLAP, "")
        while True:
            rows = await self._database.read(
                lambda connection, page=after: connection.fetch(SQL["changed_since"], *page, _POLL_PAGE)  # type: ignore[misc]  # bound now
            )
            self._tell(_notice(row["session_id"], row["owner_id"], row["seq"]) for row in rows)
            if rows:
                after = (rows[-1]["update_time"], rows[-1]["session_id"])
            if len(rows) < _POLL_PAGE:
                return max(since, after[0])


def _notice(session_id: str, owner_id: str, seq: int) -> j.Notice:
    return j.Notice(session_id=session_id, owner_id=owner_id, seq=max(seq, 0), deleted=seq == _DELETED)


def _payloads(origin: str, notices: Iterable[j.Notice]) -> Iterable[str]:
    piece: list[object] = [origin]
    size = 64
    for notice in notices:
        change = [notice.session_id, notice.owner_id, _DELETED if notice.deleted else notice.seq]
        length = len(json.dumps(change)) + 2
        if size + length > _MAX_PAYLOAD and len(piece) > 1:
            yield json.dumps(piece)
            piece, size = [origin], 64
        piece.append(change)
        size += length
    if len(piece) > 1:
        yield json.dumps(piece)
