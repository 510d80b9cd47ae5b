"""Retention: old events go, in order and in small steps; the tree stays, and nobody is left in silence."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import grpc
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_store.database import Database, close_pool, open_pool
from netaclaw_store.retention import Retention, RetentionPolicy
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import (
    OWNER,
    Store,
    Turn,
    entry_write,
    metadata,
    refused,
    running_store,
    text,
)

DAY = 86_400.0
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535))
"""A reader that is sent no more than this ahead, however fast the machine is."""


@asynccontextmanager
async def _retention(store: Store, *, days: float = 0, count: int = 0) -> AsyncIterator[Retention]:
    """Retention whose rounds the test calls."""
    pool = await open_pool(store.url)
    try:
        yield Retention(Database(store.url, pool), RetentionPolicy(days * DAY, count, interval_seconds=3600))
    finally:
        await close_pool(pool)


async def _ended_turn(store: Store, updates: int = 6) -> Turn:
    turn = await store.new_turn()
    await turn.append(*(entry_write(turn.assistant(text(f"answer {n}"))) for n in range(updates)))
    await turn.finish()
    return turn


async def _age(store: Store, session_id: str, up_to_seq: int, days: int) -> None:
    await store.query(
        "UPDATE event SET time = now() - make_interval(days => $3) WHERE session_id = $1 AND seq <= $2",
        *(session_id, up_to_seq, days),
    )


async def test_events_beyond_their_age_go_and_the_rest_is_followed_without_a_gap(store: Store) -> None:
    turn = await _ended_turn(store)
    everything = await store.replay(turn.session_id)
    tree = await store.tree(turn.session_id)
    await _age(store, turn.session_id, 7, days=31)
    async with _retention(store, days=30) as retention:
        assert await retention.round() == 7
        assert await retention.round() == 0
    assert await store.replay(turn.session_id, after_seq=7) == everything[7:]
    assert await store.tree(turn.session_id) == tree


async def test_a_seq_before_retention_names_a_snapshot_that_leads_on(store: Store) -> None:
    turn = await _ended_turn(store)
    async with _retention(store, count=3) as retention:
        await retention.round()
    last = turn.events[-1].seq
    for trimmed in (0, last - 4):
        async with refused(Reason.REASON_SEQ_OUT_OF_RANGE) as errors:
            await store.replay(turn.session_id, after_seq=trimmed)
        assert errors[0].metadata == {"snapshot_seq": str(last)}
    page = await store.sessions.GetSessionTree(p.GetSessionTreeRequest(session_id=turn.session_id), metadata=metadata())
    assert page.session.seq == last
    assert await store.replay(turn.session_id, after_seq=page.session.seq) == []


async def test_each_session_keeps_its_newest_events(store: Store) -> None:
    turns = [await _ended_turn(store, updates) for updates in (0, 5, 20)]
    async with _retention(store, count=8) as retention:
        trimmed = await retention.round()
    kept = {
        row["session_id"]: (row["least"], row["n"], row["trimmed_seq"])
        for row in await store.query(
            "SELECT s.session_id, s.trimmed_seq, min(e.seq) AS least, count(*) AS n"
            " FROM session s JOIN event e USING (session_id) GROUP BY s.session_id"
        )
    }
    assert [kept[turn.session_id] for turn in turns] == [(1, 5, 0), (3, 8, 2), (18, 8, 17)]
    assert trimmed == 19


async def test_nothing_of_a_running_turn_goes(store: Store) -> None:
    turn = await _ended_turn(store)
    last = turn.events[-1].seq
    begun = await store.begin(turn.session_id)
    await store.query("UPDATE event SET time = now() - interval '1 year'")
    async with _retention(store, days=30, count=1) as retention:
        assert await retention.round() == last
        assert [event.seq for event in await store.replay(turn.session_id, after_seq=last)] == [
            last + 1,
            last + 2,
            last + 3,
        ]
        follower = Turn(store, begun)
        response = await follower.append(entry_write(follower.assistant(text("goes on"))))
        assert response.last_seq == last + 4
        await follower.finish()
        assert await retention.round() == 4  # all but the newest event, now that the turn has ended


async def test_a_session_larger_than_one_batch_is_trimmed_in_steps(store: Store) -> None:
    turn = await _ended_turn(store, updates=0)
    await store.query(
        "INSERT INTO event (session_id, seq, owner_id, kind) SELECT $1, n, $2, 99 FROM generate_series(6, 2505) n",
        *(turn.session_id, OWNER),
    )
    await store.query("UPDATE session SET seq = 2505 WHERE session_id = $1", turn.session_id)
    async with _retention(store, count=5) as retention:
        assert await retention.trim(turn.session_id) == 2500
    assert [event.seq for event in await store.replay(turn.session_id, after_seq=2500)] == list(range(2501, 2506))


async def test_a_session_that_somebody_holds_is_passed_over_without_waiting(store: Store) -> None:
    held, free = await _ended_turn(store), await _ended_turn(store)
    connection = await asyncpg.connect(store.url)
    try:
        async with connection.transaction(), _retention(store, count=1) as retention:
            await connection.execute("SELECT FROM session WHERE session_id = $1 FOR UPDATE", held.session_id)
            async with asyncio.timeout(5):
                await retention.round()
            rows = await store.query("SELECT session_id FROM event GROUP BY session_id HAVING count(*) > 1")
            assert [row["session_id"] for row in rows] == [held.session_id]
    finally:
        await connection.close()
    assert len(await store.replay(free.session_id, after_seq=free.events[-1].seq - 1)) == 1


async def test_two_stores_trim_at_once_and_each_event_goes_once(store: Store) -> None:
    turns = [await _ended_turn(store, updates=10) for _ in range(6)]
    async with _retention(store, count=2) as one, _retention(store, count=2) as other:
        counts = await asyncio.gather(one.round(), other.round(), one.round(), other.round())
        assert sum(counts) + await one.round() == sum(turn.events[-1].seq - 2 for turn in turns)
    for turn in turns:
        last = turn.events[-1].seq
        assert [event.seq for event in await store.replay(turn.session_id, after_seq=last - 2)] == [last - 1, last]


async def test_a_replay_that_trimming_overtakes_ends_with_a_reason(store: Store) -> None:
    turn = await store.new_turn()
    for _ in range(6):
        await turn.append(*(entry_write(turn.assistant(text("x" * 3_000))) for _ in range(250)))
    await turn.finish()
    request = j.ReadEventsRequest(owner_id=OWNER, session_id=turn.session_id)
    async with (
        grpc.aio.insecure_channel(store.ports["internal"], options=SMALL_WINDOW) as channel,
        refused(Reason.REASON_SEQ_OUT_OF_RANGE),
        _retention(store, count=10) as retention,
    ):
        pages = JournalServiceStub(channel).ReadEvents(request)
        seen = 0
        async for page in pages:
            if not seen:
                await retention.round()
            assert [event.seq for event in page.events] == list(range(seen + 1, seen + 1 + len(page.events)))
            seen += len(page.events)


@pytest.fixture
def trimming(settings: StoreSettings) -> StoreSettings:
    return dataclasses.replace(settings, event_retention_count=2, event_retention_interval_seconds=1.0)


async def test_a_running_store_trims_by_itself(trimming: StoreSettings) -> None:
    async with running_store(trimming) as store:
        await store.beat()
        turn = await _ended_turn(store)
        async with asyncio.timeout(20):
            while len(await store.query("SELECT FROM event")) > 2:  # noqa: ASYNC110  # nobody tells of it
                await asyncio.sleep(0.05)  # a bounded poll: the store's own rounds come every second
    assert turn.events[-1].seq > 2
