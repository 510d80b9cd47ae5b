"""A run's events: order, bounds, and what a caller who takes over still gets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1.envelope_pb2 import ModelCallUsage, ToolResultLine
from netaclaw.subagent.v1.runner_service_pb2 import RunEnded, RunEvent, RunStreamStart, TranscriptMessage
from netaclaw_agent.loop import user_message
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.events import EventStream, Reader
from netaclaw_runner.limits import Limits

ROOM = 500


def _stream() -> EventStream:
    return EventStream(Limits(queued_bytes=1000, retained_bytes=10_000))


def _delta(text: str = "x") -> RunEvent:
    return RunEvent(stream_delta=AssistantStreamDelta(text=text))


def _start(number: int) -> RunEvent:
    return RunEvent(stream_start=RunStreamStart(call_no=number))


def _message(n: int, text: str) -> RunEvent:
    return RunEvent(message=TranscriptMessage(n=n, message=user_message(text)))


def _result(number: int) -> RunEvent:
    return RunEvent(tool_result=ToolResultLine(call_id=str(number), content="x" * 500))


def _usage(tokens: int) -> RunEvent:
    return RunEvent(usage=ModelCallUsage(usage=Usage(input_tokens=tokens)))


def _taken(reader: Reader) -> Sequence[RunEvent]:
    return reader.take(ROOM, ROOM)


def _nothing(_dropped_no: int) -> Iterable[RunEvent]:
    return ()


async def test_events_arrive_numbered_in_order_and_batched() -> None:
    stream = _stream()
    reader = stream.open()
    for number in range(3):
        stream.add(_start(number))

    assert [event.event_no for event in _taken(reader)] == [1, 2, 3]
    assert not reader.ready


async def test_nothing_follows_the_end() -> None:
    stream = _stream()
    reader = stream.open()
    stream.add(RunEvent(ended=RunEnded(error="over")))
    stream.add(_start(1))

    assert [event.WhichOneof("event") for event in _taken(reader)] == ["ended"]
    assert reader.finished
    assert not reader.ready


async def test_a_batch_stays_below_its_share_and_a_larger_event_goes_alone_where_there_is_room() -> None:
    stream = _stream()
    reader = stream.open()
    for text in ("a" * 300, "b" * 300, "c" * 2000):
        stream.add(_delta(text))

    assert [len(reader.take(ROOM, ROOM)) for _ in range(3)] == [1, 1, 0]
    assert len(reader.take(ROOM, 3000)) == 1


async def test_a_slow_reader_makes_the_run_wait_and_an_absent_one_does_not() -> None:
    stream = _stream()
    reader = stream.open()
    for _ in range(10):
        stream.add(_delta("x" * 200))
    waiting = asyncio.create_task(stream.room())
    await asyncio.sleep(0)  # the waiting one takes its first step
    assert not waiting.done()

    while reader.size > 1000:
        _taken(reader)
    await waiting

    stream.add(_delta("x" * 2000))
    stream.close(reader)
    await stream.room()


async def test_a_later_reader_gets_what_was_kept_without_old_deltas_and_then_the_text_so_far() -> None:
    stream = _stream()
    first = stream.open()
    stream.add(_start(1))
    stream.add(_delta("Hel"))
    stream.add(_delta("lo"))
    assert stream.close(first)
    stream.add(_message(0, "kept"))

    second = stream.take_over(0, lambda dropped_no: [_delta("Hello")])
    kinds = [(event.event_no, event.WhichOneof("event")) for event in _taken(second)]

    assert kinds == [(0, "attached"), (1, "stream_start"), (4, "message"), (5, "stream_delta")]
    assert not stream.close(first)


async def test_after_no_leaves_out_what_is_known_and_its_usage_is_said() -> None:
    stream = _stream()
    for number in range(1, 4):
        stream.add(_usage(number))

    attached, last = _taken(stream.take_over(2, _nothing))

    assert last.event_no == 3
    assert (attached.attached.held_from_no, attached.attached.usage_before.input_tokens) == (3, 3)


async def test_a_message_sent_again_replaces_its_earlier_version() -> None:
    stream = _stream()
    stream.add(_message(0, "without a result"))
    stream.add(_message(0, "with a result"))

    assert [event.event_no for event in _taken(stream.take_over(0, _nothing))] == [0, 2]


async def test_a_message_sent_again_is_told_once_to_a_reader_that_has_not_taken_it_yet() -> None:
    stream = _stream()
    reader = stream.open()
    stream.add(_message(0, "without a result"))
    stream.add(_start(1))
    stream.add(_message(0, "with a result"))
    told = _taken(reader)
    assert [event.event_no for event in told] == [2, 3]
    assert reader.size == 0

    stream.add(_message(0, "with another"))
    assert [event.event_no for event in _taken(reader)] == [4]


async def test_a_displaced_reader_is_told() -> None:
    stream = _stream()
    first = stream.open()
    stream.add(_start(1))
    stream.take_over(0, _nothing)

    assert first.displaced
    assert first.urgent


async def test_what_is_kept_is_bounded_and_whoever_takes_over_is_told_what_is_gone() -> None:
    stream = _stream()
    stream.add(_usage(7))
    for number in range(100):
        stream.add(_result(number))
    stream.add(_usage(5))
    reader = stream.take_over(0, _nothing)
    attached, *held = reader.take(100_000, 100_000)
    first = attached.attached.held_from_no

    assert [event.event_no for event in held] == list(range(first, 103))
    assert 70 < first < 90
    assert attached.attached.usage_before.input_tokens == 7
    with pytest.raises(NetaclawError) as caught:
        stream.take_over(103, _nothing)
    assert caught.value.reason == Reason.REASON_SEQ_OUT_OF_RANGE
