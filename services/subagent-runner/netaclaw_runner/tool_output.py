"""Output of the tools that run in a worker, on its way to the caller: in batches, and never too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from netaclaw.subagent.v1.envelope_pb2 import ToolOutput
from netaclaw_agent.tools.results import cut_middle


class ToolOutputs:
    """The first stretch goes out at once, then one batch per call and interval. Order within a call is kept."""

    def __init__(self, emit: Callable[[ToolOutput], None], *, interval_s: float, most_bytes: int) -> None:
        """`most_bytes`: of one call; what comes beyond is dropped, for the result says how it ends."""
        self._emit = emit
        self._interval_s = interval_s
        self._most_bytes = most_bytes
        self._waiting: dict[str, list[str]] = {}
        self._room: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call_id: str, text: str) -> None:
        """More output of a running call."""
        room = self._room.get(call_id, self._most_bytes)
        if not text or room <= 0:
            return
        self._room[call_id] = room - len(text.encode())
        self._waiting.setdefault(call_id, []).append(cut_middle(text, room))
        if self._timer is None:
            self._send()
            self._arm()

    def end(self, call_id: str) -> None:
        """The call has ended: pass on what waits of it."""
        self._say(call_id, self._waiting.pop(call_id, []))
        self._room.pop(call_id, None)

    def close(self) -> None:
        """Pass on what waits, and no more after it."""
        if self._timer is not None:
            self._timer.cancel()
        self._send()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._waiting:
            self._send()
            self._arm()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for call_id, texts in waiting.items():
            self._say(call_id, texts)

    def _say(self, call_id: str, texts: list[str]) -> None:
        if texts:
            self._emit(ToolOutput(call_id=call_id, text="".join(texts)))
