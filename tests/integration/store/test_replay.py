"""ReadEvents and Notices: nothing missing, nothing out of order, never silence."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import INSTANCE, OWNER, Store, append, entry_write, refused, running_store, text


async def test_events_are_replayed_after_any_seq(store: Store) -> None:
    turn = await store.new_turn()
    requests = [turn.request(*(entry_write(turn.assistant(text(str(n)))) for _ in range(50))) for n in range(14)]
    await append(store, *requests)
    everything = await store.replay(turn.session_id)
    assert [event.seq for event in everything] == list(range(1, 705))
    assert everything[-1].session_entry_updated.entry == (await store.tree(turn.session_id))[1]
    assert await store.replay(turn.session_id, after_seq=600) == everything[600:]
    assert await store.replay(turn.session_id, after_seq=704) == []


async def test_pages_of_large_entries_stay_small(store: Store) -> None:
    turn = await store.new_turn()
    for _ in range(12):
        await turn.append(entry_write(turn.assistant(text("x" * 200_000))))
    request = j.ReadEventsRequest(owner_id=OWNER, session_id=turn.session_id)
    pages = [page async for page in store.journal.ReadEvents(request)]
    assert [event.seq for page in pages for event in page.events] == list(range(1, 17))
    assert max(page.ByteSize() for page in pages) <= 768 * 1024
    assert all(page.session.session_id == turn.session_id for page in pages)


@pytest.mark.parametrize("after_seq", [5, 1_000_000])
async def test_a_seq_beyond_the_end_is_out_of_range_and_names_the_snapshot(store: Store, after_seq: int) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_SEQ_OUT_OF_RANGE) as errors:
        await store.replay(turn.session_id, after_seq=after_seq)
    assert errors[0].metadata == {"snapshot_seq": "4"}


async def test_a_seq_before_retention_is_out_of_range(store: Store) -> None:
    turn = await store.new_turn()
    await store.query("DELETE FROM event WHERE seq <= 2")
    await store.query("UPDATE session SET trimmed_seq = 2")
    async with refused(Reason.REASON_SEQ_OUT_OF_RANGE):
        await store.replay(turn.session_id, after_seq=1)
    assert [event.seq for event in await store.replay(turn.session_id, after_seq=2)] == [3, 4]


async def test_another_owner_reads_no_events_and_no_path(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.replay(turn.session_id, owner="bob")
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        async for _ in store.journal.ReadPath(j.ReadPathRequest(owner_id="bob", session_id=turn.session_id)):
            pass


async def test_an_event_of_an_entry_that_is_gone_is_replayed_as_removed(store: Store) -> None:
    turn = await store.new_turn()
    await store.query("DELETE FROM entry WHERE entry_id = $1", turn.user_id)
    first = (await store.replay(turn.session_id))[0]
    assert (first.seq, first.session_entry_removed.entry_id) == (1, turn.user_id)


async def test_large_and_wide_events_are_stored_and_replayed(store: Store) -> None:
    turn = await store.new_turn()
    texts = ["x" * 7_000, "漢" * 1_000, "y" * 900_000]
    events = [
        v.ChatEvent(turn_id=turn.begun.turn_id, entry_id=turn.anchor_id, thinking_done=v.ThinkingDone(text=each))
        for each in texts
    ]
    for event in events:
        await turn.append(j.Write(event=j.EventWrite(event=event)))
    replayed = await store.replay(turn.session_id, after_seq=4)
    assert [event.thinking_done.text for event in replayed] == texts


async def _notices(store: Store, seen: asyncio.Queue[j.Notice], listening: asyncio.Event) -> None:
    call = store.journal.Notices(j.NoticesRequest(instance_id=INSTANCE))
    await call.initial_metadata()
    listening.set()
    async for response in call:
        for notice in response.notices:
            seen.put_nowait(notice)


async def _until(seen: asyncio.Queue[j.Notice], session_id: str, seq: int, *, deleted: bool = False) -> None:
    async with asyncio.timeout(10):
        while True:
            notice = await seen.get()
            if notice == j.Notice(session_id=session_id, owner_id=OWNER, seq=seq, deleted=deleted):
                return


@pytest.mark.parametrize("poll", [0.1, 600.0])
async def test_a_change_is_told_to_listeners_of_every_store(settings: StoreSettings, poll: float) -> None:
    slow = dataclasses.replace(settings, notice_poll_seconds=poll)
    async with running_store(slow) as here, running_store(slow) as there:
        await here.beat()
        seen: asyncio.Queue[j.Notice] = asyncio.Queue()
        listening = [asyncio.Event(), asyncio.Event()]
        pairs = zip((here, there), listening, strict=True)
        tasks = [asyncio.create_task(_notices(store, seen, event)) for store, event in pairs]
        try:
            for event in listening:
                await event.wait()
            turn = await here.new_turn()
            for _ in range(2):
                await _until(seen, turn.session_id, 4)
            await here.journal.DeleteSessions(j.DeleteSessionsRequest(owner_id=OWNER, all=True))
            for _ in range(2):
                await _until(seen, turn.session_id, 0, deleted=True)
            empty = j.CreateSessionRequest(owner_id=OWNER, request=CreateSessionRequest(session_id=new_id()))
            await here.journal.CreateSession(empty)
            for _ in range(2):
                await _until(seen, empty.request.session_id, 0)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_poll_finds_what_no_notification_told(store: Store) -> None:
    seen: asyncio.Queue[j.Notice] = asyncio.Queue()
    listening = asyncio.Event()
    task = asyncio.create_task(_notices(store, seen, listening))
    try:
        await listening.wait()
        session_id = new_id()
        await store.query(
            "INSERT INTO session (session_id, owner_id, workspace, seq) VALUES ($1, $2, 'default', 7)",
            session_id,
            OWNER,
        )
        await _until(seen, session_id, 7)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_changes_while_the_only_listener_is_cut_off_is_told_when_it_is_back(settings: StoreSettings) -> None:
    insert = "INSERT INTO session (session_id, owner_id, workspace, seq) VALUES ($1, $2, 'default', 7)"
    first, missed = new_id(), new_id()
    seen: asyncio.Queue[j.Notice] = asyncio.Queue()
    async with running_store(dataclasses.replace(settings, notice_poll_seconds=0.1)) as store:
        listening = asyncio.Event()
        task = asyncio.create_task(_notices(store, seen, listening))
        await listening.wait()
        await store.query(insert, first, OWNER)
        await _until(seen, first, 7)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.query(insert, missed, OWNER)
        await asyncio.sleep(2.5)  # polls that have nobody to tell, for longer than one looks back
        task = asyncio.create_task(_notices(store, seen, listening))
        await _until(seen, missed, 7)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_poll_finds_every_session_of_many_that_changed_at_one_moment(store: Store) -> None:
    seen: asyncio.Queue[j.Notice] = asyncio.Queue()
    listening = asyncio.Event()
    task = asyncio.create_task(_notices(store, seen, listening))
    try:
        await listening.wait()
        insert = (
            "INSERT INTO session (session_id, owner_id, workspace, seq)"
            " SELECT each, $1, '', 7 FROM unnest($2::text[]) AS each"
        )
        many, later = [f"s{number}" for number in range(2500)], new_id()
        await store.query(insert, OWNER, many)
        missing = set(many)
        async with asyncio.timeout(10):
            while missing:
                missing.discard((await seen.get()).session_id)
        await store.query(insert, OWNER, [later])
        await _until(seen, later, 7)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
