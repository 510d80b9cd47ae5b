"""Work of an instance that goes on beside its calls."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

log = logging.getLogger(__name__)

AGAIN_S = 1.0


class Background(ABC):
    """Runs from `start` until `close`; a fault of ours does not end it: it begins again after AGAIN_S."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, until `close`."""
        self._task = asyncio.create_task(self._run_for_ever())

    async def close(self) -> None:
        """Stop it; returns when it has stopped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run_for_ever(self) -> None:
        while True:
            try:
                await self._run()
            except Exception:
                log.exception("background work broke", extra={"work": type(self).__name__})
            await asyncio.sleep(AGAIN_S)  # so that a lasting fault costs little

    @abstractmethod
    async def _run(self) -> None:
        """The work, for ever."""
