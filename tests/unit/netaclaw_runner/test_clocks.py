"""The wall clock of a run stands still while a person is asked."""

from __future__ import annotations

import asyncio

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw_runner.clocks import Clocks
from netaclaw_runner.ending import End
from netaclaw_runner.limits import Limits


class Watched:
    """Clocks of a run of so many milliseconds, and what they did."""

    def __init__(self, timeout_ms: int) -> None:
        self.ends: list[End] = []
        self.warnings: list[str] = []
        self.over = asyncio.Event()
        self.clocks = Clocks(
            SubagentTaskEnvelope(timeout_ms=timeout_ms),
            Limits(),
            end=self._end,
            warn=self.warnings.append,
            waiting=lambda: False,
        )
        self.clocks.run()

    def _end(self, end: End) -> None:
        self.ends.append(end)
        self.over.set()


async def test_a_paused_clock_never_runs_out_and_goes_on_with_what_was_left() -> None:
    loop = asyncio.get_running_loop()
    longer = Watched(150)
    paused = Watched(100)
    paused.clocks.pause()
    paused.clocks.pause()
    await asyncio.wait_for(longer.over.wait(), 5)
    assert longer.ends[0].state == SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT
    assert (paused.ends, paused.warnings) == ([], [])
    resumed = loop.time()
    paused.clocks.resume()
    paused.clocks.resume()
    await asyncio.wait_for(paused.over.wait(), 5)
    assert loop.time() - resumed >= 0.09
    assert paused.ends[0].state == SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT
    assert paused.warnings == ["most of the time is over"]


async def test_a_clock_that_was_stopped_while_it_was_paused_stays_stopped() -> None:
    paused, after = Watched(20), Watched(120)
    paused.clocks.pause()
    paused.clocks.stop()
    paused.clocks.resume()
    await asyncio.wait_for(after.over.wait(), 5)
    assert paused.ends == []
