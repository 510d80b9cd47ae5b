"""What a list of writes comes to, before any statement is sent."""

from __future__ import annotations

from datetime import UTC, datetime

from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_store.batch import Batch, referred, taken_apart

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def _entry(entry_id: str, text: str = "", *, quiet: bool = False) -> j.Write:
    entry = e.Entry(entry_id=entry_id, kind=e.ENTRY_KIND_ASSISTANT)
    entry.assistant.parts.add().text.text = text
    return j.Write(entry=j.EntryWrite(entry=entry, quiet=quiet))


def _event(event: v.ChatEvent) -> j.Write:
    return j.Write(event=j.EventWrite(event=event))


def _batch(*writes: j.Write) -> Batch:
    batch = Batch(seq=10, leaf="leaf", running_turn_id="turn", now=NOW)
    batch.add(taken_apart(writes))
    return batch


def test_events_are_numbered_in_the_order_of_writes() -> None:
    batch = _batch(_entry("a"), _entry("b"), _entry("a"))
    assert [(event.seq, event.name) for event in batch.events] == [
        (11, "session_entry_added"),
        (12, "session_entry_added"),
        (13, "session_entry_updated"),
    ]
    assert batch.updated == {"a": 13, "b": 12}


def test_each_event_shows_its_entry_as_it_was_then() -> None:
    batch = _batch(_entry("a", "one"), _entry("a", "two"))
    shown = [entry.assistant.parts[0].text.text for entry in batch.reported.values()]
    assert shown == ["one", "two"]
    assert batch.entries["a"].assistant.parts[0].text.text == "two"


def test_a_quiet_write_is_reported_by_the_event_that_follows() -> None:
    todo = v.ChatEvent(entry_id="a", todo_update=v.TodoUpdate())
    batch = _batch(_entry("a", quiet=True), _event(todo))
    assert [event.name for event in batch.events] == ["todo_update"]
    assert batch.updated == {"a": 11}


def test_an_event_that_changes_no_entry_leaves_its_seq_alone() -> None:
    batch = _batch(_event(v.ChatEvent(entry_id="a", done=v.Done())))
    assert [event.name for event in batch.events] == ["done"]
    assert batch.updated == {}


def test_a_turn_end_frees_the_running_turn_only_if_it_is_that_one() -> None:
    assert _batch(j.Write(turn_end=j.TurnEndWrite(turn_id="turn"))).running_turn_id == ""
    assert _batch(j.Write(turn_end=j.TurnEndWrite(turn_id="other"))).running_turn_id == "turn"


def test_a_leaf_that_moved_meanwhile_stays_and_costs_no_seq() -> None:
    moved = j.LeafWrite(leaf_entry_id="new", expected_leaf_entry_id="elsewhere")
    batch = _batch(j.Write(leaf=moved), _entry("a"))
    assert batch.leaf == "leaf"
    assert [event.seq for event in batch.events] == [11]


def test_only_entries_that_the_batch_does_not_write_before_are_looked_up() -> None:
    def started(entry_id: str) -> j.Write:
        call = v.ToolCallStarted(call=e.ToolCallPart(call_id="c"))
        return _event(v.ChatEvent(entry_id=entry_id, tool_call_started=call))

    writes = [_entry("a"), started("a"), started("b"), started("b"), _entry("b")]
    assert referred(taken_apart(writes)) == ["b"]
