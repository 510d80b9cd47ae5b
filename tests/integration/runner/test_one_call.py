"""Many runs over one call: each has its own orders, events and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1 import runner_service_pb2 as rs
from netaclaw_agent.loop import text_of
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, TextDelta
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import Rig, ScriptModel, answer, runner, task_envelope

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED


class Batch:
    """One caller of many runs."""

    def __init__(self, rig: Rig) -> None:
        self.call = rig.stub.Run()
        self.events: dict[str, list[rs.RunEvent]] = {}
        self.refused: dict[str, Reason] = {}
        self.sizes: list[int] = []
        """Of the messages, in bytes."""

    async def order(self, *orders: rs.RunOrder) -> None:
        await self.call.write(rs.RunRequest(orders=orders))

    async def start(self, *envelopes: pb.SubagentTaskEnvelope) -> None:
        await self.order(*(rs.RunOrder(run_id=each.run_id, start=each) for each in envelopes))

    async def until(self, kind: str, run_id: str) -> None:
        """Read until a run has said something of a kind."""
        while kind not in self.kinds(run_id):
            await self._read()

    async def ends(self) -> dict[str, rs.RunEnded]:
        """Read to the end of the call, which comes by itself once nothing more is asked."""
        await self.call.done_writing()
        while await self._read():
            continue
        return {run_id: events[-1].ended for run_id, events in self.events.items()}

    def kinds(self, run_id: str) -> list[str]:
        return [str(event.WhichOneof("event")) for event in self.events.get(run_id, [])]

    async def _read(self) -> bool:
        response = await self.call.read()
        if response == grpc.aio.EOF:
            return False
        assert isinstance(response, rs.RunResponse)
        assert response.runs
        self.sizes.append(response.ByteSize())
        for run in response.runs:
            if run.HasField("refused"):
                self.refused[run.run_id] = run.refused.reason
            else:
                assert run.events
                self.events.setdefault(run.run_id, []).extend(run.events)
        return True


async def _by_goal(call: ModelCall) -> AsyncIterator[ModelEvent]:
    """Does what the goal says."""
    goal = text_of(call.messages[0])
    if "fail" in goal:
        raise ModelError("no such model")
    if "hang" in goal:
        await asyncio.Event().wait()
    if "much" in goal:
        for _ in range(300):
            yield TextDelta("x" * 10_000)
    yield Finished(answer("done"))


def _model(count: int) -> ScriptModel:
    return ScriptModel(*[_by_goal] * count)


async def test_what_becomes_of_one_run_changes_nothing_for_the_others(tmp_path: Path) -> None:
    good, bad, stuck = (task_envelope(goal) for goal in ("do it", "fail", "hang"))
    nowhere = task_envelope(workspace="nowhere")
    async with runner(tmp_path, _model(3)) as rig:
        batch = Batch(rig)
        await batch.start(good, bad, nowhere, stuck)
        await batch.until("stream_start", stuck.run_id)
        await batch.order(rs.RunOrder(run_id=stuck.run_id, command=rs.RunCommand(cancel=pb.Cancel())))
        ends = await batch.ends()

    assert batch.refused == {nowhere.run_id: Reason.REASON_WORKSPACE_NOT_FOUND}
    states = {run_id: ended.state for run_id, ended in ends.items()}
    assert states == {good.run_id: COMPLETED, bad.run_id: FAILED, stuck.run_id: CANCELLED}
    assert all(batch.kinds(run_id).count("ended") == 1 for run_id in ends)
    assert all(
        [e.event_no for e in batch.events[run_id]] == [*range(1, len(batch.events[run_id]) + 1)] for run_id in ends
    )


async def test_orders_for_runs_of_another_call_or_again_for_one_s_own_change_nothing(tmp_path: Path) -> None:
    theirs, ours = task_envelope("hang"), task_envelope("do it")
    async with runner(tmp_path, _model(2)) as rig:
        other = Batch(rig)
        await other.start(theirs)
        await other.until("started", theirs.run_id)
        batch = Batch(rig)
        cancel = rs.RunCommand(cancel=pb.Cancel())
        await batch.start(ours, ours)
        await batch.order(
            rs.RunOrder(run_id=theirs.run_id, command=cancel),
            rs.RunOrder(run_id=ours.run_id, attach=rs.AttachTarget(generation=9)),
            rs.RunOrder(run_id="unheard-of", command=cancel),
        )
        ends = await batch.ends()
        running = [run.run_id for run in (await rig.status()).runs]
        await other.order(rs.RunOrder(run_id=theirs.run_id, command=cancel))
        assert (await other.ends())[theirs.run_id].state == CANCELLED

    assert {run_id: ended.state for run_id, ended in ends.items()} == {ours.run_id: COMPLETED}
    assert batch.refused == {}
    assert running == [theirs.run_id]


async def test_an_order_that_fits_no_run_is_refused_and_its_run_may_be_started_then(tmp_path: Path) -> None:
    envelope = task_envelope()
    async with runner(tmp_path, _model(1)) as rig:
        batch = Batch(rig)
        await batch.order(
            rs.RunOrder(run_id=envelope.run_id, attach=rs.AttachTarget(generation=1)),
            rs.RunOrder(run_id="another", start=envelope),
            rs.RunOrder(run_id="nothing"),
        )
        await batch.start(envelope)
        ends = await batch.ends()

    assert batch.refused == {
        envelope.run_id: Reason.REASON_NOT_FOUND,
        "another": Reason.REASON_INVALID_FIELD,
        "nothing": Reason.REASON_INVALID_FIELD,
    }
    assert ends[envelope.run_id].state == COMPLETED


async def test_a_run_with_much_to_say_keeps_no_other_silent_and_no_message_grows_beyond_its_size(
    tmp_path: Path,
) -> None:
    loud, quiet = task_envelope("much"), task_envelope("do it")
    limits = Limits(response_bytes=64 * 1024, queued_bytes=256 * 1024)
    async with runner(tmp_path, _model(2), limits=limits) as rig:
        batch = Batch(rig)
        await batch.start(loud)
        await batch.until("stream_delta", loud.run_id)
        await batch.start(quiet)
        await batch.until("ended", quiet.run_id)
        assert "ended" not in batch.kinds(loud.run_id)
        ends = await batch.ends()

    assert {ended.state for ended in ends.values()} == {COMPLETED}
    assert max(batch.sizes) < 66 * 1024
    text = "".join(event.stream_delta.text for event in batch.events[loud.run_id])
    assert len(text) == 3_000_000


async def test_a_call_that_is_lost_leaves_all_its_runs_to_the_next_caller(tmp_path: Path) -> None:
    envelopes = [task_envelope("hang") for _ in range(3)]
    async with runner(tmp_path, _model(3)) as rig:
        first = Batch(rig)
        await first.start(*envelopes)
        for each in envelopes:
            await first.until("stream_start", each.run_id)
        first.call.cancel()
        second = Batch(rig)
        await second.order(
            *(rs.RunOrder(run_id=each.run_id, attach=rs.AttachTarget(generation=1)) for each in envelopes),
            *(rs.RunOrder(run_id=each.run_id, command=rs.RunCommand(cancel=pb.Cancel())) for each in envelopes),
        )
        ends = await second.ends()

    assert all(ended.state == CANCELLED for ended in ends.values())
    assert all(second.kinds(each.run_id)[:2] == ["attached", "started"] for each in envelopes)
