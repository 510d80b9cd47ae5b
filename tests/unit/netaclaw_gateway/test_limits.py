"""Token buckets: what is let through, what is refused, and when to try again."""

from __future__ import annotations

import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_gateway.limits import RequestLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taken(limit: RequestLimit, name: str, tries: int) -> int:
    """How many of some requests are let through."""
    through = 0
    for _ in range(tries):
        try:
            limit.take(name)
        except NetaclawError:
            continue
        through += 1
    return through


def test_a_burst_of_twice_the_rate_is_let_through_and_then_the_rate() -> None:
    clock = Clock()
    limit = RequestLimit("requests", 10, clock)
    assert taken(limit, "a", 50) == 20
    clock.now = 1.0
    assert taken(limit, "a", 50) == 10
    clock.now = 100.0
    assert taken(limit, "a", 50) == 20


def test_names_do_not_share() -> None:
    limit = RequestLimit("requests", 1, Clock())
    assert (taken(limit, "a", 5), taken(limit, "b", 5)) == (2, 2)


def test_a_refusal_names_the_limit_and_when_to_try_again() -> None:
    limit = RequestLimit("requests", 4, Clock())
    taken(limit, "a", 8)
    with pytest.raises(NetaclawError) as caught:
        limit.take("a")
    assert (caught.value.reason, caught.value.retry_after) == (Reason.REASON_LIMIT_REACHED, 0.25)
    assert caught.value.metadata == {"limit": "requests", "value": "4"}


def test_zero_is_no_limit_and_a_call_without_a_name_is_not_counted() -> None:
    assert taken(RequestLimit("requests", 0, Clock()), "a", 1000) == 1000
    assert taken(RequestLimit("requests", 1, Clock()), "", 1000) == 1000


def test_memory_is_bounded_whatever_names_come() -> None:
    limit = RequestLimit("requests", 1, Clock())
    for n in range(40_000):
        limit.take(str(n))
    assert len(limit._buckets) == 16_384
