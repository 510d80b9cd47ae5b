"""Places for workers, and the queue for them: bounded, and fair between owners and between an owner's sessions."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """How many places are held at once, and by whom at most; how many may wait."""

    workers: int
    waiting: int
    """0: nobody waits, one that cannot start at once is refused."""
    per_session: int = 0
    """0: as many as there are."""
    per_owner: int = 0
    """0: as many as there are."""


class Place:
    """A place that was asked for: held, waited for, or given back."""

    def __init__(self, places: Places, owner_id: str, session_id: str) -> None:
        self._places = places
        self.owner_id = owner_id
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
    """Grants places within the limits. Owners take turns, and an owner's sessions; in a session the first is the first.

    Who waits could not be granted a place at the moment: one that is over a limit of its own holds nobody else up.
    """

    def __init__(self, limits: PlaceLimits) -> None:
        self._limits = limits
        self._held = 0
        self._held_by_session: Counter[str] = Counter()
        self._held_by_owner: Counter[str] = Counter()
        self._waiting = 0
        self._queues: OrderedDict[str, OrderedDict[str, deque[Place]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._waiting

    def ask(self, owner_id: str, session_id: str) -> Place:
        """Ask for a place, which may be granted at once. Raises LIMIT_REACHED when it would have to wait and may not.

        Sessions belong to one owner each.
        """
        place = Place(self, owner_id, session_id)
        full = self._full_for(owner_id, session_id)
        if not full:
            self._grant(place)
        elif self._waiting < self._limits.waiting:
            self._waiting += 1
            self._queues.setdefault(owner_id, OrderedDict()).setdefault(session_id, deque()).append(place)
        elif self._limits.waiting:
            raise limit_reached("max_waiting", self._limits.waiting)
        else:
            raise limit_reached(*full)
        return place

    def take_back(self, place: Place) -> None:
        """A place is free, or a waiting one is given up. Called by the place."""
        if not place.granted.is_set():
            self._queues[place.owner_id][place.session_id].remove(place)
            self._left_queue(place)
            return
        self._held -= 1
        for held, key in ((self._held_by_session, place.session_id), (self._held_by_owner, place.owner_id)):
            held[key] -= 1
            if not held[key]:
                del held[key]
        while (following := self._next()) is not None:
            self._grant(following)

    def _full_for(self, owner_id: str, session_id: str) -> tuple[str, int] | None:
        """The limit that keeps the session from another place; None where it may have one."""
        limits = self._limits
        for name, most, held in (
            ("max_workers", limits.workers, self._held),
            ("max_per_owner", limits.per_owner, self._held_by_owner[owner_id]),
            ("max_per_session", limits.per_session, self._held_by_session[session_id]),
        ):
            if most and held >= most:
                return name, most
        return None

    def _next(self) -> Place | None:
        """Who waits and may have a place, taken out of the queue; the owner and session go behind all others."""
        for owner_id, sessions in self._queues.items():
            for session_id, queue in sessions.items():
                if self._full_for(owner_id, session_id):
                    continue
                place = queue.popleft()
                sessions.move_to_end(session_id)
                self._queues.move_to_end(owner_id)
                self._left_queue(place)
                return place
        return None

    def _grant(self, place: Place) -> None:
        self._held += 1
        self._held_by_session[place.session_id] += 1
        self._held_by_owner[place.owner_id] += 1
        place.granted.set()

    def _left_queue(self, place: Place) -> None:
        self._waiting -= 1
        sessions = self._queues[place.owner_id]
        if not sessions[place.session_id]:
            del sessions[place.session_id]
        if not sessions:
            del self._queues[place.owner_id]


def limit_reached(limit: str, value: int) -> NetaclawError:
    """RESOURCE_EXHAUSTED that names the limit."""
    return NetaclawError(
        Reason.REASON_LIMIT_REACHED,
        f"{limit} is reached: {value}",
        metadata={"limit": limit, "value": str(value)},
        retry_after=1.0,
    )
