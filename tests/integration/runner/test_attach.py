"""A caller that goes away: its run is held, taken over, or ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1 import runner_service_pb2 as rs
from netaclaw_agent.loop import calls_of
from netaclaw_agent.model import Finished, ModelCall, ModelEvent, TextDelta
from netaclaw_chassis.errors import from_rpc
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import (
    Rig,
    RunFollower,
    ScriptModel,
    alive,
    answer,
    asking,
    gone,
    runner,
)

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
WRITE = ("write_file", '{"path":"out.txt","content":"x"}')
READ = ("read_file", '{"path":"notes.txt"}')


class Attached(RunFollower):
    """A caller who takes over."""

    def __init__(self, rig: Rig, target: rs.AttachTarget) -> None:
        super().__init__(rig.stub.Attach(), pb.SubagentTaskEnvelope())  # type: ignore[arg-type]  # reads the same
        self._target = target

    async def open(self) -> Attached:
        await self.stream.write(rs.AttachRequest(attach=self._target))  # type: ignore[arg-type]  # takes its own kind
        return self

    async def tell(self, **command: object) -> None:
        request = rs.AttachRequest(command=rs.RunCommand(**command))  # type: ignore[arg-type]  # its fields
        await self.stream.write(request)  # type: ignore[arg-type]  # takes its own kind


async def _attach(rig: Rig, run_id: str, *, generation: int = 1, after_no: int = 0) -> Attached:
    return await Attached(rig, rs.AttachTarget(run_id=run_id, generation=generation, after_no=after_no)).open()


async def _refusal(follower: RunFollower) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await follower.until("ended")
    return from_rpc(caught.value).reason


class Gate:
    """A model call that says something, waits to be opened, and finishes."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self._calls = calls
        self.opened = asyncio.Event()
        self.finished = asyncio.Event()

    async def __call__(self, call: ModelCall) -> AsyncIterator[ModelEvent]:
        yield TextDelta("first half, ")
        await self.opened.wait()
        yield TextDelta("second half")
        self.finished.set()
        yield Finished(asking(self._calls, lambda: "call-1") if self._calls else answer("first half, second half"))


async def test_a_run_is_taken_over_with_all_that_was_not_journaled_and_the_text_so_far(tmp_path: Path) -> None:
    gate = Gate()
    async with runner(tmp_path, ScriptModel(gate)) as rig:
        first = await rig.start()
        await first.until("stream_delta")
        await first.leave()
        second = await _attach(rig, first.envelope.run_id, after_no=1)
        await second.until("stream_delta")
        gate.opened.set()
        ended = await second.finish()

    assert second.kinds[:3] == ["message", "stream_start", "stream_delta"]
    assert second.text == "first half, second half"
    offsets = [event.stream_delta.offset for event in second.events if event.HasField("stream_delta")]
    assert offsets == [0, 12]
    assert ended.state == COMPLETED


async def test_without_a_caller_no_further_model_call_starts_until_one_attaches(tmp_path: Path) -> None:
    gate = Gate(READ)
    model = ScriptModel(gate, "done")
    async with runner(tmp_path, model) as rig:
        first = await rig.start()
        await first.until("stream_delta")
        await first.leave()
        gate.opened.set()
        await gate.finished.wait()
        # Time enough for the worker's next request: a whole run that starts later comes to its end meanwhile.
        later = await rig.run()
        assert later.ended.state == COMPLETED
        assert len(model.calls) == 2
        second = await _attach(rig, first.envelope.run_id, after_no=first.events[-1].event_no)
        await second.until("tool_result")
        ended = await second.finish()

    assert len(model.calls) == 3  # only now, and its answer is the script's last, empty one
    assert ended.error == "the answer was empty"


async def test_a_proxied_call_waits_for_the_next_caller(tmp_path: Path) -> None:
    model = ScriptModel([WRITE], "written")
    async with runner(tmp_path, model) as rig:
        first = await rig.start()
        asked = await first.until("proxy_tool_call")
        await first.leave()
        second = await _attach(rig, first.envelope.run_id, after_no=asked.event_no - 1)
        again = await second.until("proxy_tool_call")
        reply = pb.ProxyToolResult(call_id=again.proxy_tool_call.call_id, content="wrote it")
        await second.tell(proxy_tool_result=reply)
        ended = await second.finish()

    assert again == asked
    assert ended.state == COMPLETED
    assert calls_of(model.calls[1].messages[1])[0].result.content == "wrote it"


async def test_a_later_generation_displaces_a_caller_that_is_still_there(tmp_path: Path) -> None:
    gate = Gate()
    async with runner(tmp_path, ScriptModel(gate)) as rig:
        first = await rig.start()
        await first.until("stream_delta")
        second = await _attach(rig, first.envelope.run_id, generation=2)
        await second.until("stream_delta")

        assert await _refusal(first) == Reason.REASON_STALE_GENERATION
        for generation in (1, 2):
            late = await _attach(rig, first.envelope.run_id, generation=generation)
            assert await _refusal(late) == Reason.REASON_STALE_GENERATION
        gate.opened.set()
        assert (await second.finish()).state == COMPLETED


async def test_a_run_that_nobody_takes_over_is_ended_with_its_process(tmp_path: Path) -> None:
    gate = Gate()
    async with runner(tmp_path, ScriptModel(gate), limits=Limits(hold_s=0.2)) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
        await run.until("stream_delta")
        await run.leave()
        await gone(pid)
        assert not alive(pid) or not (await rig.status()).runs

    assert not gate.finished.is_set()


async def test_an_ended_run_can_be_read_again_for_a_while(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel("short")) as rig:
        run = await rig.run()
        again = await _attach(rig, run.envelope.run_id, after_no=run.events[-1].event_no - 1)
        ended = await again.finish()

    assert ended == run.ended


async def test_an_unknown_run_and_an_unknown_position_are_refused(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel("short")) as rig:
        run = await rig.run()

        assert await _refusal(await _attach(rig, "no-such-run")) == Reason.REASON_NOT_FOUND
        beyond = await _attach(rig, run.envelope.run_id, after_no=10_000)
        assert await _refusal(beyond) == Reason.REASON_SEQ_OUT_OF_RANGE
