"""Append: atomic batches, dense seq, fences, and events joined with what they report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import (
    Store,
    Turn,
    append,
    entry_write,
    event_write,
    refused,
    text,
)

CASES = Path(__file__).parents[2] / "cases"


def _call(call_id: str, arguments: str = "{}", state: e.ToolCallState = e.TOOL_CALL_STATE_RUNNING) -> e.Part:
    return e.Part(
        tool_call=e.ToolCallPart(call_id=call_id, tool_name="read_file", arguments_json=arguments, state=state)
    )


async def test_an_entry_is_added_once_and_updated_after_that(store: Store) -> None:
    turn = await store.new_turn()
    entry = e.Entry(
        entry_id=new_id(), parent_entry_id=turn.anchor_id, turn_id=turn.begun.turn_id, kind=e.ENTRY_KIND_ASSISTANT
    )
    entry.assistant.attempt = 1
    added = await turn.append(entry_write(entry))
    entry.assistant.parts.append(text("more"))
    updated = await turn.append(entry_write(entry), entry_write(entry))
    names = [event.WhichOneof("event") for event in (*added.events, *updated.events)]
    assert names == ["session_entry_added", "session_entry_updated", "session_entry_updated"]
    assert [event.seq for event in (*added.events, *updated.events)] == [5, 6, 7]
    assert updated.events[-1].session_entry_updated.entry == (await store.tree(turn.session_id))[-1]


async def test_seq_stays_dense_when_sessions_are_written_at_once(store: Store) -> None:
    turns = await asyncio.gather(*(store.new_turn() for _ in range(6)))

    async def write(turn: Turn) -> None:
        for n in range(15):
            await turn.append(entry_write(turn.assistant(text(str(n)))), entry_write(turn.assistant(text(f"{n}!"))))

    await asyncio.gather(*(write(turn) for turn in turns))
    for turn in turns:
        assert [event.seq for event in await store.replay(turn.session_id)] == list(range(1, 35))


async def test_writers_of_one_session_at_once_never_share_or_skip_a_seq(store: Store) -> None:
    turn = await store.new_turn()
    requests = [turn.request(entry_write(turn.assistant(text(str(n)))), append_no=1) for n in range(8)]
    answers = await asyncio.gather(*(append(store, request) for request in requests))
    assert sorted(answer.repeated_append for answer in answers) == [False] + [True] * 7
    assert {answer.last_seq for answer in answers} == {5}
    assert [event.seq for event in await store.replay(turn.session_id)] == [1, 2, 3, 4, 5]


async def test_a_repeat_answers_the_first_seq_and_writes_nothing(store: Store) -> None:
    turn = await store.new_turn()
    request = turn.request(entry_write(turn.assistant(text("once"))))
    first = await append(store, request)
    repeat = await append(store, request)
    assert (repeat.repeated_append, repeat.last_seq, list(repeat.events)) == (True, first.last_seq, [])
    assert len(await store.replay(turn.session_id)) == 5


async def test_an_append_that_skips_a_number_is_refused_and_names_the_next(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_APPEND_OUT_OF_ORDER) as errors:
        await append(store, turn.request(entry_write(turn.assistant()), append_no=2))
    assert errors[0].metadata == {"expected": "1"}


async def test_a_write_of_an_older_generation_is_refused(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish()
    await store.begin(turn.session_id)
    before = await store.tree(turn.session_id)
    async with refused(Reason.REASON_STALE_GENERATION):
        await append(store, turn.request(entry_write(turn.assistant(text("late"))), append_no=2))
    assert await store.tree(turn.session_id) == before


async def test_a_refused_batch_ends_the_stream_and_leaves_nothing(store: Store) -> None:
    turn = await store.new_turn()
    missing = v.ChatEvent(entry_id=new_id(), tool_call_started=v.ToolCallStarted(call=e.ToolCallPart(call_id="c")))
    before = await store.tree(turn.session_id)
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        await turn.append(entry_write(turn.assistant(text("lost"))), event_write(missing))
    assert await store.tree(turn.session_id) == before
    assert len(await store.replay(turn.session_id)) == 4


async def test_the_leaf_moves_only_from_where_the_turn_left_it(store: Store) -> None:
    turn = await store.new_turn()
    entry = e.Entry(entry_id=new_id(), parent_entry_id=turn.anchor_id, kind=e.ENTRY_KIND_ASSISTANT)
    entry.assistant.attempt = 1
    stays = j.LeafWrite(leaf_entry_id=entry.entry_id, expected_leaf_entry_id=turn.user_id)
    moves = j.LeafWrite(leaf_entry_id=entry.entry_id, expected_leaf_entry_id=turn.anchor_id)
    first = await turn.append(entry_write(entry), j.Write(leaf=stays))
    assert [event.WhichOneof("event") for event in first.events] == ["session_entry_added"]
    second = await turn.append(j.Write(leaf=moves))
    assert second.events[0].session_leaf_changed.leaf_entry_id == entry.entry_id
    assert second.events[0].seq == first.last_seq + 1


async def test_a_tool_event_carries_the_part_as_it_stood_and_marks_its_entry(store: Store) -> None:
    turn = await store.new_turn()
    started = v.ChatEvent(
        turn_id=turn.begun.turn_id,
        entry_id=turn.anchor_id,
        tool_call_started=v.ToolCallStarted(call=e.ToolCallPart(call_id="c")),
    )
    completed = v.ChatEvent(
        turn_id=turn.begun.turn_id,
        entry_id=turn.anchor_id,
        tool_call_completed=v.ToolCallCompleted(call=e.ToolCallPart(call_id="c")),
    )
    response = await turn.append(
        entry_write(turn.assistant(_call("c")), quiet=True),
        event_write(started),
        entry_write(turn.assistant(_call("c", state=e.TOOL_CALL_STATE_COMPLETED)), quiet=True),
        event_write(completed),
    )
    states = [
        response.events[0].tool_call_started.call.state,
        response.events[1].tool_call_completed.call.state,
    ]
    assert states == [e.TOOL_CALL_STATE_RUNNING, e.TOOL_CALL_STATE_COMPLETED]
    anchor = (await store.tree(turn.session_id))[1]
    assert anchor.updated_seq == response.events[1].seq
    assert anchor.update_time == response.events[1].time
    replayed = (await store.replay(turn.session_id, after_seq=4))[0]
    assert replayed.tool_call_started.call == anchor.assistant.parts[0].tool_call


async def test_an_event_reports_on_an_entry_that_an_earlier_batch_wrote(store: Store) -> None:
    turn = await store.new_turn()
    await turn.append(entry_write(turn.assistant(_call("c"))))
    event = v.ChatEvent(entry_id=turn.anchor_id, tool_call_started=v.ToolCallStarted(call=e.ToolCallPart(call_id="c")))
    response = await turn.append(event_write(event))
    assert response.events[0].tool_call_started.call.tool_name == "read_file"
    assert (await store.tree(turn.session_id))[1].updated_seq == response.last_seq


async def test_subagent_events_carry_the_batch_as_it_stood_step_by_step(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, task_id = new_id(), new_id()

    def entry(state: s.SubagentTaskState) -> e.Entry:
        made = turn.batch(s.SubagentTask(task_id=task_id, name="t", state=state), entry_id=batch_id)
        made.subagent_batch.batch.usage.input_tokens = int(state)
        return made

    started = v.ChatEvent(entry_id=turn.anchor_id)
    started.subagent_run_started.batch.batch_entry_id = batch_id
    step = v.ChatEvent(entry_id=turn.anchor_id, task_id=task_id)
    step.subagent_event.batch_entry_id = batch_id
    step.subagent_event.process_event.type = "run_start"
    response = await turn.append(
        entry_write(entry(s.SUBAGENT_TASK_STATE_QUEUED)),
        event_write(started),
        entry_write(entry(s.SUBAGENT_TASK_STATE_RUNNING), quiet=True),
        event_write(step),
    )
    added, run, event = response.events
    assert added.session_entry_added.entry.subagent_projection.task_panels[0].task.name == "t"
    assert run.subagent_run_started.batch.items[0].state == s.SUBAGENT_TASK_STATE_QUEUED
    assert event.subagent_event.item.state == s.SUBAGENT_TASK_STATE_RUNNING
    assert event.subagent_event.usage.input_tokens == s.SUBAGENT_TASK_STATE_RUNNING
    assert event.subagent_event.process_event.type == "run_start"
    assert event.task_id == task_id
    replayed = await store.replay(turn.session_id, after_seq=response.events[0].seq)
    assert replayed[0].subagent_run_started.batch.items[0].state == s.SUBAGENT_TASK_STATE_RUNNING
    assert replayed[1] == event


async def test_the_end_of_a_turn_frees_the_session_and_drops_its_drafts(store: Store) -> None:
    turn = await store.new_turn()
    draft = j.Draft(
        session_id=turn.session_id,
        generation=turn.begun.generation,
        entry_id=turn.anchor_id,
        channel=v.STREAM_CHANNEL_TEXT,
        attempt=1,
        text="so f\0ar",
    )
    await append(store, turn.request(entry_write(turn.assistant(state=e.ENTRY_STATE_STREAMING)), drafts=[draft]))
    await turn.append(entry_write(turn.assistant(state=e.ENTRY_STATE_STREAMING)))
    request = j.ReadEventsRequest(owner_id="ann", session_id=turn.session_id)
    pages = [page async for page in store.journal.ReadEvents(request)]
    assert list(pages[-1].drafts) == [draft]
    response = await turn.finish()
    assert response.events[-1].done.outcome == v.TURN_OUTCOME_COMPLETED
    assert await store.query("SELECT FROM entry_draft") == []
    rows = await store.query("SELECT state, outcome, end_time FROM turn")
    assert (rows[0]["state"], rows[0]["outcome"]) == ("ended", v.TURN_OUTCOME_COMPLETED)
    assert rows[0]["end_time"] is not None


async def test_drafts_of_a_lost_lease_are_dropped(store: Store) -> None:
    turn = await store.new_turn()
    stale = j.Draft(
        session_id=turn.session_id, generation=turn.begun.generation - 1, entry_id=turn.anchor_id, attempt=1, text="old"
    )
    await append(store, turn.request(entry_write(turn.assistant()), drafts=[stale]))
    await turn.append(entry_write(turn.assistant()))
    assert await store.query("SELECT FROM entry_draft") == []


@pytest.mark.parametrize("state", s.SubagentTaskState.values())
async def test_every_task_state_is_stored_and_read_back(store: Store, state: s.SubagentTaskState) -> None:
    turn = await store.new_turn()
    task = s.SubagentTask(
        task_id=new_id(),
        name="n\0",
        source_type=s.SUBAGENT_SOURCE_PRESET,
        preset_agent_id=new_id(),
        state=state,
        goal="g",
        context="c",
        summary="done",
        error="none",
        sort_order=2,
        model="m",
        tool_names=["read_file"],
        worker_pid=7,
    )
    task.usage.input_tokens = 11
    task.start_time.FromMicroseconds(1_700_000_000_123_456)
    write = j.SubagentTaskWrite(
        task=task,
        parent_entry_id=turn.anchor_id,
        tool_call_id="call",
        parent_agent_id=turn.begun.agent.agent_id,
        batch_entry_id=new_id(),
        result=s.SubagentFinalResult(final_output="out\0put \\u0000"),
    )
    await turn.append(j.Write(subagent_task=write))
    row = dict((await store.query("SELECT * FROM subagent_session"))[0])
    assert row["status"] == s.SubagentTaskState.Name(state).removeprefix("SUBAGENT_TASK_STATE_").lower()
    assert (row["name"], row["source_type"], row["sort_order"]) == ("n�", "preset", 2)
    assert json.loads(row["token_usage"])["inputTokens"] == 11
    assert json.loads(row["tool_names"]) == ["read_file"]
    assert json.loads(row["result_payload"])["final_output"] == "out�put \\u0000"
    assert row["started_at"].microsecond == 123456
    assert row["ended_at"] is None
    assert s.SubagentTask.FromString(row["task"]) == task


async def test_the_first_end_state_of_a_task_wins(store: Store) -> None:
    turn = await store.new_turn()
    task = s.SubagentTask(task_id=new_id(), source_type=s.SUBAGENT_SOURCE_CLONE)
    for state in (
        s.SUBAGENT_TASK_STATE_RUNNING,
        s.SUBAGENT_TASK_STATE_TIMED_OUT,
        s.SUBAGENT_TASK_STATE_COMPLETED,
        s.SUBAGENT_TASK_STATE_RUNNING,
    ):
        task.state = state
        write = j.SubagentTaskWrite(task=task, parent_entry_id=turn.anchor_id, batch_entry_id=new_id())
        await turn.append(j.Write(subagent_task=write))
    assert (await store.query("SELECT status FROM subagent_session"))[0]["status"] == "timed_out"


async def test_arguments_come_back_byte_for_byte(store: Store) -> None:
    raw = json.loads((CASES / "store-args-01.json").read_text())["raw_arguments"]
    turn = await store.new_turn()
    await turn.append(entry_write(turn.assistant(*(_call(f"c{n}", text) for n, text in enumerate(raw)))))
    parts = (await store.tree(turn.session_id))[1].assistant.parts
    assert [part.tool_call.arguments_json for part in parts] == raw


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (j.Write(), "writes[0]"),
        (entry_write(e.Entry(entry_id="x")), "writes[0].entry.entry.entry_id"),
        (event_write(v.ChatEvent(pong=v.Pong())), "writes[0].event.event"),
        (j.Write(turn_end=j.TurnEndWrite(turn_id="x")), "writes[0].turn_end.turn_id"),
    ],
)
async def test_a_write_that_makes_no_sense_is_named(store: Store, write: j.Write, field: str) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await turn.append(write)
    assert field in [name for name, _ in errors[0].violations]


async def test_a_batch_over_one_mebibyte_is_refused(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_INVALID_FIELD):
        await turn.append(entry_write(turn.assistant(text("x" * 1_100_000))))
