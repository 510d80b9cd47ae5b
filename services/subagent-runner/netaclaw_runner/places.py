"""Places for workers, and the queue for them: bounded, and fair between sessions."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError


class Place:
    """A place that was asked for: held, waited for, or given back."""

    def __init__(self, places: Places, session_id: str) -> None:
        self._places = places
        self.session_id = session_id
        self.granted = asyncio.Event()
        """Set when it is held."""
        self.given_back = False

    def give_back(self) -> None:
        """Let the next one have it; one that waits leaves the queue. Idempotent."""
        if not self.given_back:
            self.given_back = True
            self._places.take_back(self)


class Places:
    """Grants up to `most` places at once. Sessions take turns; within a session the first to ask is the first."""

    def __init__(self, most: int, most_waiting: int) -> None:
        self._most = most
        self._most_waiting = most_waiting
        self._held = 0
        self._waiting = 0
        self._queues: OrderedDict[str, deque[Place]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._waiting

    def ask(self, session_id: str) -> Place:
        """Ask for a place, which may be granted at once. Raises LIMIT_REACHED when too many wait."""
        place = Place(self, session_id)
        if self._held < self._most:  # then nobody waits
            self._held += 1
            place.granted.set()
        elif self._waiting < self._most_waiting:
            self._waiting += 1
            self._queues.setdefault(session_id, deque()).append(place)
        elif self._most_waiting:
            raise limit_reached("max_waiting", self._most_waiting)
        else:
            raise limit_reached("max_workers", self._most)
        return place

    def take_back(self, place: Place) -> None:
        """A place is free, or a waiting one is given up. Called by the place."""
        if place.granted.is_set():
            self._held -= 1
            self._grant()
            return
        queue = self._queues[place.session_id]
        queue.remove(place)
        self._waiting -= 1
        if not queue:
            del self._queues[place.session_id]

    def _grant(self) -> None:
        if not self._queues:
            return
        session_id, queue = self._queues.popitem(last=False)
        place = queue.popleft()
        if queue:
            self._queues[session_id] = queue  # behind all other sessions
        self._waiting -= 1
        self._held += 1
        place.granted.set()


def limit_reached(limit: str, value: int) -> NetaclawError:
    """RESOURCE_EXHAUSTED that names the limit."""
    return NetaclawError(
        Reason.REASON_LIMIT_REACHED,
        f"{limit} is reached: {value}",
        metadata={"limit": limit, "value": str(value)},
        retry_after=1.0,
    )
