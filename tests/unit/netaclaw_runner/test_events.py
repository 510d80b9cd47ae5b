"""A run's events: order, bounds, and what a caller who takes over still gets."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.envelope_pb2 import ToolResultLine
from netaclaw.subagent.v1.runner_service_pb2 import RunEnded, RunEvent, RunStreamStart, TranscriptMessage
from netaclaw_agent.loop import user_message
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.events import EventStream
from netaclaw_runner.limits import Limits


def _stream() -> EventStream:
    return EventStream(Limits(queued_bytes=1000, retained_bytes=10_000, response_bytes=500))


def _delta(text: str = "x") -> RunEvent:
    return RunEvent(stream_delta=AssistantStreamDelta(text=text))


def _start(number: int) -> RunEvent:
    return RunEvent(stream_start=RunStreamStart(call_no=number))


def _message(n: int, text: str) -> RunEvent:
    return RunEvent(message=TranscriptMessage(n=n, message=user_message(text)))


async def test_events_arrive_numbered_in_order_and_batched() -> None:
    stream = _stream()
    reader = stream.open(0)
    for number in range(3):
        stream.add(_start(number))

    assert [event.event_no for event in await reader.take()] == [1, 2, 3]


async def test_nothing_follows_the_end() -> None:
    stream = _stream()
    reader = stream.open(0)
    stream.add(RunEvent(ended=RunEnded(error="over")))
    stream.add(_start(1))

    assert [event.WhichOneof("event") for event in await reader.take()] == ["ended"]
    assert await reader.take() == []


async def test_a_batch_stays_below_its_size_and_a_large_event_goes_alone() -> None:
    stream = _stream()
    reader = stream.open(0)
    for text in ("a" * 300, "b" * 300, "c" * 2000):
        stream.add(_delta(text))

    assert [len(await reader.take()) for _ in range(3)] == [1, 1, 1]


async def test_a_slow_reader_makes_the_run_wait_and_an_absent_one_does_not() -> None:
    stream = _stream()
    reader = stream.open(0)
    for _ in range(10):
        stream.add(_delta("x" * 200))
    waiting = asyncio.create_task(stream.room())
    await asyncio.sleep(0)  # the waiting one takes its first step
    assert not waiting.done()

    while reader.size > 1000:
        await reader.take()
    await waiting

    stream.add(_delta("x" * 2000))
    stream.close(reader)
    await stream.room()


async def test_a_later_reader_gets_what_was_kept_without_old_deltas_and_then_the_text_so_far() -> None:
    stream = _stream()
    first = stream.open(0)
    stream.add(_start(1))
    stream.add(_delta("Hel"))
    stream.add(_delta("lo"))
    assert stream.close(first)
    stream.add(_message(0, "kept"))

    second = stream.open(0, [_delta("Hello")])
    kinds = [(event.event_no, event.WhichOneof("event")) for event in await second.take()]

    assert kinds == [(1, "stream_start"), (4, "message"), (5, "stream_delta")]
    assert not stream.close(first)


async def test_after_no_leaves_out_what_is_known() -> None:
    stream = _stream()
    for number in range(1, 4):
        stream.add(_start(number))

    assert [event.event_no for event in await stream.open(2).take()] == [3]


async def test_a_message_sent_again_replaces_its_earlier_version() -> None:
    stream = _stream()
    stream.add(_message(0, "without a result"))
    stream.add(_message(0, "with a result"))

    assert [event.event_no for event in await stream.open(0).take()] == [2]


async def test_a_displaced_reader_is_told_and_gets_nothing_more() -> None:
    stream = _stream()
    first = stream.open(0)
    stream.add(_start(1))
    stream.open(0)

    with pytest.raises(NetaclawError) as caught:
        await first.take()
    assert caught.value.reason == Reason.REASON_STALE_GENERATION


async def test_what_is_kept_is_bounded_and_a_gap_is_never_silent() -> None:
    stream = _stream()
    for number in range(100):
        stream.add(RunEvent(tool_result=ToolResultLine(call_id=str(number), content="x" * 500)))

    for after_no in (0, 101):
        with pytest.raises(NetaclawError) as caught:
            stream.open(after_no)
        assert caught.value.reason == Reason.REASON_SEQ_OUT_OF_RANGE
    assert stream.open(95).size > 0
