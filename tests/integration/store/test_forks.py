"""Copies of sessions: whole, at one moment, with ids of their own, and with nothing running in them."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import (
    OWNER,
    Store,
    Turn,
    entry_write,
    refused,
    text,
)
from tests.integration.store.test_commands import delete_branch, rows_of, whole_session
from tests.integration.store.test_delegations import delegate
from tests.integration.store.test_delegations import row as task_row


@pytest.mark.parametrize("whole", [True, False])
async def test_a_fork_is_a_whole_copy_with_ids_of_its_own(store: Store, whole: bool) -> None:
    turn = await whole_session(store)
    second = Turn(store, await store.begin(turn.session_id))
    await second.finish(entry_write(second.assistant(text("second"))))
    new_session_id = new_id()
    request = j.ForkSessionRequest(
        owner_id=OWNER,
        session_id=turn.session_id,
        new_session_id=new_session_id,
        entry_id="" if whole else turn.anchor_id,
    )
    fork = (await store.journal.ForkSession(request)).session
    assert (await store.journal.ForkSession(request)).session == fork
    entries = await store.tree(new_session_id)
    source = await store.tree(turn.session_id)
    expected = len(source) if whole else 4
    assert len(entries) == expected
    ids = {entry.entry_id for entry in entries}
    assert not ids & {entry.entry_id for entry in source}
    assert [entry.parent_entry_id for entry in entries if entry.parent_entry_id not in ids] == [""]
    assert fork.forked_from_session_id == turn.session_id
    assert fork.leaf_entry_id in ids
    anchor, batch, result = entries[1:4]
    assert anchor.assistant.parts[1].batch_reference.batch_entry_id == batch.entry_id
    assert batch.subagent_batch.batch.parent_entry_id == anchor.entry_id
    assert result.subagent_result.batch_entry_id == batch.entry_id
    replayed = await store.replay(new_session_id)
    assert [event.seq for event in replayed] == list(range(1, expected + 2))
    assert replayed[-1].session_leaf_changed.leaf_entry_id == fork.leaf_entry_id
    rows = await rows_of(store, new_session_id)
    assert (rows["content"], rows["subagent_session"], rows["subagent_entry"]) == (1, 1, 1)


async def test_nothing_runs_in_a_copy_of_a_session_whose_turn_runs(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, (running, queued) = await delegate(turn, 2)
    running.state = s.SUBAGENT_TASK_STATE_RUNNING
    states = (e.TOOL_CALL_STATE_RUNNING, e.TOOL_CALL_STATE_PENDING, e.TOOL_CALL_STATE_COMPLETED)
    calls = [e.Part(tool_call=e.ToolCallPart(call_id=new_id(), state=state)) for state in states]
    reference = e.Part(batch_reference=e.BatchReferencePart(batch_entry_id=batch_id))
    anchor = turn.assistant(*calls, reference, state=e.ENTRY_STATE_STREAMING)
    await turn.append(entry_write(anchor), task_row(turn, batch_id, running))
    request = j.ForkSessionRequest(owner_id=OWNER, session_id=turn.session_id, new_session_id=new_id())
    copy = (await store.journal.ForkSession(request)).session
    assert not copy.running_turn_id
    _, answer, batch = await store.tree(copy.session_id)
    assert [part.tool_call.state for part in answer.assistant.parts[:3]] == [
        e.TOOL_CALL_STATE_CANCELLED,
        e.TOOL_CALL_STATE_CANCELLED,
        e.TOOL_CALL_STATE_COMPLETED,
    ]
    shown = batch.subagent_batch.batch
    assert {task.state for task in shown.items} == {s.SUBAGENT_TASK_STATE_CANCELLED}
    assert (shown.counts.cancelled, shown.counts.total) == (2, 2)
    assert all(task.error and task.HasField("end_time") for task in shown.items)
    source = (await store.tree(turn.session_id))[2].subagent_batch.batch
    assert (source.counts.running, source.counts.queued) == (1, 1)
    assert queued.task_id in {task.task_id for task in source.items}


async def test_a_copy_shows_the_session_at_one_moment(store: Store) -> None:
    first = await store.new_turn()
    await first.finish()
    second = Turn(store, await store.begin(first.session_id))
    await second.finish()
    request = j.ForkSessionRequest(owner_id=OWNER, session_id=first.session_id, new_session_id=new_id())
    holder = await asyncpg.connect(store.url)
    try:
        blocking = holder.transaction()
        await blocking.start()
        insert = "INSERT INTO session (session_id, owner_id, workspace) VALUES ($1, $2, '')"
        await holder.execute(insert, request.new_session_id, OWNER)
        forking = asyncio.ensure_future(store.journal.ForkSession(request))
        async with asyncio.timeout(10):
            while not await store.query("SELECT FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110  # the server makes it true
                await asyncio.sleep(0.01)  # between two looks, within the bound above
        await delete_branch(store, first.session_id, second.user_id)
        await blocking.rollback()
        copy = (await forking).session
    finally:
        await holder.close()
    entries = await store.tree(copy.session_id)
    assert len(entries) == 4
    assert copy.leaf_entry_id == entries[-1].entry_id


async def test_a_fork_needs_a_source_of_the_owner_and_a_free_id(store: Store) -> None:
    turn = await store.new_turn()
    request = j.ForkSessionRequest(owner_id="bob", session_id=turn.session_id, new_session_id=new_id())
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.ForkSession(request)
    request.owner_id = OWNER
    request.entry_id = new_id()
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        await store.journal.ForkSession(request)
    request.entry_id = ""
    request.new_session_id = turn.session_id
    async with refused(Reason.REASON_ALREADY_EXISTS):
        await store.journal.ForkSession(request)
