"""One FIFO publisher per session: durable events after their commit, live text batched in between.

Deltas of a session are flushed together, children's included: the first at once, then every FLUSH_S, and every
BUSY_FLUSH_S while many sessions stream. Every hop's cost is per message, so batching here pays on the whole way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from netaclaw.chat.v1.event_pb2 import AssistantStreamDelta, AssistantStreamStart, ChatEvent, StreamChannel
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError

FLUSH_S = 0.025
BUSY_FLUSH_S = 0.05
BUSY_SESSIONS = 8
"""Sessions with running text in one process from which on it is flushed less often."""
GAP_S = 0.05
"""How long an event that came too early waits for the ones before it, until they are read from the store."""
_THINKING = StreamChannel.STREAM_CHANNEL_THINKING
MAX_HELD_EVENTS = 4096
MAX_BUFFERED_EVENTS = 4096
MAX_BUFFERED_BYTES = 16 * 1024 * 1024
MAX_BATCH_BYTES = 512 * 1024
"""A message to a reader holds at most about this much; a single larger event travels alone."""


class Pace:
    """How often text is flushed, shared by the publishers of a process: it depends on how many of them are at it."""

    def __init__(self) -> None:
        self._streaming: set[int] = set()

    def set_streaming(self, publisher: object, streaming: bool) -> None:
        """Say whether text is running at a publisher."""
        (self._streaming.add if streaming else self._streaming.discard)(id(publisher))

    def next_flush(self, now: float) -> float:
        """When text may be flushed again, in the event loop's time. While many stream they are flushed at the same
        moments, so that every process on the way wakes up once for all of them."""
        if len(self._streaming) < BUSY_SESSIONS:
            return now + FLUSH_S
        soon = BUSY_FLUSH_S / 5  # a timer that fires a little early must not meet its own moment again
        return ((now + soon) // BUSY_FLUSH_S + 1) * BUSY_FLUSH_S


@dataclass(slots=True)
class StreamState:
    """Text so far of something that is being written."""

    turn_id: str
    attempt: int
    model: str
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    dirty: bool = False
    """There is more than the last checkpoint holds."""


class Subscription:
    """One reader's bounded buffer. Iterating yields batches in order until the publisher closes it.

    A reader that falls behind the buffer gets SLOW_READER after what was buffered is dropped: it must watch again.
    """

    def __init__(self, snapshots: Sequence[ChatEvent]) -> None:
        self.snapshots = snapshots
        """assistant_stream_start, with the text so far, for everything in progress at the time of subscribing."""
        self._buffer: deque[tuple[ChatEvent, int]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._closed = False
        self._slow = False

    def put(self, events: Sequence[tuple[ChatEvent, int]]) -> None:
        """Events with their sizes in bytes: measuring one costs as much as sending it."""
        if self._slow or self._closed:
            return
        self._buffer.extend(events)
        self._bytes += sum(size for _, size in events)
        if len(self._buffer) > MAX_BUFFERED_EVENTS or self._bytes > MAX_BUFFERED_BYTES:
            self._slow = True
            self._buffer.clear()
        self._wake.set()

    def close(self) -> None:
        """No more events will come; what is buffered is still delivered."""
        self._closed = True
        self._wake.set()

    async def batches(self, heartbeat_s: float | None = None) -> AsyncIterator[list[ChatEvent]]:
        """Batches in order; an empty batch when nothing came for heartbeat_s seconds, and all before was taken."""
        pulse = _Pulse(heartbeat_s, self._wake)
        try:
            while True:
                if self._slow:
                    words = "reading was too slow; watch again from the last seq"
                    raise NetaclawError(Reason.REASON_SLOW_READER, words)
                if self._buffer:
                    pulse.moved()
                    yield self._take()
                    continue
                if self._closed:
                    return
                self._wake.clear()
                await self._wake.wait()
                if pulse.due() and not self._buffer:
                    yield []
        finally:
            pulse.stop()

    def _take(self) -> list[ChatEvent]:
        batch: list[ChatEvent] = []
        room = MAX_BATCH_BYTES
        while self._buffer and (not batch or self._buffer[0][1] <= room):
            event, size = self._buffer.popleft()
            room -= size
            self._bytes -= size
            batch.append(event)
        return batch


class _Pulse:
    """Wakes a reader that had nothing for a while, by one timer a period: one for each wait costs as much as a wait."""

    def __init__(self, every_s: float | None, wake: asyncio.Event) -> None:
        self._every_s = every_s or 0.0
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._moved = self._loop.time()
        self._due = False
        self._timer = self._loop.call_later(every_s, self._look) if every_s else None

    def moved(self) -> None:
        """The reader gets something."""
        self._moved = self._loop.time()

    def due(self) -> bool:
        """Whether the reader was woken for a sign of life; said once."""
        due, self._due = self._due, False
        return due

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._moved + self._every_s:
            self._moved, self._due = now, True
            self._wake.set()
        self._timer = self._loop.call_at(self._moved + self._every_s, self._look)


class Publisher:
    """Publishes one session's events to its readers, in order.

    Durable events of one session come from more than one call (appends of its writer, commands beside it), so an event
    may arrive before the one that precedes it. It is held back; when the gap stays, `on_gap` is told the last seq that
    was published, and is to bring what follows by `durable`.
    """

    def __init__(
        self, session_id: str, on_gap: Callable[[int], None] = lambda seq: None, pace: Pace | None = None
    ) -> None:
        self._session_id = session_id
        self._pace = pace if pace is not None else Pace()
        self._on_gap = on_gap
        self._subscriptions: set[Subscription] = set()
        self._streams: dict[tuple[str, str], StreamState] = {}
        self._pending: list[ChatEvent] = []
        self._tail: ChatEvent | None = None
        """The last pending event, where it is a delta whose text still grows."""
        self._tail_key: tuple[str, StreamChannel, int] = ("", _THINKING, 0)
        self._tail_text: list[str] = []
        self._held: dict[int, ChatEvent] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._gap_timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._closed = False
        self._known = False
        self._expected = 0
        self.seq = 0
        """Seq of the last durable event that was published, or from which publishing begins."""

    @property
    def watched(self) -> bool:
        """Whether anybody reads."""
        return bool(self._subscriptions)

    def start_at(self, seq: int) -> None:
        """State where publishing begins, unless that is known."""
        if not self._known:
            self._known = True
            self.seq = seq

    def subscribe(self) -> Subscription:
        """Start reading: everything published from now on, and snapshots of what is in progress."""
        self.flush()
        subscription = Subscription([self._snapshot(key, state) for key, state in self._streams.items()])
        if self._closed:
            subscription.close()
        else:
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def durable(self, events: Sequence[ChatEvent]) -> None:
        """Publish committed events at once, after the live ones that came before them; each seq once, in order."""
        for event in events:
            if not self._known or event.seq == self.seq + 1:
                self._publish(event)
            elif event.seq > self.seq and len(self._held) < MAX_HELD_EVENTS:
                self._held[event.seq] = event
        while self.seq + 1 in self._held:
            self._publish(self._held.pop(self.seq + 1))
        for seq in [seq for seq in self._held if seq <= self.seq]:
            del self._held[seq]
        self.flush()
        if self._held:
            self._wait_for_gap()

    def expect(self, seq: int) -> None:
        """Somebody has committed events up to a seq; those that do not come soon are a gap."""
        self._expected = max(self._expected, seq)
        if self._known and self._expected > self.seq:
            self._wait_for_gap()

    def dirty_streams(self) -> Iterator[tuple[tuple[str, str], StreamState]]:
        """(entry id, task id) and text of what is being written and has grown since it was asked last."""
        for key, state in self._streams.items():
            if state.dirty:
                state.dirty = False
                yield key, state

    def live(self, event: ChatEvent) -> None:
        """Publish an event that has no seq; text may wait for the next flush."""
        event.session_id = self._session_id
        event.time.FromNanoseconds(time.time_ns())
        kind = event.WhichOneof("event")
        if kind == "assistant_stream_delta":
            self._delta(event)
            return
        if kind == "assistant_stream_start":
            start = event.assistant_stream_start
            key = (event.entry_id, event.task_id)
            self._streams[key] = StreamState(event.turn_id, start.attempt, start.model)
            self._pace.set_streaming(self, True)
        elif kind == "assistant_stream_end":
            self._streams.pop((event.entry_id, event.task_id), None)
            self._pace.set_streaming(self, bool(self._streams))
        self._pending.append(event)
        if self._timer is None and not self._soon:  # what comes in the same step of the loop travels along
            self._soon = True
            asyncio.get_running_loop().call_soon(self._on_soon)

    def text(
        self, text: str, *, turn_id: str, entry_id: str, channel: StreamChannel, attempt: int, offset: int
    ) -> None:
        """More of an answer: as `live` with a delta of the main agent, without an event for every token."""
        self._note(self._streams.get((entry_id, "")), channel, text)
        key = (entry_id, channel, attempt)
        if self._tail is None or self._tail_key != key or not self._pending or self._pending[-1] is not self._tail:
            self._seal()
            self._tail_key = key
            self._tail = ChatEvent(
                session_id=self._session_id,
                turn_id=turn_id,
                entry_id=entry_id,
                assistant_stream_delta=AssistantStreamDelta(channel=channel, attempt=attempt, offset=offset),
            )
            self._tail.time.FromNanoseconds(time.time_ns())
            self._pending.append(self._tail)
        self._tail_text.append(text)
        if self._timer is None:
            self._flush_text()

    def flush(self) -> None:
        """Hand what is pending to the readers."""
        if not self._pending:
            return
        self._seal()
        batch, self._pending = self._pending, []
        if self._subscriptions:
            measured = [(event, event.ByteSize()) for event in batch]
            for subscription in self._subscriptions:
                subscription.put(measured)

    def send_away(self) -> None:
        """Flush and end every subscription; others may come."""
        self.flush()
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    def close(self) -> None:
        """Flush and end every subscription, for good."""
        self._closed = True
        self._pace.set_streaming(self, False)
        for timer in (self._timer, self._gap_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._gap_timer = None
        self.send_away()

    def _publish(self, event: ChatEvent) -> None:
        self._known = True
        self.seq = event.seq
        self._pending.append(event)

    def _wait_for_gap(self) -> None:
        if self._gap_timer is None and not self._closed:
            self._gap_timer = asyncio.get_running_loop().call_later(GAP_S, self._report_gap)

    def _report_gap(self) -> None:
        self._gap_timer = None
        if self._held or self._expected > self.seq:
            self._on_gap(self.seq)

    def _on_timer(self) -> None:
        self._timer = None
        if self._pending:
            self._flush_text()

    def _on_soon(self) -> None:
        self._soon = False
        self.flush()

    def _flush_text(self) -> None:
        """Hand out now, and hold back what comes within the next interval."""
        self.flush()
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._pace.next_flush(loop.time()), self._on_timer)

    def _delta(self, event: ChatEvent) -> None:
        delta = event.assistant_stream_delta
        self._note(self._streams.get((event.entry_id, event.task_id)), delta.channel, delta.text)
        self._seal()
        last = self._pending[-1] if self._pending else None
        if last is not None and _continues(last, event):
            last.assistant_stream_delta.text += delta.text
        else:
            self._pending.append(event)
        if self._timer is None:
            self._flush_text()

    def _note(self, state: StreamState | None, channel: StreamChannel, text: str) -> None:
        """Keep the text for readers who come later, and for checkpoints."""
        if state is not None:
            (state.thinking if channel == _THINKING else state.text).append(text)
            state.dirty = True

    def _seal(self) -> None:
        """The delta that grew takes its text."""
        if self._tail is not None:
            self._tail.assistant_stream_delta.text = "".join(self._tail_text)
            self._tail = None
            self._tail_text.clear()

    def _snapshot(self, key: tuple[str, str], state: StreamState) -> ChatEvent:
        event = ChatEvent(
            session_id=self._session_id,
            turn_id=state.turn_id,
            entry_id=key[0],
            task_id=key[1],
            assistant_stream_start=AssistantStreamStart(
                attempt=state.attempt,
                text="".join(state.text),
                thinking="".join(state.thinking),
                model=state.model,
            ),
        )
        event.time.GetCurrentTime()
        return event


def _continues(last: ChatEvent, event: ChatEvent) -> bool:
    if last.WhichOneof("event") != "assistant_stream_delta":
        return False
    before: AssistantStreamDelta = last.assistant_stream_delta
    after: AssistantStreamDelta = event.assistant_stream_delta
    return (
        last.entry_id == event.entry_id
        and last.task_id == event.task_id
        and before.channel == after.channel
        and before.attempt == after.attempt
    )
