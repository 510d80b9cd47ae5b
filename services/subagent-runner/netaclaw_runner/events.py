"""A run's events on their way to its caller: numbered, bounded, and kept for a caller who takes over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.runner_service_pb2 import RunEvent
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.limits import Limits

_LIVE = ("stream_delta", "tool_output")


class EventStream:
    """Has one reader at most. Deltas and tools' output are for the reader of the moment; everything else is kept for a
    later one.

    A message that is sent again replaces its earlier version among the kept ones, so numbers may skip on a
    take-over.
    """

    def __init__(self, limits: Limits) -> None:
        self._queued_bytes = limits.queued_bytes
        self._retained_bytes = limits.retained_bytes
        self._response_bytes = limits.response_bytes
        self._last_no = 0
        self._retained: dict[int, RunEvent] = {}
        self._retained_size = 0
        self._dropped_no = 0
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
        if kind not in _LIVE:
            self._retain(event)
        self.ended = kind == "ended"
        if self._reader is not None:
            self._reader.put(event)
            self._room_changed()

    async def room(self) -> None:
        """Wait while a reader is far behind. Without a reader there is always room: what is kept is bounded."""
        await self._room.wait()

    def open(self, after_no: int, live: Iterable[RunEvent] = ()) -> Reader:
        """Become the reader, from the event after `after_no` on; a reader before is ended with STALE_GENERATION.

        `live` follows the kept events: deltas with the text so far. Raises OUT_OF_RANGE when events after `after_no`
        are no longer kept, or when it is beyond the last one.
        """
        if not self._dropped_no <= after_no <= self._last_no:
            raise NetaclawError(
                Reason.REASON_SEQ_OUT_OF_RANGE, "the run does not hold these events", metadata={"snapshot_seq": "0"}
            )
        if self._reader is not None:
            self._reader.displace()
        reader = Reader(self, self._response_bytes)
        for number, event in self._retained.items():
            if number > after_no:
                reader.put(event)
        self._reader = reader
        if not self.ended:
            for event in live:
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

    def _retain(self, event: RunEvent) -> None:
        if event.WhichOneof("event") == "message":
            n = event.message.n
            self._forget(self._message_no.get(n, 0))
            self._message_no[n] = event.event_no
        self._retained[event.event_no] = event
        self._retained_size += event.ByteSize()
        while self._retained_size > self._retained_bytes and len(self._retained) > 1:
            oldest = next(iter(self._retained))
            self._forget(oldest)
            self._dropped_no = oldest

    def _forget(self, number: int) -> None:
        event = self._retained.pop(number, None)
        if event is not None:
            self._retained_size -= event.ByteSize()

    def _room_changed(self) -> None:
        if self._reader is None or self._reader.size <= self._queued_bytes:
            self._room.set()
        else:
            self._room.clear()


class Reader:
    """Takes a run's events in batches."""

    def __init__(self, stream: EventStream, response_bytes: int) -> None:
        self._stream = stream
        self._response_bytes = response_bytes
        self._events: deque[RunEvent] = deque()
        self._arrived = asyncio.Event()
        self._finished = False
        self.displaced = False
        """Another reader has taken over."""
        self.size = 0
        """Bytes that wait to be taken."""

    def put(self, event: RunEvent) -> None:
        """Queue an event."""
        self._events.append(event)
        self.size += event.ByteSize()
        self._arrived.set()

    def displace(self) -> None:
        """Another reader takes over."""
        self.displaced = True
        self._arrived.set()

    async def take(self) -> list[RunEvent]:
        """The next events, at least one; empty after the last. Raises STALE_GENERATION when displaced."""
        if self._finished:
            return []
        while not self._events or self.displaced:
            if self.displaced:
                raise NetaclawError(Reason.REASON_STALE_GENERATION, "a later owner has attached to this run")
            self._arrived.clear()
            await self._arrived.wait()
        batch: list[RunEvent] = []
        size = 0
        while self._events and (not batch or size + self._events[0].ByteSize() <= self._response_bytes):
            event = self._events.popleft()
            size += event.ByteSize()
            batch.append(event)
        self.size -= size
        self._finished = batch[-1].WhichOneof("event") == "ended"
        self._stream.taken(self)
        return batch
