"""What is kept of an event, and what it is joined with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw_store.hydrate import StoredEvent, event_from, hydrate, reduce, stamp_came

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
SESSION = e.Session(session_id="s", title="now")


def _stored(event: v.ChatEvent) -> StoredEvent:
    stored = reduce(event)
    assert stored is not None
    stored.seq, stored.time = 7, NOW
    return stored


def _anchor() -> e.Entry:
    entry = e.Entry(entry_id="a", kind=e.ENTRY_KIND_ASSISTANT)
    entry.assistant.parts.add().tool_call.call_id = "c"
    entry.assistant.parts[0].tool_call.arguments_json = "secret " * 100
    return entry


def _batch() -> e.Entry:
    entry = e.Entry(entry_id="b", kind=e.ENTRY_KIND_SUBAGENT_BATCH)
    batch = entry.subagent_batch.batch
    batch.batch_entry_id = "b"
    batch.items.add(task_id="t", goal="secret " * 100, state=s.SUBAGENT_TASK_STATE_RUNNING)
    batch.counts.total = 1
    batch.usage.input_tokens = 5
    return entry


@pytest.mark.parametrize(
    "event",
    [
        v.ChatEvent(entry_id="a", session_entry_added=v.SessionEntryAdded(entry=_anchor())),
        v.ChatEvent(entry_id="a", tool_call_started=v.ToolCallStarted(call=_anchor().assistant.parts[0].tool_call)),
        v.ChatEvent(entry_id="a", tool_call_completed=v.ToolCallCompleted(call=_anchor().assistant.parts[0].tool_call)),
        v.ChatEvent(entry_id="a", subagent_run_started=v.SubagentRunStarted(batch=_batch().subagent_batch.batch)),
        v.ChatEvent(
            entry_id="a",
            subagent_event=v.SubagentEvent(batch_entry_id="b", item=_batch().subagent_batch.batch.items[0]),
        ),
        v.ChatEvent(entry_id="a", subagent_run_completed=v.SubagentRunCompleted(batch=_batch().subagent_batch.batch)),
    ],
)
def test_only_references_are_stored_and_the_rest_is_joined_back(event: v.ChatEvent) -> None:
    stored = _stored(event)
    assert b"secret" not in stored.payload
    shown = hydrate(stored, SESSION, {"a": _anchor(), "b": _batch()})
    assert "secret" in str(shown)
    assert (shown.seq, shown.session_id, shown.entry_id) == (7, "s", "a")
    assert shown.time.nanos == 678901000


@pytest.mark.parametrize("field", [each.name for each in v.ChatEvent.DESCRIPTOR.oneofs_by_name["event"].fields])
def test_an_event_is_shown_on_append_as_it_will_be_replayed(field: str) -> None:
    event = v.ChatEvent(entry_id="a", turn_id="t", task_id="k", seq=3, session_id="other")
    event.time.FromDatetime(NOW.replace(microsecond=7))
    getattr(event, field).SetInParent()
    if (stored := reduce(event)) is None:
        return
    row = {name: getattr(stored, name) for name in ("kind", "entry_id", "subject_entry_id", "turn_id", "task_id")}
    replayed = event_from({**row, "payload": stored.payload, "seq": 7, "time": NOW})
    stored.seq, stored.time = 7, NOW
    entries = {"a": _anchor(), "b": _batch()}
    stamp_came([stored], SESSION.session_id)
    assert (stored.came or hydrate(stored, SESSION, entries)) == hydrate(replayed, SESSION, entries)


def test_an_event_without_its_entry_becomes_a_removal_with_the_same_seq() -> None:
    event = v.ChatEvent(entry_id="a", tool_call_started=v.ToolCallStarted(call=e.ToolCallPart(call_id="c")))
    shown = hydrate(_stored(event), SESSION, {})
    assert (shown.seq, shown.session_entry_removed.entry_id) == (7, "a")


def test_a_kind_of_a_newer_version_becomes_a_removal_instead_of_an_error() -> None:
    stored = StoredEvent(9999, "x", "", "", "", b"\x08\x01", 7, NOW)
    assert hydrate(stored, SESSION, {}).session_entry_removed.entry_id == "x"


def test_a_changed_session_is_shown_as_it_stands() -> None:
    stored = _stored(v.ChatEvent(session_updated=v.SessionUpdated(session=e.Session(title="then"))))
    assert hydrate(stored, SESSION, {}).session_updated.session == SESSION


def test_a_process_event_is_kept_since_it_is_the_part_that_changed() -> None:
    event = v.ChatEvent(entry_id="a")
    event.subagent_event.batch_entry_id = "b"
    event.subagent_event.item.task_id = "t"
    event.subagent_event.process_event.content = "step"
    shown = hydrate(_stored(event), SESSION, {"b": _batch()}).subagent_event
    assert shown.process_event.content == "step"
    assert (shown.counts.total, shown.usage.input_tokens, shown.item.state) == (1, 5, s.SUBAGENT_TASK_STATE_RUNNING)


@pytest.mark.parametrize(
    ("event", "durable"),
    [
        (v.ChatEvent(done=v.Done()), True),
        (v.ChatEvent(session_entry_added=v.SessionEntryAdded()), True),
        (v.ChatEvent(assistant_stream_delta=v.AssistantStreamDelta()), False),
        (v.ChatEvent(process_event=v.ProcessEventReported()), False),
        (v.ChatEvent(heartbeat=v.Heartbeat()), False),
        (v.ChatEvent(), False),
    ],
)
def test_live_events_are_not_stored(event: v.ChatEvent, durable: bool) -> None:
    assert (reduce(event) is not None) is durable
