"""Runs beyond the limit: they wait their turn, and can be stopped before it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import text_of
from netaclaw_agent.model import Finished, ModelCall, ModelEvent
from netaclaw_chassis.ids import new_id
from netaclaw_runner.launcher import ExecLauncher
from netaclaw_runner.limits import Limits
from netaclaw_runner.places import PlaceLimits, Places
from netaclaw_runner.supervisor import Supervisor
from netaclaw_runner.workspaces import Workspaces
from tests.integration.runner.rig import OneModel, ScriptModel, answer, runner, task_envelope

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
QUEUED = SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED
RUNNING = SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING


class Gate(ScriptModel):
    """Answers every goal once it is opened, and notes in which order the goals came."""

    def __init__(self) -> None:
        super().__init__(*[self._answer] * 100)
        self.goals: list[str] = []
        self.opened = asyncio.Event()

    async def _answer(self, call: ModelCall) -> AsyncIterator[ModelEvent]:
        self.goals.append(text_of(call.messages[0]).removeprefix("Goal:\n"))
        await self.opened.wait()
        yield Finished(answer("ok"))


def envelope(goal: str, session_id: str, timeout_ms: int = 60_000) -> pb.SubagentTaskEnvelope:
    made = task_envelope(goal, timeout_ms=timeout_ms)
    made.session_id = session_id
    return made


async def test_runs_beyond_the_limit_wait_and_sessions_take_turns(tmp_path: Path) -> None:
    model = Gate()
    greedy, modest = new_id(), new_id()
    async with runner(tmp_path, model, max_workers=1, max_waiting=10) as rig:
        runs = [await rig.start(envelope("first", greedy))]
        await runs[0].until("stream_start")
        for goal, session in [("g1", greedy), ("g2", greedy), ("g3", greedy), ("m1", modest), ("m2", modest)]:
            runs.append(await rig.start(envelope(goal, session)))
            while len((await rig.status()).runs) < len(runs):
                pass  # the runner has taken it before the next one is sent
        states = [run.state for run in (await rig.status()).runs]
        model.opened.set()
        ended = await asyncio.gather(*(run.finish() for run in runs))

    assert states == [RUNNING, *[QUEUED] * 5]
    assert [end.state for end in ended] == [COMPLETED] * 6
    assert model.goals == ["first", "g1", "m1", "g2", "m2", "g3"]


async def test_a_session_or_an_owner_at_its_limit_waits_and_holds_nobody_up(tmp_path: Path) -> None:
    model = Gate()
    busy, other, foreign = new_id(), new_id(), new_id()
    tasks = [envelope(goal, busy) for goal in ("b1", "b2", "b3")]
    tasks += [envelope("o1", other), envelope("o2", other), envelope("f1", foreign)]
    tasks[-1].owner_id = "owner-2"
    async with runner(tmp_path, model, max_workers=9, max_waiting=9, max_per_session=2, max_per_owner=3) as rig:
        runs = []
        for task in tasks:
            runs.append(await rig.start(task))
            while len((await rig.status()).runs) < len(runs):
                pass  # the runner has taken it before the next one is sent
        states = [run.state for run in (await rig.status()).runs]
        for run, state in zip(runs, states, strict=True):
            if state == RUNNING:
                await run.until("stream_start")
        asked = set(model.goals)
        model.opened.set()
        ended = await asyncio.gather(*(run.finish() for run in runs))

    assert states == [RUNNING, RUNNING, QUEUED, RUNNING, QUEUED, RUNNING]
    assert asked == {"b1", "b2", "o1", "f1"}
    assert [end.state for end in ended] == [COMPLETED] * 6


async def test_a_waiting_run_can_be_cancelled_and_never_starts(tmp_path: Path) -> None:
    """C12: a task that is not running yet is caught by a stop, too, and its place in the queue is free again."""
    model = Gate()
    async with runner(tmp_path, model, max_workers=1, max_waiting=1) as rig:
        first = await rig.start()
        await first.until("stream_start")
        waiting = await rig.start()
        await waiting.tell(cancel=pb.Cancel(reason="not needed"))
        ended = await waiting.finish()
        third = await rig.start(task_envelope("third"))
        model.opened.set()
        assert (await first.finish()).state == COMPLETED
        assert (await third.finish()).state == COMPLETED

    assert (ended.state, ended.error, ended.duration_ms) == (CANCELLED, "not needed", 0)
    assert waiting.kinds == ["ended"]
    assert model.goals == ["look around", "third"]


async def test_waiting_takes_nothing_from_a_runs_own_time(tmp_path: Path) -> None:
    model = Gate()
    async with runner(tmp_path, model, max_workers=1, max_waiting=1) as rig:
        first = await rig.start(envelope("first", new_id(), timeout_ms=2000))
        second = await rig.start(envelope("second", new_id(), timeout_ms=2000))
        await first.finish()
        assert first.ended.error == "it did not end within 2 s"
        model.opened.set()
        assert (await second.finish()).state == COMPLETED
        assert second.ended.duration_ms < 2000


async def test_a_full_queue_refuses_by_name(tmp_path: Path) -> None:
    async with runner(tmp_path, Gate(), max_workers=1, max_waiting=1) as rig:
        first, waiting = await rig.start(), await rig.start()
        await first.until("stream_start")
        error = await (await rig.start()).refusal()
        for run in (waiting, first):
            await run.tell(cancel=pb.Cancel())
            await run.finish()

    assert (error.reason, error.metadata["limit"]) == (Reason.REASON_LIMIT_REACHED, "max_waiting")


async def test_a_caller_that_leaves_takes_its_waiting_run_along(tmp_path: Path) -> None:
    model = Gate()
    limits = Limits(hold_s=0.1)
    async with runner(tmp_path, model, max_workers=1, max_waiting=1, limits=limits) as rig:
        first = await rig.start()
        await first.until("stream_start")
        waiting = await rig.start()
        while len((await rig.status()).runs) < 2:
            pass
        await waiting.leave()
        while len((await rig.status()).runs) > 1:
            pass
        model.opened.set()
        assert (await first.finish()).state == COMPLETED

    assert len(model.goals) == 1


async def test_a_runner_that_stops_ends_those_that_wait(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path, {"docs": str(tmp_path)})
    supervisor = Supervisor(
        ExecLauncher(), OneModel(Gate()), workspaces, limits=Limits(), places=Places(PlaceLimits(1, 5))
    )
    started = [supervisor.start(task_envelope()) for _ in range(3)]
    await supervisor.stop()
    for run, reader in started:
        events = reader.take(100_000, 100_000)
        assert events[-1].ended.error == "the runner is stopping"
        assert run.state == FAILED
