"""A model call's stream: what is batched, what it costs, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta, StreamChannel
from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, NewId, TextDelta, ThinkingDelta
from netaclaw_runner.model_calls import CallOutcome, DeltaStream, run_call

TEXT = StreamChannel.STREAM_CHANNEL_TEXT
THINKING = StreamChannel.STREAM_CHANNEL_THINKING
LONG_S = 60.0
"""An interval that never ends within a test."""


class Recorder(list[AssistantStreamDelta]):
    """Takes deltas."""

    def joined(self, channel: StreamChannel) -> str:
        return "".join(delta.text for delta in self if delta.channel == channel)


async def test_the_first_stretch_goes_out_at_once_and_the_rest_in_batches() -> None:
    sent = Recorder()
    stream = DeltaStream(1, sent.append, LONG_S)
    for word in ("one ", "two ", "three"):
        stream.add(TEXT, word)
    assert [delta.text for delta in sent] == ["one "]

    stream.flush()

    assert [(delta.offset, delta.text) for delta in sent] == [(0, "one "), (4, "two three")]


async def test_a_batch_goes_out_when_its_time_comes_without_more_text() -> None:
    arrived: asyncio.Queue[AssistantStreamDelta] = asyncio.Queue()
    stream = DeltaStream(1, arrived.put_nowait, 0.001)
    stream.add(TEXT, "a")
    stream.add(TEXT, "b")

    assert [(await arrived.get()).text for _ in range(2)] == ["a", "b"]
    stream.flush()


async def test_offsets_count_bytes_of_utf8_for_each_channel() -> None:
    sent = Recorder()
    stream = DeltaStream(2, sent.append, LONG_S)
    for channel, text in ((THINKING, "想"), (TEXT, "你好"), (THINKING, "法"), (TEXT, "吗")):
        stream.add(channel, text)
        stream.flush()

    assert [(delta.channel, delta.offset) for delta in sent] == [(THINKING, 0), (TEXT, 0), (THINKING, 3), (TEXT, 6)]
    assert stream.text == "你好吗"
    assert [(delta.channel, delta.text) for delta in stream.so_far()] == [(TEXT, "你好吗"), (THINKING, "想法")]


async def test_a_large_stretch_is_cut_into_deltas_that_fit() -> None:
    sent = Recorder()
    stream = DeltaStream(1, sent.append, LONG_S)
    stream.add(TEXT, "你" * 100_000)

    assert max(delta.ByteSize() for delta in sent) < 128 * 1024
    assert sent.joined(TEXT) == "你" * 100_000
    assert [delta.offset for delta in sent] == [0, 98304, 196608, 294912]


class FakeModel:
    """Yields what it was given; an exception is raised in its place."""

    name = "fake"
    context_window = 1000

    def __init__(self, *events: ModelEvent | Exception) -> None:
        self._events = events
        self.closed = False
        self.read = asyncio.Event()

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        try:
            for event in self._events:
                if isinstance(event, Exception):
                    raise event
                yield event
            self.read.set()
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def _run(model: FakeModel, sent: Recorder) -> CallOutcome:
    async def room() -> None:
        return

    stream = DeltaStream(1, sent.append, LONG_S)
    call = ModelCall(system="", messages=[])
    return await run_call(model.stream(call, new_id=lambda: "id"), stream, progress=lambda: None, room=room)


async def test_the_finished_message_ends_the_call_and_closes_the_stream() -> None:
    model, sent = FakeModel(ThinkingDelta("hm"), TextDelta("yes"), Finished(Message(model="fake"))), Recorder()

    outcome = await _run(model, sent)

    assert outcome.message == Message(model="fake")
    assert (sent.joined(THINKING), sent.joined(TEXT)) == ("hm", "yes")
    assert model.closed


async def test_a_model_error_is_an_outcome_with_its_cost_and_its_text_is_sent() -> None:
    model, sent = (
        FakeModel(TextDelta("par"), TextDelta("tial"), ModelError("gone", usage=Usage(input_tokens=9))),
        Recorder(),
    )

    outcome = await _run(model, sent)

    assert (outcome.message, outcome.error, outcome.usage.input_tokens) == (None, "gone", 9)
    assert sent.joined(TEXT) == "partial"


async def test_cancelling_closes_the_provider_and_passes_through() -> None:
    model, sent = FakeModel(TextDelta("a")), Recorder()
    running = asyncio.create_task(_run(model, sent))
    await model.read.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert model.closed
