"""A run's events on their way to its caller: numbered, bounded, and kept for a caller who takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1.runner_service_pb2 import RunAttached, RunEvent
from netaclaw_agent.usage import add_usage
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.limits import Limits

_LIVE = ("stream_delta", "tool_output")
_URGENT = ("proxy_tool_call", "ended")
"""What the worker, or the next one, waits for; what comes before it in its run goes along."""


class EventStream:
    """Has one reader at most. Deltas and tools' output are for the reader of the moment; everything else is kept for a
    later one.

    A message that is sent again replaces its earlier version among the kept ones and those that still wait, so numbers
    may skip.
    """

    def __init__(self, limits: Limits) -> None:
        self._queued_bytes = limits.queued_bytes
        self._retained_bytes = limits.retained_bytes
        self._last_no = 0
        self._retained: dict[int, tuple[RunEvent, int]] = {}
        """Events by number, with their sizes in bytes."""
        self._retained_size = 0
        self._dropped_no = 0
        self._dropped_usage = Usage()
        self._message_no: dict[int, int] = {}
        self._reader: Reader | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.ended = False

    @property
    def read(self) -> bool:
        """Whether there is a reader."""
        return self._reader is not None

    def add(self, event: RunEvent) -> None:
        """Number the event and pass it on. After `ended` nothing is taken any more."""
        if self.ended:
            return
        self._last_no += 1
        event.event_no = self._last_no
        kind = event.WhichOneof("event")
        size = event.ByteSize()
        if kind not in _LIVE:
            self._retain(event, size)
        self.ended = kind == "ended"
        if self._reader is not None:
            self._reader.put(event, size)
            self._room_changed()

    async def room(self) -> None:
        """Wait while a reader is far behind. Without a reader there is always room: what is kept is bounded."""
        await self._room.wait()

    def open(self) -> Reader:
        """Become the first reader."""
        self._reader = Reader(self)
        return self._reader

    def take_over(self, after_no: int, catch_up: Callable[[int], Iterable[RunEvent]]) -> Reader:
        """Become the reader, from the event after `after_no` on, as far as they are held; a reader before is displaced.

        `attached` goes first, and what `catch_up` answers follows the held events of a run that goes on: it is given
        the number of the last one that was dropped, or 0. Raises OUT_OF_RANGE when `after_no` is beyond the last one.
        """
        if not 0 <= after_no <= self._last_no:
            raise NetaclawError(
                Reason.REASON_SEQ_OUT_OF_RANGE, "the run has no such event", metadata={"snapshot_seq": "0"}
            )
        if self._reader is not None:
            self._reader.displace()
        held_from_no = max(after_no, self._dropped_no) + 1
        reader = Reader(self)
        before = self._usage_before(held_from_no)
        reader.put(RunEvent(attached=RunAttached(held_from_no=held_from_no, usage_before=before)), 0)
        for number, (event, size) in self._retained.items():
            if number >= held_from_no:
                reader.put(event, size)
        self._reader = reader
        if not self.ended:
            for event in catch_up(self._dropped_no):
                self.add(event)
        self._room_changed()
        return reader

    def close(self, reader: Reader) -> bool:
        """The reader is gone. False when another one has taken its place before."""
        if self._reader is not reader:
            return False
        self._reader = None
        self._room_changed()
        return True

    def taken(self, reader: Reader) -> None:
        """The reader has taken a batch."""
        if self._reader is reader:
            self._room_changed()

    def _usage_before(self, number: int) -> Usage:
        """Of the model calls that were told of before an event."""
        usage = Usage()
        usage.CopyFrom(self._dropped_usage)
        for each, (event, _) in self._retained.items():
            if each < number and event.HasField("usage"):
                add_usage(usage, event.usage.usage)
        return usage

    def _retain(self, event: RunEvent, size: int) -> None:
        if event.HasField("message"):
            earlier_no = self._message_no.get(event.message.n, 0)
            self._forget(earlier_no)
            if self._reader is not None and earlier_no:
                self._reader.withdraw(earlier_no)
            self._message_no[event.message.n] = event.event_no
        self._retained[event.event_no] = event, size
        self._retained_size += size
        while self._retained_size > self._retained_bytes and len(self._retained) > 1:
            oldest = next(iter(self._retained))
            dropped = self._forget(oldest)
            if dropped is not None and dropped.HasField("usage"):
                add_usage(self._dropped_usage, dropped.usage.usage)
            self._dropped_no = oldest

    def _forget(self, number: int) -> RunEvent | None:
        event, size = self._retained.pop(number, (None, 0))
        self._retained_size -= size
        return event

    def _room_changed(self) -> None:
        if self._reader is None or self._reader.size <= self._queued_bytes:
            self._room.set()
        else:
            self._room.clear()


class Reader:
    """Takes a run's events in batches. `on_ready` is told when there is something to take, until it is taken."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._events: dict[int, tuple[RunEvent, int]] = {}
        """By number, in order, with their sizes in bytes; `attached` has the number 0."""
        self.on_ready: Callable[[], None] = lambda: None
        self.displaced = False
        """Another reader has taken over: nothing more is to be read here."""
        self.finished = False
        """The last event was taken."""
        self.urgent = False
        """Somebody waits for one of the events."""
        self.size = 0
        """Bytes that wait to be taken."""

    @property
    def ready(self) -> bool:
        """Whether there is something to take, or to say."""
        return bool(self._events) or self.displaced

    def put(self, event: RunEvent, size: int) -> None:
        """Queue an event of so many bytes."""
        self._events[event.event_no] = event, size
        self.size += size
        self.urgent = self.urgent or event.WhichOneof("event") in _URGENT
        self.on_ready()

    def withdraw(self, number: int) -> None:
        """An event that waits is told of anew by a later one."""
        _, size = self._events.pop(number, (None, 0))
        self.size -= size

    def displace(self) -> None:
        """Another reader takes over."""
        self.displaced = self.urgent = True
        self.on_ready()

    def take(self, share: int, room: int) -> list[RunEvent]:
        """The next events that fit into the share; the first one, if it fits into the room. Sizes in bytes."""
        batch: list[RunEvent] = []
        left = room
        for event, size in self._events.values():
            if size > left:
                break
            batch.append(event)
            self.size -= size
            room -= size
            share -= size
            left = min(share, room)
        for event in batch:
            del self._events[event.event_no]
        self.urgent = self.displaced
        self.finished = bool(batch) and batch[-1].HasField("ended")
        self._stream.taken(self)
        return batch
