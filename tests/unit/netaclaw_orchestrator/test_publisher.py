"""The publisher: order, batching, snapshots and bounds."""

from __future__ import annotations

import pytest

from netaclaw.chat.v1.event_pb2 import (
    AssistantStreamDelta,
    AssistantStreamEnd,
    AssistantStreamStart,
    ChatEvent,
    Done,
    StreamChannel,
)
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator import publisher as publisher_module
from netaclaw_orchestrator.publisher import Pace, Publisher, Subscription

TEXT = StreamChannel.STREAM_CHANNEL_TEXT
THINKING = StreamChannel.STREAM_CHANNEL_THINKING


def start(entry: str = "e", task: str = "") -> ChatEvent:
    return ChatEvent(entry_id=entry, task_id=task, assistant_stream_start=AssistantStreamStart(attempt=1, model="m"))


def delta(text: str, offset: int = 0, *, entry: str = "e", task: str = "", channel: StreamChannel = TEXT) -> ChatEvent:
    body = AssistantStreamDelta(channel=channel, attempt=1, offset=offset, text=text)
    return ChatEvent(entry_id=entry, task_id=task, assistant_stream_delta=body)


def end(entry: str = "e", task: str = "") -> ChatEvent:
    return ChatEvent(entry_id=entry, task_id=task, assistant_stream_end=AssistantStreamEnd(attempt=1))


def durable(seq: int) -> ChatEvent:
    return ChatEvent(seq=seq, done=Done())


async def read_all(subscription: Subscription) -> list[ChatEvent]:
    return [event async for batch in subscription.batches() for event in batch]


async def test_a_durable_event_comes_after_the_live_ones_before_it() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.live(start())
    publisher.live(delta("a"))
    publisher.live(delta("b", 1))
    publisher.durable([durable(1)])
    publisher.close()
    kinds = [event.WhichOneof("event") for event in await read_all(reader)]
    assert kinds == ["assistant_stream_start", "assistant_stream_delta", "assistant_stream_delta", "done"]


async def test_waiting_deltas_of_one_channel_become_one() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.live(start())
    publisher.live(delta("!"))  # goes out at once and opens the interval
    publisher.live(delta("a", 1))
    publisher.live(delta("é", 2))
    publisher.live(delta("t", 0, channel=THINKING))
    publisher.live(delta("c", 0, task="child"))
    publisher.close()
    deltas = [e for e in await read_all(reader) if e.WhichOneof("event") == "assistant_stream_delta"]
    assert [(e.task_id, e.assistant_stream_delta.text, e.assistant_stream_delta.offset) for e in deltas] == [
        ("", "!", 0),
        ("", "aé", 1),
        ("", "t", 0),
        ("child", "c", 0),
    ]


async def test_the_first_text_is_not_held_back_even_after_a_durable_event() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    batches = reader.batches()
    publisher.durable([durable(1)])
    await anext(batches)
    publisher.live(start())
    publisher.live(delta("a"))
    batch = await anext(batches)
    assert [event.WhichOneof("event") for event in batch] == ["assistant_stream_start", "assistant_stream_delta"]
    publisher.close()


async def test_an_event_without_text_is_not_held_back_for_long() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.live(start())
    assert (await anext(reader.batches()))[0].WhichOneof("event") == "assistant_stream_start"
    publisher.close()


async def test_a_late_reader_gets_the_text_so_far_and_then_the_rest_once() -> None:
    publisher = Publisher("s")
    publisher.live(start())
    publisher.live(delta("hel"))
    publisher.live(delta("hmm", channel=THINKING))
    reader = publisher.subscribe()
    publisher.live(delta("lo", 3))
    publisher.close()
    snapshot = reader.snapshots[0].assistant_stream_start
    assert (snapshot.text, snapshot.thinking) == ("hel", "hmm")
    deltas = [event.assistant_stream_delta for event in await read_all(reader)]
    assert [(d.offset, d.text) for d in deltas] == [(3, "lo")]


async def test_an_ended_stream_has_no_snapshot() -> None:
    publisher = Publisher("s")
    publisher.live(start())
    publisher.live(end())
    assert publisher.subscribe().snapshots == []
    publisher.close()


async def test_a_slow_reader_is_ended_with_a_reason_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "MAX_BUFFERED_EVENTS", 10)
    publisher = Publisher("s")
    slow, quick = publisher.subscribe(), publisher.subscribe()
    seen: list[int] = []
    batches = quick.batches()
    for seq in range(1, 21):
        publisher.durable([durable(seq)])
        seen.extend(event.seq for event in await anext(batches))
    assert seen == list(range(1, 21))
    with pytest.raises(NetaclawError) as caught:
        await anext(slow.batches())
    assert caught.value.reason_name == "SLOW_READER"
    publisher.close()


async def test_batches_stay_below_the_message_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "MAX_BATCH_BYTES", 100)
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.durable([durable(seq) for seq in range(1, 101)])
    publisher.close()
    batches = [batch async for batch in reader.batches()]
    assert [event.seq for batch in batches for event in batch] == list(range(1, 101))
    assert all(sum(event.ByteSize() for event in batch) <= 100 for batch in batches)


async def test_an_idle_stream_yields_an_empty_batch_for_the_heartbeat() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    assert await anext(reader.batches(heartbeat_s=0.001)) == []
    publisher.close()


async def test_closing_ends_readers_after_what_was_buffered() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.durable([durable(1)])
    publisher.close()
    assert [event.seq for event in await read_all(reader)] == [1]
    assert await read_all(publisher.subscribe()) == []


async def test_text_of_an_answer_becomes_one_delta_until_something_comes_between() -> None:
    publisher = Publisher("s")
    reader = publisher.subscribe()
    publisher.live(start())

    def text(piece: str, offset: int, channel: StreamChannel = TEXT) -> None:
        publisher.text(piece, turn_id="t", entry_id="e", channel=channel, attempt=1, offset=offset)

    text("!", 0)  # goes out at once and opens the interval
    text("a", 1)
    text("é", 2)
    publisher.live(delta("c", 0, task="child"))
    text("b", 4)
    text("hm", 0, THINKING)
    publisher.live(delta("x", 5, channel=THINKING))  # the other way in continues it, in order
    publisher.durable([durable(1)])
    snapshot = publisher.subscribe().snapshots[0].assistant_stream_start
    publisher.close()
    events = await read_all(reader)
    assert [
        (e.task_id, e.assistant_stream_delta.text, e.assistant_stream_delta.offset)
        for e in events
        if e.WhichOneof("event") == "assistant_stream_delta"
    ] == [("", "!", 0), ("", "aé", 1), ("child", "c", 0), ("", "b", 4), ("", "hmx", 0)]
    assert events[-1].WhichOneof("event") == "done"
    assert (snapshot.text, snapshot.thinking) == ("!aéb", "hmx")
    assert all(e.time.seconds for e in events if not e.seq)


def test_many_streaming_sessions_are_flushed_at_the_same_moments() -> None:
    pace, publishers = Pace(), [object() for _ in range(publisher_module.BUSY_SESSIONS)]
    assert pace.next_flush(10.012) == pytest.approx(10.037)
    for publisher in publishers:
        pace.set_streaming(publisher, True)
    assert pace.next_flush(10.012) == pace.next_flush(10.038) == pytest.approx(10.05)
    assert pace.next_flush(10.0499) == pytest.approx(10.1)
    pace.set_streaming(publishers[0], False)
    assert pace.next_flush(10.012) == pytest.approx(10.037)
