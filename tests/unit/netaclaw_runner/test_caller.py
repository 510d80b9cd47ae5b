"""What a caller is told of its runs, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw.subagent.v1.runner_service_pb2 import RunEnded, RunEvent, RunOrder, RunResponse
from netaclaw_runner.caller import Caller
from netaclaw_runner.events import EventStream, Reader
from netaclaw_runner.limits import Limits

LIMITS = Limits(pace_s=1.0)


class Run:
    """Says what the test has it say."""

    def __init__(self) -> None:
        self.events = EventStream(LIMITS)

    def leave(self, reader: Reader) -> None:
        self.events.close(reader)


class Runs:
    """Starts a run whatever is asked."""

    def __init__(self) -> None:
        self.started: dict[str, Run] = {}

    def start(self, envelope: SubagentTaskEnvelope) -> tuple[Run, Reader]:
        run = self.started[envelope.run_id] = Run()
        return run, run.events.open()


def _begin(*names: str, limits: Limits = LIMITS) -> tuple[Caller, list[EventStream]]:
    runs: Any = Runs()
    caller = Caller(runs, limits)
    for name in names:
        caller.obey(RunOrder(run_id=name, start=SubagentTaskEnvelope(run_id=name)))
    return caller, [runs.started[name].events for name in names]


def _delta(text: str) -> RunEvent:
    return RunEvent(stream_delta=AssistantStreamDelta(text=text))


def _said(response: RunResponse | None) -> dict[str, list[str | None]]:
    assert response is not None
    return {run.run_id: [event.WhichOneof("event") for event in run.events] for run in response.runs}


async def test_the_first_news_go_at_once_and_later_ones_wait_for_company() -> None:
    caller, [one, two] = _begin("1", "2")
    one.add(_delta("at once"))
    async with asyncio.timeout(LIMITS.pace_s / 2):
        assert _said(await caller.take()) == {"1": ["stream_delta"]}

    one.add(_delta("later"))
    taking = asyncio.create_task(caller.take())
    for _ in range(10):
        await asyncio.sleep(0)  # one turn of the event loop
    assert not taking.done()
    two.add(RunEvent(ended=RunEnded()))
    async with asyncio.timeout(LIMITS.pace_s / 2):
        assert _said(await taking) == {"1": ["stream_delta"], "2": ["ended"]}


async def test_the_last_news_that_somebody_waits_for_go_at_once() -> None:
    slow = Limits(pace_s=1000.0)
    caller, [one, two] = _begin("1", "2", limits=slow)
    one.add(_delta("at once"))
    await caller.take()
    one.add(RunEvent(ended=RunEnded()))
    taking = asyncio.create_task(caller.take())
    for _ in range(10):
        await asyncio.sleep(0)  # one turn of the event loop
    assert not taking.done()
    two.add(RunEvent(ended=RunEnded()))
    async with asyncio.timeout(10):
        assert _said(await taking) == {"1": ["ended"], "2": ["ended"]}


async def test_a_call_without_orders_ends_with_the_last_of_its_runs() -> None:
    caller, [one] = _begin("1")
    caller.close()
    one.add(RunEvent(ended=RunEnded()))

    assert _said(await caller.take()) == {"1": ["ended"]}
    assert await caller.take() is None
    assert not one.read
