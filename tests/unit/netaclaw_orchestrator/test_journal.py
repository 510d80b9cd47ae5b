"""The session's one writer: order, and what a waiter that goes away leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from netaclaw.store.v1.journal_service_pb2 import (
    AppendRequest,
    AppendResponse,
    LeafWrite,
    Write,
)
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import MAX_BATCH_BYTES, MAX_BATCH_WRITES, JournalWriter, Row
from netaclaw_orchestrator.publisher import Publisher


class Store:
    """The Append stream of a store that answers when it is let."""

    def __init__(self) -> None:
        self.requests: list[AppendRequest] = []
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()

    def Append(self) -> Any:
        return self

    async def write(self, request: AppendRequest) -> None:
        self.requests.append(request)
        self.asked.set()

    async def read(self) -> AppendResponse:
        await self.opened.wait()
        return AppendResponse(append_no=self.requests[-1].append_no)

    def cancel(self) -> None:
        return


def writer(store: Store) -> JournalWriter:
    stub: Any = store
    return JournalWriter(stub, Publisher("s", lambda seq: None), owner_id="o", session_id="s", generation=1)


def leaf(name: str) -> Write:
    return Write(leaf=LeafWrite(leaf_entry_id=name))


@pytest.mark.parametrize("posted", [True, False])
async def test_a_waiter_that_is_cancelled_takes_nothing_back_and_stops_nothing(posted: bool) -> None:
    store = Store()
    journal = writer(store)

    async def wait() -> None:
        if posted:
            await journal.post(leaf("one"))
        else:
            await journal.append(leaf("one"))

    waiting = asyncio.create_task(wait())
    await store.asked.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    after = journal.post(leaf("two"))
    store.opened.set()
    await after

    assert [write.leaf.leaf_entry_id for each in store.requests for write in each.writes] == ["one", "two"]
    await journal.close()


async def test_a_row_goes_once_as_it_stands_when_its_append_is_sent() -> None:
    store = Store()
    journal = writer(store)
    state = "queued"
    rows = [Row(lambda: leaf(state)) for _ in range(2)]
    journal.post(leaf("in flight"))
    await store.asked.wait()
    state = "posted"
    first = journal.post(leaf("one"), rows=rows[:1])
    second = journal.post(leaf("two"), rows=rows)
    state = "sent"
    store.opened.set()
    await first
    await second

    assert [write.leaf.leaf_entry_id for write in store.requests[1].writes] == ["sent", "one", "sent", "two"]
    assert all(row.sent for row in rows)
    await journal.close()


async def test_appends_that_do_not_fit_into_one_message_keep_their_order_and_their_rows() -> None:
    store = Store()
    journal = writer(store)
    store.opened.set()
    row = Row(lambda: leaf("row"))
    journal.post(*(leaf(str(number)) for number in range(MAX_BATCH_WRITES)))
    journal.post(rows=[row])
    await journal.post(rows=[row])
    await journal.append(leaf("last"))

    assert [len(request.writes) for request in store.requests] == [MAX_BATCH_WRITES, 1, 1]
    assert [request.append_no for request in store.requests] == [1, 2, 3]
    await journal.close()


@pytest.mark.parametrize("sealed", [False, True])
async def test_rows_of_one_append_that_is_too_large_for_a_message_go_ahead_of_what_tells_of_them(sealed: bool) -> None:
    store = Store()
    journal = writer(store)
    journal.post(leaf("in flight"))
    await store.asked.wait()
    rows = [Row(lambda name=name: leaf(name * 400_000)) for name in "abcde"]  # type: ignore[misc]  # one use
    journal.post(leaf("step"), rows=rows)
    last = journal.post(leaf("last"))
    if sealed:
        journal.seal()
    store.opened.set()
    await last

    sent = [[write.leaf.leaf_entry_id[:4] for write in request.writes] for request in store.requests]
    assert sent == [["in f"], ["aaaa", "bbbb"], ["cccc", "dddd"], ["eeee", "step", "last"]]
    assert all(request.ByteSize() <= MAX_BATCH_BYTES for request in store.requests)
    await journal.close()


async def test_a_row_that_waits_when_the_session_is_given_away_tells_nothing_of_what_comes_after() -> None:
    store = Store()
    journal = writer(store)
    state = "running"
    journal.post(leaf("in flight"))
    await store.asked.wait()
    journal.post(leaf("step"), rows=[Row(lambda: leaf(state))])
    journal.seal()
    state = "cancelled, for this owner leaves it"
    with pytest.raises(NetaclawError):
        await journal.post(rows=[Row(lambda: leaf(state))])
    store.opened.set()
    await journal.close()

    assert [write.leaf.leaf_entry_id for each in store.requests for write in each.writes] == [
        "in flight",
        "running",
        "step",
    ]
