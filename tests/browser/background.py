"""An event loop in a thread, for what has to go on while a browser is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]

T = TypeVar("T")


class Background:
    """An event loop in a thread, for what has to go on while the browser is waited for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def working() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(working(), self._loop).result(20)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
