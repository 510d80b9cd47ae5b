"""How many requests a caller may make: token buckets per address and per owner, the same for every way in."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError

_MAX_REMEMBERED = 16_384
"""Buckets; the one that was used longest ago is forgotten, and with it at most one burst."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RequestLimit:
    """So many requests a second, with bursts of twice as many; for each of many names."""

    def __init__(self, limit: str, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._per_second = per_second
        self._burst = 2 * per_second
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str) -> None:
        """Note a request. Raises LIMIT_REACHED with the limit's name and a retry delay; 0 a second is no limit."""
        if not self._per_second or not name:
            return
        now = self._clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._burst, now)
            if len(self._buckets) > _MAX_REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            raise NetaclawError(
                Reason.REASON_LIMIT_REACHED,
                f"the limit {self._limit} of {self._per_second:g} is reached; try again later",
                metadata={"limit": self._limit, "value": f"{self._per_second:g}"},
                retry_after=(1 - bucket.tokens) / self._per_second,
            )
        bucket.tokens -= 1
