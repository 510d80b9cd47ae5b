"""Brings to publishers here what other writers have committed: gaps, and sessions that nobody owns here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import Notice, NoticesRequest, ReadEventsRequest
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.background import Background
from netaclaw_orchestrator.journal import read_events
from netaclaw_orchestrator.publisher import Publisher

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from collections.abc import Callable

    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

log = logging.getLogger(__name__)

RETRY_S = 0.5


class Fetcher:
    """Reads a session's events after a seq and publishes them; one reading per session at a time."""

    def __init__(self, journal: JournalServiceAsyncStub) -> None:
        self._journal = journal
        self._running: dict[Publisher, asyncio.Task[None]] = {}
        self._again: set[Publisher] = set()

    def fetch(self, publisher: Publisher, owner_id: str, session_id: str) -> None:
        """Publish what was committed after the publisher's seq, soon."""
        if publisher in self._running:
            self._again.add(publisher)  # what is being read may have been committed before
            return
        self._running[publisher] = asyncio.create_task(self._fetch(publisher, owner_id, session_id))

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _fetch(self, publisher: Publisher, owner_id: str, session_id: str) -> None:
        try:
            while True:
                self._again.discard(publisher)
                request = ReadEventsRequest(owner_id=owner_id, session_id=session_id, after_seq=publisher.seq)
                async for page in read_events(self._journal, request):
                    publisher.durable(page.events)
                if publisher not in self._again:
                    return
        except NetaclawError as error:
            log.info("events not fetched", extra={"session_id": session_id, "reason": error.reason_name})
            publisher.send_away()  # its readers watch again and meet the same error, or a better time
        finally:
            self._running.pop(publisher)


class NoticeReader(Background):
    """Listens to the store's notices and hands each to `on_notice`, reconnecting for ever."""

    def __init__(self, journal: JournalServiceAsyncStub, instance_id: str, on_notice: Callable[[Notice], None]) -> None:
        self._journal = journal
        self._instance_id = instance_id
        self._on_notice = on_notice

    async def _run(self) -> None:
        while True:
            call = self._journal.Notices(NoticesRequest(instance_id=self._instance_id))
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for response in call:
                    for notice in response.notices:
                        self._on_notice(notice)
            await asyncio.sleep(RETRY_S)  # the store is away; its poll brings what was missed
