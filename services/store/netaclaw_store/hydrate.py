"""Durable events as clients see them: the stored reference joined with what it refers to.

One function serves the answer of an append (joined with the entries as the batch wrote them, step by step) and the
replay (joined with the rows as they stand).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from netaclaw.chat.v1.event_pb2 import ChatEvent, SessionLeafChanged, SubagentEvent
from netaclaw.session.v1.entry_pb2 import Entry, Session, ToolCallPart
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw_store.codec import Row, timestamp
from netaclaw_store.projection import project

_FIELDS = ChatEvent.DESCRIPTOR.fields_by_name

ADDED = _FIELDS["session_entry_added"].number
UPDATED = _FIELDS["session_entry_updated"].number
LEAF_CHANGED = _FIELDS["session_leaf_changed"].number
SESSION_UPDATED = _FIELDS["session_updated"].number
REMOVED = _FIELDS["session_entry_removed"].number

_WHOLE_ENTRY = ("session_entry_added", "session_entry_updated", "clarify_request", "clarify_resolved")
_TOOL_CALL = ("tool_call_started", "tool_call_completed")
_SUBAGENT = ("subagent_run_started", "subagent_event", "subagent_run_completed")
_LIVE = frozenset(
    {
        *("session_list_changed", "assistant_stream_start", "assistant_stream_delta", "assistant_stream_end"),
        *("tool_result_streamed", "process_event", "progress", "token_update", "pong", "heartbeat"),
    }
)


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

    @property
    def name(self) -> str:
        """The event's field name in ChatEvent; empty for a kind that this version does not know."""
        field = ChatEvent.DESCRIPTOR.fields_by_number.get(self.kind)
        return field.name if field is not None else ""


def is_durable(event: ChatEvent) -> bool:
    """Whether the event may be stored."""
    name = event.WhichOneof("event")
    return name is not None and name not in _LIVE


def entry_event(kind: int, entry: Entry) -> StoredEvent:
    """session_entry_added or session_entry_updated of an entry."""
    return StoredEvent(kind, entry.entry_id, entry.entry_id, entry.turn_id, "", b"")


def leaf_event(leaf_entry_id: str) -> StoredEvent:
    """session_leaf_changed by a command."""
    payload = SessionLeafChanged(leaf_entry_id=leaf_entry_id).SerializeToString()
    return StoredEvent(LEAF_CHANGED, leaf_entry_id, "", "", "", payload)


def reduce(event: ChatEvent) -> StoredEvent:
    """What is kept of an event: references and the parts that changed."""
    name = event.WhichOneof("event")
    assert name is not None
    body: Any = getattr(event, name)
    subject = ""
    told = None
    kept: Any = body
    if name in _WHOLE_ENTRY:
        subject = body.entry.entry_id or event.entry_id
        kept = type(body)()
    elif name in _TOOL_CALL:
        subject = event.entry_id
        kept = type(body)(call=ToolCallPart(call_id=body.call.call_id))
    elif name == "subagent_event":
        subject = body.batch_entry_id
        kept = type(body)(batch_entry_id=subject, item=SubagentTask(task_id=body.item.task_id or event.task_id))
        told = body if body.HasField("counts") else None
        if body.HasField("process_event"):
            kept.process_event.CopyFrom(body.process_event)
        if body.HasField("result"):  # only that there is one: replay takes it from the rows
            kept.result.resume_handle = kept.item.task_id
    elif name in _SUBAGENT:
        subject = body.batch.batch_entry_id
        kept = type(body)()
        kept.CopyFrom(body)
        kept.ClearField("batch")
        kept.batch.batch_entry_id = subject
    elif name == "session_updated":
        kept = type(body)()
    return StoredEvent(
        kind=_FIELDS[name].number,
        entry_id=event.entry_id or subject,
        subject_entry_id=subject,
        turn_id=event.turn_id,
        task_id=event.task_id,
        payload=kept.SerializeToString(),
        told=told,
    )


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
    body.result.MergeFrom(next((each for each in stored.final_results if each.resume_handle == task_id), body.result))
    body.evidence_summaries.extend(fact for fact in stored.evidence_summaries if fact.task_id == task_id)
