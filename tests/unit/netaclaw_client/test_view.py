"""What each event does to a client's view of a session."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.chat.v1 import event_pb2 as chat
from netaclaw.session.v1 import entry_pb2 as entries
from netaclaw.session.v1.entry_pb2 import Session, ToolCallState
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse
from netaclaw_client.comparison import equal
from netaclaw_client.view import MAX_BATCH_EVENTS, Gap, SessionView
from tests.unit.netaclaw_client import story
from tests.unit.netaclaw_client.story import ANCHOR, BATCH, CALL, COMPLETED, QUEUED, RESULT, RUNNING, TASKS, USER


def view_after(count: int) -> SessionView:
    """The view after the first events of the whole turn."""
    view = SessionView()
    for event in story.whole_turn()[:count]:
        view.apply(event)
    return view


def tree_of(view: SessionView, seq: int | None = None) -> SessionView:
    """What a reload finds when the stored rows are those of the view."""
    session = Session(session_id=story.SESSION, seq=view.seq if seq is None else seq, leaf_entry_id=view.leaf_entry_id)
    all_entries = list(view.entries.values())
    return SessionView.from_tree(
        [
            GetSessionTreeResponse(session=session, entries=all_entries[:2], next_page_token="x"),
            GetSessionTreeResponse(session=session, entries=all_entries[2:]),
        ]
    )


def test_entries_are_held_in_the_order_in_which_they_came() -> None:
    view = view_after(17)
    assert list(view.entries) == [USER, ANCHOR, BATCH, RESULT]
    assert (view.session_id, view.seq, view.leaf_entry_id) == (story.SESSION, 17, ANCHOR)


def test_an_updated_entry_replaces_the_entry_with_its_projection() -> None:
    assert view_after(11).entries[BATCH].subagent_projection.diagnostics == [str(QUEUED)] * 2
    assert view_after(12).entries[BATCH].subagent_projection.diagnostics == [str(COMPLETED)] * 2


def test_a_removed_entry_is_dropped_with_what_was_being_written_to_it() -> None:
    view = view_after(3)
    view.apply(story.started(words="half"))
    view.apply(story.event(4, session_entry_removed=chat.SessionEntryRemoved(entry_id=ANCHOR)))
    assert list(view.entries) == [USER]
    assert not view.drafts


def test_removing_what_is_not_there_changes_nothing() -> None:
    view = view_after(3)
    view.apply(story.event(4, session_entry_removed=chat.SessionEntryRemoved(entry_id="other")))
    assert list(view.entries) == [USER, ANCHOR]


def test_a_tool_call_is_replaced_in_its_anchor_by_its_id() -> None:
    view = view_after(5)
    parts = view.entries[ANCHOR].assistant.parts
    assert [part.WhichOneof("part") for part in parts] == ["text", "tool_call"]
    assert parts[1].tool_call.state == ToolCallState.TOOL_CALL_STATE_RUNNING
    assert view_after(15).entries[ANCHOR].assistant.parts[1].tool_call.result.content == "both counted"


def test_a_tool_call_that_the_anchor_does_not_name_yet_is_appended() -> None:
    view = view_after(3)
    call = story.call(ToolCallState.TOOL_CALL_STATE_RUNNING)
    view.apply(story.event(4, entry_id=ANCHOR, tool_call_started=chat.ToolCallStarted(call=call)))
    assert [part.tool_call.call_id for part in view.entries[ANCHOR].assistant.parts] == [CALL]


def test_a_childs_tool_call_does_not_touch_the_anchor() -> None:
    view = view_after(5)
    before = view.entries[ANCHOR].SerializeToString()
    call = story.call(ToolCallState.TOOL_CALL_STATE_COMPLETED)
    view.apply(story.event(6, entry_id=ANCHOR, task_id="k1", tool_call_completed=chat.ToolCallCompleted(call=call)))
    assert view.entries[ANCHOR].SerializeToString() == before


def test_a_subagent_event_replaces_its_item_counts_and_usage_and_adds_its_step() -> None:
    body = view_after(10).entries[BATCH].subagent_batch
    assert [item.state for item in body.batch.items] == [COMPLETED, RUNNING]
    assert (body.batch.counts.completed, body.batch.counts.running, body.batch.usage.input_tokens) == (1, 1, 10)
    assert [step.content for step in body.events] == ["one", "two"]
    assert body.latest_event.content == "two"


def test_a_subagent_event_without_a_step_keeps_the_last_one() -> None:
    body = view_after(9).entries[BATCH].subagent_batch
    assert [step.content for step in body.events] == ["one"]
    assert body.latest_event.content == "one"


def test_a_batch_keeps_its_newest_steps() -> None:
    view = view_after(7)
    for n in range(MAX_BATCH_EVENTS + 5):
        view.apply(story.task_event(8 + n, 0, RUNNING, QUEUED, words=str(n)))
    kept = [step.content for step in view.entries[BATCH].subagent_batch.events]
    assert (kept[0], kept[-1], len(kept)) == ("5", str(MAX_BATCH_EVENTS + 4), MAX_BATCH_EVENTS)


def test_the_end_of_a_delegation_replaces_the_batch() -> None:
    view = view_after(7)
    ended = chat.SubagentRunCompleted(batch=story.batch(COMPLETED, COMPLETED), result_entry_id=RESULT)
    view.apply(story.event(8, entry_id=ANCHOR, subagent_run_completed=ended))
    assert view.entries[BATCH].subagent_batch.batch == ended.batch


def test_every_event_that_changes_an_entry_stamps_it() -> None:
    for count, entry_id in [(1, USER), (2, ANCHOR), (5, ANCHOR), (7, BATCH), (9, BATCH), (14, BATCH), (15, ANCHOR)]:
        entry = view_after(count).entries[entry_id]
        assert (entry.updated_seq, entry.update_time.seconds) == (count, count)


def test_a_question_is_replaced_when_it_is_asked_and_when_it_is_resolved() -> None:
    view = view_after(5)

    def question(seq: int, state: entries.ClarifyState) -> entries.Entry:
        body = entries.ClarifyBody(request_id="q", state=state)
        return story.entry("e9-clarify", seq, kind=entries.ENTRY_KIND_CLARIFY, clarify=body)

    asked = question(6, entries.ClarifyState.CLARIFY_STATE_OPEN)
    view.apply(story.event(6, clarify_request=chat.ClarifyRequest(entry=asked)))
    assert view.entries["e9-clarify"] == asked
    answered = question(7, entries.ClarifyState.CLARIFY_STATE_ANSWERED)
    view.apply(story.event(7, clarify_resolved=chat.ClarifyResolved(entry=answered)))
    assert view.entries["e9-clarify"] == answered


def test_the_sessions_own_fields_follow_their_event() -> None:
    view = view_after(5)
    view.apply(story.event(6, session_updated=chat.SessionUpdated(session=Session(title="named"))))
    assert view.session.title == "named"


@pytest.mark.parametrize(
    "kind",
    [
        {"thinking_done": chat.ThinkingDone(text="hm")},
        {"skill_start": chat.SkillStart(call_id=CALL)},
        {"skill_end": chat.SkillEnd(call_id=CALL)},
        {"todo_update": chat.TodoUpdate()},
        {"compaction_start": chat.CompactionStart()},
        {"compaction_done": chat.CompactionDone()},
        {"compaction_error": chat.CompactionError()},
        {"message_receipt": chat.MessageReceipt()},
        {"steer_receipt": chat.SteerReceipt()},
        {},  # a kind that a later version adds
    ],
)
def test_durable_events_that_carry_no_entry_only_count(kind: dict[str, Any]) -> None:
    view, before = view_after(5), view_after(5)
    assert view.apply(story.event(6, entry_id=ANCHOR, **kind))
    before.seq = 6
    assert equal(view, before) == []


@pytest.mark.parametrize(
    "kind",
    [
        {"session_list_changed": chat.SessionListChanged()},
        {"assistant_stream_end": chat.AssistantStreamEnd(attempt=1)},
        {"progress": chat.Progress(message="on")},
        {"pong": chat.Pong()},
        {"heartbeat": chat.Heartbeat(seq=5)},
    ],
)
def test_live_events_change_no_entry_and_no_seq(kind: dict[str, Any]) -> None:
    view = view_after(5)
    assert view.apply(story.event(0, entry_id=ANCHOR, **kind))
    assert equal(view, view_after(5)) == []


def test_an_event_too_early_is_a_gap_and_changes_nothing() -> None:
    view = view_after(5)
    with pytest.raises(Gap) as caught:
        view.apply(story.whole_turn()[6])
    assert (caught.value.last, caught.value.seq) == (5, 7)
    assert equal(view, view_after(5)) == []


def test_an_event_that_was_applied_is_ignored() -> None:
    view = view_after(9)
    assert not view.apply(story.whole_turn()[7])
    assert equal(view, view_after(9)) == []


def test_the_end_of_the_turn_is_remembered() -> None:
    view = view_after(17)
    assert view.turn_end is not None
    assert view.turn_end.done.outcome == chat.TURN_OUTCOME_COMPLETED


def test_a_reload_shows_what_the_events_showed() -> None:
    view = view_after(17)
    assert equal(view, tree_of(view)) == []


def test_a_card_comes_from_the_result_once_it_is_there() -> None:
    assert [entry.entry_id for entry in view_after(12).batches()] == [BATCH]
    assert [entry.entry_id for entry in view_after(13).batches()] == [RESULT]


def test_events_belong_to_their_receiver() -> None:
    events = story.whole_turn()
    view = SessionView()
    for event in events:
        view.apply(event)
    assert events == story.whole_turn()


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(1, 17)), max_size=20), st.integers(0, 17))
def test_replays_of_any_stretch_change_nothing(replays: list[tuple[int, int]], cut: int) -> None:
    events = story.whole_turn()
    view = view_after(cut)
    for start, length in replays:
        for event in events[start : start + length]:
            if event.seq <= view.seq + 1:
                view.apply(event)
    for event in events[view.seq :]:
        view.apply(event)
    assert equal(view, view_after(17)) == []


@given(st.integers(0, 17))
def test_a_replay_over_rows_that_are_already_newer_changes_nothing(seq: int) -> None:
    final = view_after(17)
    late = tree_of(final, seq=seq)
    for event in story.whole_turn()[seq:]:
        late.apply(event)
    assert equal(late, final) == []


@given(st.integers(0, 17))
def test_a_replay_that_joins_current_rows_ends_where_the_live_stream_ended(seq: int) -> None:
    """Replayed entry events carry the entry as it stands now, not as it stood then."""
    final = view_after(17)
    view = view_after(seq)
    for event in story.whole_turn()[seq:]:
        for kind in ("session_entry_added", "session_entry_updated"):
            if event.HasField(kind):
                which = getattr(event, kind).entry
                which.CopyFrom(final.entries[which.entry_id])
        view.apply(event)
    assert equal(view, final) == []


def test_nothing_is_drafted_for_tasks_that_ended() -> None:
    view = view_after(9)
    for task_id in TASKS:
        view.apply(story.started(words="so far", task_id=task_id))
    view.apply(story.whole_turn()[9])
    assert set(view.drafts) == {(ANCHOR, "k2")}
