"""A model call that is made before it is asked for, by somebody who can tell what will be asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from netaclaw_agent.model import Model, ModelCall, ModelEvent, NewId


class CallAhead:
    """Begins the call at once and takes its first event; the others wait with the provider until they are read."""

    def __init__(self, model: Model, call: ModelCall, *, new_id: NewId) -> None:
        self.call = call
        self._events = model.stream(call, new_id=new_id)
        self._first: asyncio.Task[ModelEvent] = asyncio.create_task(_next(self._events))

    async def stream(self) -> AsyncIterator[ModelEvent]:
        """The call's events from the first one on. Raises ModelError as the call itself would. To be read once."""
        try:
            yield await self._first
            async for event in self._events:
                yield event
        finally:
            await self.drop()

    async def drop(self) -> None:
        """End the call. Idempotent."""
        self._first.cancel()
        await asyncio.wait([self._first])
        if not self._first.cancelled():
            self._first.exception()  # seen
        closing = getattr(self._events, "aclose", None)
        if closing is not None:
            with contextlib.suppress(RuntimeError):  # still running: its reader closes it
                await closing()


async def _next(events: AsyncIterator[ModelEvent]) -> ModelEvent:
    return await anext(events)
