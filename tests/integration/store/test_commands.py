"""Commands on sessions: idempotent, fenced, and complete in what they delete."""

from __future__ import annotations

import asyncpg
import pytest

from netaclaw.agent.v1 import agent_pb2
from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE, WHEN_BUSY_STEER
from netaclaw.chat.v1.event_pb2 import STREAM_CHANNEL_TEXT
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import session_command_service_pb2 as c
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import (
    INSTANCE,
    OWNER,
    Store,
    Turn,
    append,
    entry_write,
    metadata,
    refused,
    running_store,
    text,
)
from tests.integration.store.test_delegations import delegate
from tests.integration.store.test_delegations import row as task_row


def _create(session_id: str, owner: str = OWNER, **fields: str) -> j.CreateSessionRequest:
    return j.CreateSessionRequest(owner_id=owner, request=c.CreateSessionRequest(session_id=session_id, **fields))


async def _lease(store: Store, session_id: str) -> int:
    request = j.AcquireSessionRequest(instance_id=INSTANCE, owner_id=OWNER, session_id=session_id)
    return (await store.journal.AcquireSession(request)).generation


async def delete_branch(store: Store, session_id: str, entry_id: str) -> j.DeleteBranchResponse:
    generation = await _lease(store, session_id)
    request = j.DeleteBranchRequest(owner_id=OWNER, session_id=session_id, generation=generation, entry_id=entry_id)
    return await store.journal.DeleteBranch(request)


async def whole_session(store: Store) -> Turn:
    """A finished turn with a row in every table that a session can have rows in."""
    turn = await store.new_turn(request_id=new_id())
    batch_id, task_id = new_id(), new_id()
    task = s.SubagentTask(task_id=task_id, state=s.SUBAGENT_TASK_STATE_COMPLETED)
    reference = e.Part(batch_reference=e.BatchReferencePart(batch_entry_id=batch_id, call_id="call-1"))
    result = e.Entry(
        entry_id=new_id(),
        parent_entry_id=turn.anchor_id,
        kind=e.ENTRY_KIND_SUBAGENT_RESULT,
        subagent_result=s.SubagentResultBody(batch_entry_id=batch_id),
    )
    await turn.append(
        entry_write(turn.assistant(text("answer"), reference)),
        entry_write(turn.batch(task, entry_id=batch_id)),
        entry_write(result),
        j.Write(subagent_task=j.SubagentTaskWrite(task=task, parent_entry_id=turn.anchor_id, batch_entry_id=batch_id)),
        j.Write(subagent_entry=j.SubagentEntryWrite(task_id=task_id, n=0, message=e.Message(parts=[text("hi")]))),
        j.Write(
            subagent_steps=j.SubagentStepsWrite(
                parent_entry_id=turn.anchor_id,
                batch_entry_id=batch_id,
                task_id=task_id,
                process_events=[s.ProcessEvent(task_id=task_id, type="run_start")],
            )
        ),
        j.Write(content=j.ContentWrite(content_id=new_id(), entry_id=turn.anchor_id, text="large")),
    )
    await turn.finish()
    return turn


async def rows_of(store: Store, session_id: str) -> dict[str, int]:
    """How many rows each table with a session_id has of the session."""
    tables = await store.query(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'session_id'"
    )
    counts = {}
    for table in [row["table_name"] for row in tables]:
        counted = await store.query(f"SELECT count(*) AS n FROM {table} WHERE session_id = $1", session_id)
        counts[table] = counted[0]["n"]
    return counts


async def test_making_a_session_twice_answers_the_first_one(store: Store) -> None:
    session_id = new_id()
    first = await store.journal.CreateSession(_create(session_id, title="t", workspace="project"))
    second = await store.journal.CreateSession(_create(session_id, title="other"))
    assert first == second
    assert (first.session.title, first.session.workspace, first.session.seq) == ("t", "project", 0)


async def test_a_session_needs_a_known_workspace_and_agent(store: Store) -> None:
    async with refused(Reason.REASON_WORKSPACE_NOT_FOUND):
        await store.journal.CreateSession(_create(new_id(), workspace="nowhere"))
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await store.journal.CreateSession(_create(new_id(), agent_id=new_id()))
    async with refused(Reason.REASON_INVALID_FIELD):
        await store.journal.CreateSession(_create("x"))


async def test_the_id_of_another_owners_session_is_not_found(store: Store) -> None:
    session_id = new_id()
    await store.journal.CreateSession(_create(session_id))
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.CreateSession(_create(session_id, owner="bob"))


async def test_an_update_changes_what_the_mask_names_and_tells_everyone(store: Store) -> None:
    turn = await store.new_turn()
    request = j.UpdateSessionRequest(
        owner_id=OWNER,
        session=e.Session(session_id=turn.session_id, title="new", thinking_level=agent_pb2.THINKING_LEVEL_MEDIUM),
        update_mask={"paths": ["title"]},
        labels=[c.EntryLabel(entry_id=turn.user_id, label="mark")],
    )
    response = await store.journal.UpdateSession(request)
    assert (response.session.title, response.session.thinking_level) == ("new", 0)
    assert response.session.etag != turn.begun.session.etag
    labelled, updated = response.events
    assert labelled.session_entry_updated.entry.label == "mark"
    assert labelled.session_entry_updated.entry.updated_seq == labelled.seq
    assert updated.session_updated.session == response.session
    assert await store.replay(turn.session_id, after_seq=4) == list(response.events)
    await turn.append(entry_write(turn.assistant(text("a write keeps the mark"))))
    assert (await store.tree(turn.session_id))[0].label == "mark"


async def test_an_update_that_changes_nothing_leaves_no_event(store: Store) -> None:
    turn = await store.new_turn()
    session = e.Session(session_id=turn.session_id, title=turn.begun.session.title)
    request = j.UpdateSessionRequest(owner_id=OWNER, session=session, update_mask={"paths": ["title"]})
    response = await store.journal.UpdateSession(request)
    assert not response.events
    assert response.session.etag == turn.begun.session.etag


async def test_an_update_with_an_old_etag_is_refused(store: Store) -> None:
    turn = await store.new_turn()
    request = j.UpdateSessionRequest(
        owner_id=OWNER,
        session=e.Session(session_id=turn.session_id, title="new"),
        update_mask={"paths": ["title"]},
        etag=turn.begun.session.etag,
    )
    await store.journal.UpdateSession(request)
    async with refused(Reason.REASON_STALE_ETAG):
        await store.journal.UpdateSession(request)


async def test_the_leaf_switches_to_path_entries_of_an_idle_session(store: Store) -> None:
    turn = await whole_session(store)
    generation = await _lease(store, turn.session_id)

    def request(leaf: str, **fields: object) -> j.SwitchLeafRequest:
        values: dict[str, object] = {"owner_id": OWNER, "session_id": turn.session_id, "generation": generation}
        return j.SwitchLeafRequest(leaf_entry_id=leaf, **{**values, **fields})  # type: ignore[arg-type]  # by name

    switched = await store.journal.SwitchLeaf(request(turn.user_id))
    assert switched.session.leaf_entry_id == turn.user_id
    assert switched.events[0].session_leaf_changed.leaf_entry_id == turn.user_id
    attachment = next(x for x in await store.tree(turn.session_id) if x.kind == e.ENTRY_KIND_SUBAGENT_BATCH)
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        await store.journal.SwitchLeaf(request(attachment.entry_id))
    async with refused(Reason.REASON_STALE_GENERATION):
        await store.journal.SwitchLeaf(request(turn.anchor_id, generation=generation - 1))
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.SwitchLeaf(request(turn.anchor_id, owner_id="bob"))


async def test_the_stored_leaf_rules_after_a_late_write_of_a_replaced_owner(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish(entry_write(turn.assistant(text("tip"))))
    generation = await _lease(store, turn.session_id)
    await store.journal.SwitchLeaf(
        j.SwitchLeafRequest(
            owner_id=OWNER, session_id=turn.session_id, generation=generation, leaf_entry_id=turn.user_id
        )
    )
    late = j.LeafWrite(leaf_entry_id=turn.anchor_id, expected_leaf_entry_id=turn.user_id)
    async with refused(Reason.REASON_STALE_GENERATION):
        await append(store, turn.request(j.Write(leaf=late)))
    reopened = await store.begin(turn.session_id)
    assert [entry.entry_id for entry in reopened.path] == [turn.user_id]


async def test_deleting_a_branch_takes_all_below_it_and_keeps_the_order_of_events(store: Store) -> None:
    turn = await whole_session(store)
    second = Turn(store, await store.begin(turn.session_id))
    await second.finish(entry_write(second.assistant(text("second"))))
    response = await delete_branch(store, turn.session_id, turn.anchor_id)
    assert response.deleted_count == 5
    assert response.session.leaf_entry_id == turn.user_id
    assert [entry.entry_id for entry in await store.tree(turn.session_id)] == [turn.user_id]
    replayed = await store.replay(turn.session_id)
    assert [event.seq for event in replayed] == list(range(1, response.session.seq + 1))
    removed = {e.session_entry_removed.entry_id for e in replayed if e.HasField("session_entry_removed")}
    assert {turn.anchor_id, second.user_id, second.anchor_id} <= removed
    left = await rows_of(store, turn.session_id)
    assert (left["subagent_session"], left["subagent_entry"], left["content"]) == (0, 0, 0)


async def test_whoever_joins_a_turn_whose_branch_was_deleted_learns_how_it_ended(store: Store) -> None:
    turn = await store.new_turn(request_id="again")
    done = (await turn.finish(entry_write(turn.assistant(text("answer"))))).events[-1]
    await delete_branch(store, turn.session_id, turn.user_id)
    joined = await store.begin(turn.session_id, "hello", request_id="again")
    assert (joined.outcome, joined.turn_id) == (j.BEGIN_TURN_OUTCOME_JOINED, turn.begun.turn_id)
    replayed = await store.replay(turn.session_id, joined.turn_start_seq)
    assert [event for event in replayed if event.HasField("done")] == [done]
    left = [event for event in replayed if event.HasField("session_entry_added")]
    assert not left


async def test_what_a_deleted_branch_has_cost_stays_counted(store: Store) -> None:
    turn = await store.new_turn()
    answer = turn.assistant(text("answer"))
    answer.assistant.usage.MergeFrom(Usage(model_calls=3, cost_micros=30))
    batch_id, (task,) = await delegate(turn, 1)
    task.usage.MergeFrom(Usage(model_calls=2, cost_micros=20))
    lost = j.Write(usage=j.UsageWrite(usage=Usage(model_calls=1, cost_micros=10)))
    await turn.append(entry_write(answer), task_row(turn, batch_id, task), lost)
    await turn.finish()
    for entry_id in (turn.anchor_id, turn.user_id):
        await delete_branch(store, turn.session_id, entry_id)
        for session_id in (turn.session_id, ""):
            asked = GetUsageRequest(session_id=session_id)
            spent = (await store.sessions.GetUsage(asked, metadata=metadata())).total
            assert spent == Usage(model_calls=6, cost_micros=60)


async def test_words_that_entered_a_turn_from_the_queue_go_with_their_entry(store: Store) -> None:
    turn = await store.new_turn()
    await store.begin(turn.session_id, "a secret", when_busy=WHEN_BUSY_STEER, request_id="q")
    taken = j.QueueTakeWrite(request_id="q", turn_id=turn.begun.turn_id)
    await turn.append(j.Write(queue_take=taken))
    await turn.finish()
    await delete_branch(store, turn.session_id, turn.user_id)
    kept = await store.query("SELECT content FROM queued_message WHERE session_id = $1", turn.session_id)
    assert [row["content"] for row in kept] == [b""]


async def test_deleting_a_session_leaves_no_row_in_any_table(store: Store) -> None:
    turn, kept = await whole_session(store), await whole_session(store)
    queued = await store.begin(turn.session_id)
    await store.begin(turn.session_id, "wait", when_busy=WHEN_BUSY_ENQUEUE, request_id="q")
    draft = j.Draft(
        session_id=turn.session_id,
        generation=queued.generation,
        entry_id=new_id(),
        channel=STREAM_CHANNEL_TEXT,
        attempt=1,
        text="x",
    )
    running = Turn(store, queued)
    await append(store, running.request(entry_write(running.assistant()), drafts=[draft]))
    await append(store, running.request(entry_write(running.assistant())))
    assert all((await rows_of(store, turn.session_id)).values())
    request = j.DeleteSessionsRequest(owner_id=OWNER, session_ids=[turn.session_id])
    assert list((await store.journal.DeleteSessions(request)).deleted_session_ids) == [turn.session_id]
    assert not any((await rows_of(store, turn.session_id)).values())
    assert not (await store.journal.DeleteSessions(request)).deleted_session_ids
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await running.append(entry_write(running.assistant()))
    assert len(await store.tree(kept.session_id)) == 4


SLOW_DELETE = """
CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END $$;
CREATE TRIGGER slow BEFORE DELETE ON turn FOR EACH ROW EXECUTE FUNCTION take_long();
"""


async def test_any_number_of_sessions_is_deleted_though_a_statement_has_its_time(
    settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netaclaw_store.database.COMMAND_TIMEOUT_S", 1.0)
    async with running_store(settings) as store:
        many = [f"s{number}" for number in range(90)]
        sessions = (
            "INSERT INTO session (session_id, owner_id, workspace) SELECT each, $1, '' FROM unnest($2::text[]) each"
        )
        turns = "INSERT INTO turn (session_id, owner_id, turn_id) SELECT each, $1, 't' FROM unnest($2::text[]) each"
        await store.query(sessions, OWNER, many)
        await store.query(turns, OWNER, many)
        connection = await asyncpg.connect(store.url)
        await connection.execute(SLOW_DELETE)
        await connection.close()
        response = await store.journal.DeleteSessions(j.DeleteSessionsRequest(owner_id=OWNER, all=True))
        assert len(response.deleted_session_ids) == 90
        assert not await store.query("SELECT FROM turn")


async def test_deleting_all_sessions_spares_other_owners(store: Store) -> None:
    await store.new_turn()
    await store.new_turn()
    bobs = await store.new_turn(owner_id="bob")
    foreign = j.DeleteSessionsRequest(owner_id=OWNER, session_ids=[bobs.session_id])
    assert not (await store.journal.DeleteSessions(foreign)).deleted_session_ids
    response = await store.journal.DeleteSessions(j.DeleteSessionsRequest(owner_id=OWNER, all=True))
    assert len(response.deleted_session_ids) == 2
    assert [row["session_id"] for row in await store.query("SELECT session_id FROM session")] == [bobs.session_id]
