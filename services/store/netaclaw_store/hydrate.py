"""Durable events as clients see them: the stored reference joined with what it refers to.

One function serves the answer of an append (joined with the entries as the batch wrote them, step by step) and the
replay (joined with the rows as they stand).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from netaclaw.chat.v1.event_pb2 import ChatEvent, SessionLeafChanged, SubagentEvent
from netaclaw.session.v1.entry_pb2 import Entry, Session, ToolCallPart
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.store.v1.journal_service_pb2 import SubagentStepsWrite
from netaclaw_store.codec import Row, timestamp
from netaclaw_store.projection import project

_FIELDS = ChatEvent.DESCRIPTOR.fields_by_name

ADDED = _FIELDS["session_entry_added"].number
UPDATED = _FIELDS["session_entry_updated"].number
LEAF_CHANGED = _FIELDS["session_leaf_changed"].number
SESSION_UPDATED = _FIELDS["session_updated"].number
REMOVED = _FIELDS["session_entry_removed"].number

_WHOLE_ENTRY = frozenset({"session_entry_added", "session_entry_updated", "clarify_request", "clarify_resolved"})
_TOOL_CALL = frozenset({"tool_call_started", "tool_call_completed"})
_SUBAGENT = frozenset({"subagent_run_started", "subagent_event", "subagent_run_completed"})
_JOINED = _WHOLE_ENTRY | _TOOL_CALL | _SUBAGENT
"""Kinds that report on an entry."""
_LIVE = frozenset(
    {
        *("session_list_changed", "assistant_stream_start", "assistant_stream_delta", "assistant_stream_end"),
        *("tool_result_streamed", "process_event", "progress", "token_update", "pong", "heartbeat"),
    }
)
_AS_IT_CAME = (
    frozenset(_FIELDS)
    - _JOINED
    - _LIVE
    - {
        *("seq", "session_id", "turn_id", "entry_id", "task_id", "time"),
        *("session_updated", "session_leaf_changed", "session_entry_removed"),
    }
)
"""Kinds that are stored and shown with nothing taken away or joined."""
_NUMBERS = {name: field.number for name, field in _FIELDS.items()}


@dataclass(slots=True)
class StoredEvent:
    """An event as its row keeps it, seq and time apart."""

    kind: int
    entry_id: str
    subject_entry_id: str
    """The entry that the event reports on; empty when it reports on none."""
    turn_id: str
    task_id: str
    payload: bytes
    seq: int = 0
    time: datetime | None = None
    told: SubagentEvent | None = None
    """A task's step as its writer reported it: published so, and never stored."""
    came: ChatEvent | None = None
    """The event as it was written, where it is shown like that; not in rows."""

    @property
    def name(self) -> str:
        """The event's field name in ChatEvent; empty for a kind that this version does not know."""
        field = ChatEvent.DESCRIPTOR.fields_by_number.get(self.kind)
        return field.name if field is not None else ""


def entry_event(kind: int, entry: Entry) -> StoredEvent:
    """session_entry_added or session_entry_updated of an entry."""
    return StoredEvent(kind, entry.entry_id, entry.entry_id, entry.turn_id, "", b"")


def leaf_event(leaf_entry_id: str) -> StoredEvent:
    """session_leaf_changed by a command."""
    payload = SessionLeafChanged(leaf_entry_id=leaf_entry_id).SerializeToString()
    return StoredEvent(LEAF_CHANGED, leaf_entry_id, "", "", "", payload)


def reduce(event: ChatEvent) -> StoredEvent | None:
    """What is kept of an event: references and the parts that changed. None for an event that is not durable.

    The event itself may become part of what is kept: it is not to be changed afterwards.
    """
    name = event.WhichOneof("event")
    if name is None or name in _LIVE:
        return None
    kept: Any = getattr(event, name)
    if name in _AS_IT_CAME:
        payload = kept.SerializeToString()
        return StoredEvent(_NUMBERS[name], event.entry_id, "", event.turn_id, event.task_id, payload, came=event)
    subject, kept = _reference(name, event, kept)
    return StoredEvent(
        kind=_NUMBERS[name],
        entry_id=event.entry_id or subject,
        subject_entry_id=subject,
        turn_id=event.turn_id,
        task_id=event.task_id,
        payload=kept.SerializeToString(),
    )


def step_events(write: SubagentStepsWrite) -> Iterator[StoredEvent]:
    """The subagent_events of a task's steps; without a step, the one of its new state."""
    kept = SubagentEvent(batch_entry_id=write.batch_entry_id, item=SubagentTask(task_id=write.task_id))
    told = SubagentEvent(counts=write.counts, usage=write.usage)
    told.MergeFrom(kept)
    last = len(write.process_events) - 1
    for index, step in enumerate(write.process_events or (None,)):
        shown = SubagentEvent()
        shown.CopyFrom(told)
        if step is not None:
            kept.process_event.CopyFrom(step)
            shown.process_event.CopyFrom(step)
        if write.ended and index >= last:
            kept.result.resume_handle = write.task_id  # only that there is one: replay takes it from the rows
            shown.result.SetInParent()
        yield StoredEvent(
            kind=_NUMBERS["subagent_event"],
            entry_id=write.parent_entry_id,
            subject_entry_id=write.batch_entry_id,
            turn_id=write.turn_id,
            task_id=write.task_id,
            payload=kept.SerializeToString(),
            told=shown,
        )


def _reference(name: str, event: ChatEvent, body: Any) -> tuple[str, Any]:
    """The entry that the event reports on, and the event's own message without what is joined on reading."""
    if name in _WHOLE_ENTRY:
        return body.entry.entry_id or event.entry_id, type(body)()
    if name in _TOOL_CALL:
        return event.entry_id, type(body)(call=ToolCallPart(call_id=body.call.call_id))
    if name == "subagent_event":
        subject = body.batch_entry_id
        kept = type(body)(batch_entry_id=subject, item=SubagentTask(task_id=body.item.task_id or event.task_id))
        if body.HasField("process_event"):
            kept.process_event.CopyFrom(body.process_event)
        if body.HasField("result"):  # only that there is one: replay takes it from the rows
            kept.result.resume_handle = kept.item.task_id
        return subject, kept
    if name in _SUBAGENT:
        subject = body.batch.batch_entry_id
        kept = type(body)()
        kept.CopyFrom(body)
        kept.ClearField("batch")
        kept.batch.batch_entry_id = subject
        return subject, kept
    return "", type(body)() if name == "session_updated" else body


def event_from(row: Row) -> StoredEvent:
    """An event from its row."""
    return StoredEvent(
        kind=row["kind"],
        entry_id=row["entry_id"],
        subject_entry_id=row["subject_entry_id"],
        turn_id=row["turn_id"],
        task_id=row["task_id"],
        payload=row["payload"],
        seq=row["seq"],
        time=row["time"],
    )


def hydrate(event: StoredEvent, session: Session, entries: Mapping[str, Entry]) -> ChatEvent:
    """The event as it is published or replayed. An event of an entry that is gone becomes session_entry_removed."""
    assert event.time is not None
    shown = ChatEvent(
        seq=event.seq,
        session_id=session.session_id,
        turn_id=event.turn_id,
        entry_id=event.entry_id,
        task_id=event.task_id,
        time=timestamp(event.time),
    )
    name = event.name
    entry = entries.get(event.subject_entry_id) if event.subject_entry_id else None
    if not name or event.kind == REMOVED or (event.subject_entry_id and entry is None):
        shown.session_entry_removed.entry_id = event.subject_entry_id or event.entry_id
        return shown
    body: Any = getattr(shown, name)
    body.SetInParent()
    body.MergeFromString(event.payload)
    if name == "session_updated":
        body.session.CopyFrom(session)
    elif name == "session_leaf_changed":
        body.leaf_entry_id = body.leaf_entry_id or event.entry_id
    elif event.told is not None:
        body.CopyFrom(event.told)
    elif entry is not None:
        _join(name, body, entry)
    return shown


def stamp_came(events: Iterable[StoredEvent], session_id: str) -> None:
    """Complete the events that are shown as they came; they were numbered in one transaction.

    The same as `hydrate` makes of each, at a third of the cost: what they have in common is merged in one stroke.
    """
    stamp = b""
    for event in events:
        if (came := event.came) is not None:
            if not stamp:
                assert event.time is not None
                stamp = ChatEvent(session_id=session_id, time=timestamp(event.time)).SerializeToString()
            if came.HasField("time"):  # the writer's, or of an attempt that lost a race
                came.ClearField("time")
            came.MergeFromString(stamp)
            came.seq = event.seq


def _join(name: str, body: Any, entry: Entry) -> None:
    if name in _WHOLE_ENTRY:
        body.entry.CopyFrom(entry)
        project(body.entry)
    elif name in _TOOL_CALL:
        for part in entry.assistant.parts:
            if part.tool_call.call_id == body.call.call_id:
                body.call.CopyFrom(part.tool_call)
                return
    elif name in _SUBAGENT:
        batch = entry.subagent_batch.batch
        if name != "subagent_event":
            body.batch.CopyFrom(batch)
            return
        body.counts.CopyFrom(batch.counts)
        body.usage.CopyFrom(batch.usage)
        task_id = body.item.task_id
        body.item.MergeFrom(next((item for item in batch.items if item.task_id == task_id), SubagentTask()))
        if body.HasField("result"):
            _join_result(body, entry, task_id)


def _join_result(body: Any, entry: Entry, task_id: str) -> None:
    stored = entry.subagent_batch
    found = next((each for each in stored.final_results if each.resume_handle == task_id), None)
    if found is not None:
        body.result.CopyFrom(found)
    body.evidence_summaries.extend(fact for fact in stored.evidence_summaries if fact.task_id == task_id)
