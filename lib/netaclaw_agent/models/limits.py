"""Limits of model calls: in time, and how many at once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from netaclaw_agent.model import ModelError


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long a call may take, in seconds."""

    first_token_s: float = 120.0
    """From the request to the first piece of the answer."""
    idle_s: float = 60.0
    """Between two data events after that. Comments are not data."""
    total_s: float = 600.0
    """The whole call."""


class Slots:
    """How many calls one provider gets at once from this process. Sessions take turns; within a session the first to
    ask is the first."""

    def __init__(self, most: int, *, patience_s: float = 300.0) -> None:
        """`most` 0: any number. `patience_s`: how long a call may wait for its turn, in seconds."""
        self._most = most
        self._patience_s = patience_s
        self._held = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def held(self, session_id: str) -> AsyncIterator[None]:
        """Hold a slot inside the block. Raises ModelError LIMIT_REACHED when none came in time; cancellation leaves the
        queue."""
        if self._most and self._held >= self._most:
            await self._wait(session_id)  # whoever gives a slot hands it over, still held
        else:
            self._held += 1
        try:
            yield
        finally:
            self._give()

    async def _wait(self, session_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(session_id, deque()).append(turn)
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._give()  # it came in the very moment in which it was given up
            else:
                self._leave(session_id, turn)
            if isinstance(error, TimeoutError):
                raise ModelError(
                    f"the model provider is busy: no turn came within {self._patience_s:g} s", reason="LIMIT_REACHED"
                ) from None
            raise

    def _leave(self, session_id: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(session_id, deque())
        if turn in queue:
            queue.remove(turn)
        if not queue:
            self._queues.pop(session_id, None)

    def _give(self) -> None:
        while self._queues:
            session_id, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[session_id] = queue  # behind all other sessions
            if not turn.done():  # one that is being given up is passed over
                turn.set_result(None)
                return
        self._held -= 1
