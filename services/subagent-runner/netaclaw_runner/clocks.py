"""The clocks of a run: start, wall clock, stall, and the hold while its caller is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw_runner.ending import End, cancelled, failed, timed_out
from netaclaw_runner.limits import Limits

_NEAR = 0.8


class Clocks:
    """Each one ends the run when it runs out, unless it was stopped before. Times are in seconds."""

    def __init__(
        self,
        envelope: SubagentTaskEnvelope,
        limits: Limits,
        *,
        end: Callable[[End], None],
        warn: Callable[[str], None],
        waiting: Callable[[], bool],
    ) -> None:
        """`waiting`: whether the run cannot move by itself, so that standing still is no stall."""
        self._limits = limits
        self._end = end
        self._warn = warn
        self._waiting = waiting
        self._wall_s = envelope.timeout_ms / 1000
        self._stall_s = envelope.budget.stall_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._begun = 0.0
        self._moved = self._loop.time()
        self._start: asyncio.TimerHandle | None = None
        self._hold: asyncio.TimerHandle | None = None
        self._wall: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []
        self._paused_at: float | None = None
        self._others: list[asyncio.TimerHandle] = []

    @property
    def elapsed_ms(self) -> int:
        """Since the clocks run; 0 before."""
        return round((self._loop.time() - self._begun) * 1000) if self._begun else 0

    def run(self) -> None:
        """Start wall clock and start clock."""
        self._begun = self._moved = self._loop.time()
        self._wall = [(self._later(seconds, what), what) for seconds, what in self._wall_clock()]
        self._start = self._later(self._limits.start_s, self._never_started)
        if self._stall_s:
            self._later(self._stall_s, self._look_for_stall)

    def started(self) -> None:
        """The worker is there."""
        if self._start is not None:
            self._start.cancel()
        self.moved()

    def moved(self) -> None:
        """Progress was made."""
        self._moved = self._loop.time()

    def pause(self) -> None:
        """A person is asked: the wall clock stands still."""
        if self._begun and self._paused_at is None:
            self._paused_at = self._loop.time()
            for handle, _ in self._wall:
                handle.cancel()

    def resume(self) -> None:
        """The wall clock goes on with the time that was left."""
        if self._paused_at is None:
            return
        left = [(handle.when() - self._paused_at, what) for handle, what in self._wall]
        self._wall = [(self._later(seconds, what), what) for seconds, what in left if seconds > 0]
        self._paused_at = None
        self.moved()

    def hold(self) -> None:
        """The caller is gone."""
        self.release()
        self._hold = self._loop.call_later(self._limits.hold_s, self._abandoned)

    def release(self) -> None:
        """A caller is there."""
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
        self.moved()

    def stop(self) -> None:
        """Stop all clocks."""
        self.release()
        for handle in self._others:
            handle.cancel()
        self._wall.clear()

    def _later(self, seconds: float, what: Callable[[], None]) -> asyncio.TimerHandle:
        handle = self._loop.call_later(seconds, what)
        self._others = [other for other in self._others if not other.cancelled() and other.when() > self._loop.time()]
        self._others.append(handle)
        return handle

    def _wall_clock(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (self._wall_s, self._out_of_time),
            (self._wall_s * _NEAR, lambda: self._warn("most of the time is over")),
        ]

    def _out_of_time(self) -> None:
        self._end(timed_out(f"it did not end within {self._wall_s:g} s"))

    def _never_started(self) -> None:
        self._end(failed(f"the worker did not start within {self._limits.start_s:g} s"))

    def _abandoned(self) -> None:
        self._end(cancelled(f"its caller was gone for {self._limits.hold_s:g} s"))

    def _look_for_stall(self) -> None:
        if self._waiting():
            self.moved()
        left = self._moved + self._stall_s - self._loop.time()
        if left <= 0:
            self._end(timed_out(f"it made no progress for {self._stall_s:g} s"))
        else:
            self._later(left, self._look_for_stall)
