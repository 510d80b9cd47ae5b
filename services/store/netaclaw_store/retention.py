"""Retention: durable events that are old, or too many in their session, go; what they told of stays in the tree.

A round walks all sessions by their ids, so appends pay nothing for it. Every statement is short, takes the row of one
session and passes over rows that somebody else holds: two stores on one database share the work instead of waiting for
each other, and no writer waits longer than one small batch takes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import asyncpg

from netaclaw_chassis.errors import NetaclawError
from netaclaw_store.codec import Row
from netaclaw_store.database import Database
from netaclaw_store.queries import SQL

log = logging.getLogger(__name__)

_PAGE = 200
"""Sessions looked at by one statement."""
_BATCH = 1000
"""Events deleted by one statement."""
_MOST_BATCHES = 100
"""Of one session in one round: a huge one does not keep the others waiting."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which durable events are kept."""

    max_age_seconds: float
    """Events older than this may go; 0: none for its age."""
    max_events: int
    """Of each session, events beyond its newest so many may go; 0: none for their number."""
    interval_seconds: float
    """Pause between two rounds."""


class Retention:
    """Use as an async context: rounds come as long as it lives, where the policy has anything to say."""

    def __init__(self, database: Database, policy: RetentionPolicy) -> None:
        self._database = database
        self._policy = policy
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Retention:
        if self._policy.max_age_seconds or self._policy.max_events:
            self._task = asyncio.create_task(self._rounds())
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def round(self) -> int:
        """Walk all sessions once; answers how many events went. Raises what the database raises."""
        trimmed = 0
        after = ""
        while True:
            page = await self._look_at(after)
            for row in page:
                if row["due"]:
                    trimmed += await self.trim(row["session_id"])
            if len(page) < _PAGE:
                return trimmed
            after = page[-1]["session_id"]

    async def _look_at(self, after: str) -> list[Row]:
        names = (after, _PAGE, self._policy.max_age_seconds, self._policy.max_events)
        return await self._database.read(lambda connection: connection.fetch(SQL["sessions_to_trim"], *names))

    async def trim(self, session_id: str) -> int:
        """Trim one session; answers how many events went."""
        names = (session_id, self._policy.max_age_seconds, self._policy.max_events, _BATCH)
        total = 0
        for _ in range(_MOST_BATCHES):
            gone: int = await self._database.write(lambda connection: connection.fetchval(SQL["trim_events"], *names))
            total += gone
            if gone < _BATCH:
                break
        return total

    async def _rounds(self) -> None:
        while True:
            try:
                trimmed = await self.round()
                if trimmed:
                    log.info("old events trimmed", extra={"events": trimmed})
            except (NetaclawError, asyncpg.PostgresError):
                log.warning("old events were not trimmed; the next round tries again")
            await asyncio.sleep(self._policy.interval_seconds)
