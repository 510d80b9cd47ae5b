"""Places for workers: never more than allowed, sessions in turn, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.places import Place, Places


def held(places: list[Place]) -> list[str]:
    return [place.session_id for place in places if place.granted.is_set() and not place.given_back]


def test_sessions_take_turns_however_many_one_of_them_asks_for() -> None:
    places = Places(1, 100)
    first = places.ask("greedy")
    asked = [places.ask(session) for session in ["greedy"] * 4 + ["modest", "shy"] + ["modest"]]
    order = []
    current = first
    while waiting := [place for place in asked if not place.given_back]:
        current.give_back()
        [current] = [place for place in waiting if place.granted.is_set() and place is not current]
        order.append(current.session_id)
        asked.remove(current)
    assert order == ["greedy", "modest", "shy", "greedy", "modest", "greedy", "greedy"]


def test_a_place_that_is_given_up_while_it_waits_is_skipped() -> None:
    places = Places(1, 2)
    first, second, third = (places.ask(session) for session in "abc")
    second.give_back()
    second.give_back()
    assert places.waiting == 1
    first.give_back()
    assert third.granted.is_set()
    assert not second.granted.is_set()


@pytest.mark.parametrize(("waiting", "limit"), [(0, "max_workers"), (2, "max_waiting")])
def test_beyond_the_bound_one_is_refused_by_the_limits_name(waiting: int, limit: str) -> None:
    places = Places(1, waiting)
    for _ in range(1 + waiting):
        places.ask("a")
    with pytest.raises(NetaclawError) as caught:
        places.ask("b")
    assert caught.value.reason == Reason.REASON_LIMIT_REACHED
    assert caught.value.metadata["limit"] == limit


@given(
    most=st.integers(1, 3),
    waiting=st.integers(0, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=60),
)
def test_places_are_never_lost_and_never_too_many(most: int, waiting: int, steps: list[tuple[bool, int]]) -> None:
    places = Places(most, waiting)
    asked: list[Place] = []
    for asks, number in steps:
        if asks:
            try:
                asked.append(places.ask(str(number % 3)))
            except NetaclawError:
                assert places.waiting == waiting
        elif asked:
            asked.pop(number % len(asked)).give_back()
        assert len(held(asked)) == min(most, len(asked))  # as many as can be, and no more
        assert places.waiting == len(asked) - len(held(asked))
    for place in asked:
        place.give_back()
    assert places.ask("again").granted.is_set()
