"""Places for workers: never more than allowed, sessions in turn, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.places import Place, PlaceLimits, Places


def test_sessions_take_turns_however_many_one_of_them_asks_for() -> None:
    places = Places(PlaceLimits(1, 100))
    first = places.ask("owner", "greedy")
    asked = [places.ask("owner", session) for session in ["greedy"] * 4 + ["modest", "shy"] + ["modest"]]
    order = []
    current = first
    while waiting := [place for place in asked if not place.given_back]:
        current.give_back()
        [current] = [place for place in waiting if place.granted.is_set() and place is not current]
        order.append(current.session_id)
        asked.remove(current)
    assert order == ["greedy", "modest", "shy", "greedy", "modest", "greedy", "greedy"]


def test_a_place_that_is_given_up_while_it_waits_is_skipped() -> None:
    places = Places(PlaceLimits(1, 2))
    first, second, third = (places.ask("owner", session) for session in "abc")
    second.give_back()
    second.give_back()
    assert places.waiting == 1
    first.give_back()
    assert third.granted.is_set()
    assert not second.granted.is_set()


@pytest.mark.parametrize(("waiting", "limit"), [(0, "max_workers"), (2, "max_waiting")])
def test_beyond_the_bound_one_is_refused_by_the_limits_name(waiting: int, limit: str) -> None:
    places = Places(PlaceLimits(1, waiting))
    for _ in range(1 + waiting):
        places.ask("owner", "a")
    with pytest.raises(NetaclawError) as caught:
        places.ask("owner", "b")
    assert caught.value.reason == Reason.REASON_LIMIT_REACHED
    assert caught.value.metadata["limit"] == limit


def test_owners_take_turns_however_many_sessions_one_of_them_has() -> None:
    places = Places(PlaceLimits(1, 100))
    current = places.ask("greedy", "g0")
    asked = [places.ask("greedy", f"g{number}") for number in range(1, 5)]
    asked += [places.ask("modest", "m1"), places.ask("modest", "m1")]
    order = []
    while asked:
        current.give_back()
        [current] = [place for place in asked if place.granted.is_set()]
        order.append(current.session_id)
        asked.remove(current)
    assert order == ["g1", "m1", "g2", "m1", "g3", "g4"]


@pytest.mark.parametrize(
    ("limits", "limit"),
    [(PlaceLimits(9, 0, per_session=1), "max_per_session"), (PlaceLimits(9, 0, per_owner=1), "max_per_owner")],
)
def test_where_nobody_may_wait_the_limit_that_is_reached_is_named(limits: PlaceLimits, limit: str) -> None:
    places = Places(limits)
    places.ask("owner", "a")
    with pytest.raises(NetaclawError) as caught:
        places.ask("owner", "a")
    assert (caught.value.metadata["limit"], caught.value.metadata["value"]) == (limit, "1")


@given(
    limits=st.builds(PlaceLimits, st.integers(1, 4), st.integers(0, 4), st.integers(0, 2), st.integers(0, 3)),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60),
)
def test_places_are_never_lost_and_never_too_many(limits: PlaceLimits, steps: list[tuple[bool, int]]) -> None:
    places = Places(limits)
    asked: list[Place] = []

    def could_have(owner: str, session: str) -> bool:
        holding = [place for place in asked if place.granted.is_set()]
        mine = [place for place in holding if place.owner_id == owner]
        here = [place for place in mine if place.session_id == session]
        return (
            len(holding) < limits.workers
            and (not limits.per_owner or len(mine) < limits.per_owner)
            and (not limits.per_session or len(here) < limits.per_session)
        )

    for asks, number in steps:
        owner, session = str(number % 2), f"{number % 2}-{number % 3}"
        if asks:
            free = could_have(owner, session)
            try:
                place = places.ask(owner, session)
            except NetaclawError:
                assert not free
                assert places.waiting == limits.waiting
                continue
            assert place.granted.is_set() == free
            asked.append(place)
        elif asked:
            asked.pop(number % len(asked)).give_back()
        waiting = [place for place in asked if not place.granted.is_set()]
        assert places.waiting == len(waiting)
        assert len(asked) - len(waiting) <= limits.workers
        assert not any(could_have(place.owner_id, place.session_id) for place in waiting)
    for place in asked:
        place.give_back()
    assert places.waiting == 0
    assert places.ask("again", "again").granted.is_set()
