"""How much a caller may have open, and the end of what a revoked key has opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.identity_service_pb2 import CheckKeysRequest, CheckKeysResponse
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.admission import Admission, Limits


class Store:
    """Knows which keys are in force."""

    def __init__(self) -> None:
        self.valid = {"k1", "k2"}
        self.asked: list[list[str]] = []
        self.asked_once = asyncio.Event()

    async def CheckKeys(self, request: CheckKeysRequest, **options: Any) -> CheckKeysResponse:
        self.asked.append(list(request.key_ids))
        self.asked_once.set()
        return CheckKeysResponse(valid_key_ids=[key for key in request.key_ids if key in self.valid])


class Sessions:
    """Live sessions, as far as they are asked for."""

    def __init__(self) -> None:
        self.live: list[Any] = []

    def running_turns(self, owner_id: str) -> int:
        return sum(1 for each in self.live if each.owner_id == owner_id and each.busy)

    def get(self, session_id: str, owner_id: str) -> Any:
        return next((each for each in self.live if each.session_id == session_id), None)


class Rig:
    def __init__(self, **limits: Any) -> None:
        self.store, self.sessions = Store(), Sessions()
        store: Any = self.store
        sessions: Any = self.sessions
        self.admission = Admission(store, sessions, Limits(**limits))
        self.ended: list[Reason | str] = []

    async def stream(self, owner: str, *, key: str = "", address: str = "") -> None:
        """A stream that stays open until it is ended."""
        metadata = {calls.OWNER_KEY: owner, calls.KEY_KEY: key, calls.ADDRESS_KEY: address}
        calls.begin(metadata.items())
        try:
            with self.admission.stream():
                await asyncio.Event().wait()
        except NetaclawError as error:
            self.ended.append(error.reason)
        except asyncio.CancelledError:
            self.ended.append("left")
            raise

    async def open(self, *streams: dict[str, str]) -> list[asyncio.Task[None]]:
        """Streams that run, unless they were refused."""
        tasks = [asyncio.create_task(self.stream(**each)) for each in streams]
        await asyncio.sleep(0)  # each comes to its wait
        return tasks


@pytest.fixture
async def tasks() -> AsyncIterator[list[asyncio.Task[None]]]:
    opened: list[asyncio.Task[None]] = []
    yield opened
    for task in opened:
        task.cancel()
    await asyncio.gather(*opened, return_exceptions=True)


async def test_streams_are_counted_per_owner_and_given_back(tasks: list[asyncio.Task[None]]) -> None:
    rig = Rig(streams=2)
    tasks += await rig.open({"owner": "ann"}, {"owner": "ann"}, {"owner": "ann"}, {"owner": "bob"})
    assert rig.ended == [Reason.REASON_LIMIT_REACHED]
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    tasks += await rig.open({"owner": "ann"})
    assert rig.ended == [Reason.REASON_LIMIT_REACHED, "left"]


async def test_streams_are_counted_per_address_too(tasks: list[asyncio.Task[None]]) -> None:
    rig = Rig(streams=2)
    opened = ({"owner": f"o{n}", "address": "10.0.0.1"} for n in range(3))
    tasks += await rig.open(*opened, {"owner": "o3", "address": "10.0.0.2"})
    assert rig.ended == [Reason.REASON_LIMIT_REACHED]


async def test_a_limit_is_named_with_a_time_to_try_again() -> None:
    rig = Rig(streams=0)
    calls.begin({calls.OWNER_KEY: "ann"}.items())
    with pytest.raises(NetaclawError) as caught, rig.admission.stream():
        pass
    assert caught.value.metadata == {"limit": "open_streams_per_owner", "value": "0"}
    assert caught.value.retry_after == 1.0


async def test_streams_of_a_revoked_key_end_and_no_others(tasks: list[asyncio.Task[None]]) -> None:
    rig = Rig(key_check_s=0.01)
    async with rig.admission:
        tasks += await rig.open({"owner": "ann", "key": "k1"}, {"owner": "ann", "key": "k2"}, {"owner": "local"})
        await asyncio.wait_for(rig.store.asked_once.wait(), 5)
        assert rig.ended == []
        rig.store.valid = {"k2"}
        await asyncio.wait_for(asyncio.shield(tasks[0]), 5)
        assert rig.ended == [Reason.REASON_UNAUTHENTICATED]
        assert rig.store.asked[0] == ["k1", "k2"]


async def test_running_turns_are_limited_but_not_what_joins_one() -> None:
    rig = Rig(turns=2)
    rig.sessions.live = [SimpleNamespace(session_id=f"s{n}", owner_id="ann", busy=True) for n in range(2)]
    with pytest.raises(NetaclawError) as caught:
        rig.admission.turn("ann", "s9")
    assert caught.value.metadata["limit"] == "running_turns_per_owner"
    rig.admission.turn("ann", "s1")
    rig.admission.turn("bob", "")
