"""Work beside the conversation that somebody asked for and may stop: it waits for a model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError

T = TypeVar("T")


class SideWork:
    """What runs of it on this instance."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], tuple[str, str]] = {}
        """The owner and session of each."""

    async def run(
        self, owner_id: str, session_id: str, what: str, work: Coroutine[Any, Any, T], *, ends_with_caller: bool = False
    ) -> T:
        """Do it to its end. A caller that goes away cancels nothing, unless it is to end with the caller: then it has
        ended before the cancellation goes on.

        Raises what the work raises, and NOT_COMPACTED, which says what, when it was cancelled here.
        """
        task = asyncio.create_task(work)
        self._running[task] = (owner_id, session_id)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise NetaclawError(Reason.REASON_NOT_COMPACTED, f"{what} was cancelled") from None
            if ends_with_caller:
                await _cancel([task])
            raise

    async def cancel(self, owner_id: str, session_id: str) -> None:
        """Cancel the session's work, if there is any; returns when it has ended."""
        await _cancel([task for task, of in self._running.items() if of == (owner_id, session_id)])

    async def close(self) -> None:
        """Cancel what runs."""
        await _cancel(list(self._running))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task)
        if not task.cancelled():
            task.exception()  # a caller that has gone will not look


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
