"""A caller that goes away: its run is held, taken over, or ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import calls_of
from netaclaw_agent.model import Finished, ModelCall, ModelEvent, TextDelta
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import (
    ScriptModel,
    alive,
    answer,
    asking,
    program,
    runner,
    task_envelope,
)
from tests.processes import gone

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
WRITE = ("write_file", '{"path":"out.txt","content":"x"}')
READ = ("read_file", '{"path":"notes.txt"}')


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
        second = await rig.attach(first.envelope, after_no=1)
        await second.until("stream_delta")
        gate.opened.set()
        ended = await second.finish()

    assert second.kinds[:4] == ["attached", "message", "stream_start", "stream_delta"]
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
        second = await rig.attach(first.envelope, after_no=first.events[-1].event_no)
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
        second = await rig.attach(first.envelope, after_no=asked.event_no - 1)
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
        second = await rig.attach(first.envelope, generation=2)
        await second.until("stream_delta")

        assert (await first.refusal()).reason == Reason.REASON_STALE_GENERATION
        for generation in (1, 2):
            late = await rig.attach(first.envelope, generation=generation)
            assert (await late.refusal()).reason == Reason.REASON_STALE_GENERATION
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
        again = await rig.attach(run.envelope, after_no=run.events[-1].event_no - 1)
        ended = await again.finish()

    assert ended == run.ended


async def test_of_many_ended_runs_those_that_ended_last_are_kept(tmp_path: Path) -> None:
    gate = Gate()
    async with runner(tmp_path, ScriptModel(gate, "short"), limits=Limits(ended_runs=1)) as rig:
        long = await rig.start()
        await long.until("stream_delta")
        short = await rig.run()
        gate.opened.set()
        await long.finish()
        again = await rig.attach(long.envelope)
        forgotten = await rig.attach(short.envelope)
        assert await again.finish() == long.ended
        assert (await forgotten.refusal()).reason == Reason.REASON_NOT_FOUND


async def test_an_unknown_run_and_an_unknown_position_are_refused(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel("short")) as rig:
        run = await rig.run()

        unknown = await rig.attach(task_envelope())
        assert (await unknown.refusal()).reason == Reason.REASON_NOT_FOUND
        beyond = await rig.attach(run.envelope, after_no=10_000)
        assert (await beyond.refusal()).reason == Reason.REASON_SEQ_OUT_OF_RANGE


async def test_a_run_whose_first_events_are_held_no_more_is_taken_over_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "long.txt").write_text("a line of some length\n" * 3000)
    gate = Gate()
    model = ScriptModel([("read_file", '{"path":"long.txt"}')], gate)
    async with runner(tmp_path, model, limits=Limits(retained_bytes=20_000)) as rig:
        first = await rig.start()
        first_result = await first.until("tool_result")
        await first.until("stream_delta")
        await first.leave()
        gate.opened.set()
        second = await rig.attach(first.envelope)
        attached = (await second.until("attached")).attached
        ended = await second.finish()

    assert attached.held_from_no > first_result.event_no
    assert ended.state == COMPLETED
    told = sum(event.usage.usage.input_tokens for event in second.events if event.HasField("usage"))
    assert (attached.usage_before.input_tokens, told, ended.usage.input_tokens) == (10, 10, 20)


async def test_what_a_run_has_asked_of_its_caller_is_asked_again_though_it_was_long_ago(tmp_path: Path) -> None:
    text = """
start()
send("proxy_tool_call", callId="p", toolName="write_file", argumentsJson="{}")
for number in range(9):
    send("tool_call", callId=f"c{number}", toolName="read_file", argumentsJson="{}")
    send("tool_result", callId=f"c{number}", toolName="read_file", content="x" * 9000)
end(receive()["content"])
"""
    async with runner(tmp_path, launcher=program(text), limits=Limits(retained_bytes=20_000)) as rig:
        first = await rig.start()
        for _ in range(9):
            await first.until("tool_result")
        await first.leave()
        for generation in (1, 2):
            later = await rig.attach(first.envelope, generation=generation)
            asked = (await later.until("proxy_tool_call")).proxy_tool_call
            assert later.kinds.count("proxy_tool_call") == 1
        await later.tell(proxy_tool_result=pb.ProxyToolResult(call_id=asked.call_id, content="wrote it"))
        ended = await later.finish()

    assert later.kinds.count("proxy_tool_call") == 1
    assert (ended.state, ended.final_output) == (COMPLETED, "wrote it")
