"""Commands that change a session's tree go one after another, and messages wait for their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class TreeLocks:
    """One lock per session, for as long as somebody uses it; on this instance."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def alone(self, session_id: str) -> AsyncIterator[None]:
        """For a command: no other one runs in it."""
        lock = self._locks.get(session_id)
        if lock is None:
            lock = self._locks[session_id] = asyncio.Lock()
        async with lock:
            yield

    async def quiet(self, session_id: str) -> None:
        """Wait until no command changes the session's tree."""
        lock = self._locks.get(session_id)
        if lock is not None:
            async with lock:
                pass
