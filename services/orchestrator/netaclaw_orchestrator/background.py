"""Work of an instance that goes on beside its calls."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class Background(ABC):
    """Runs from `start` until `close`."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, until `close`."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop it; returns when it has stopped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @abstractmethod
    async def _run(self) -> None:
        """The work, for ever."""
