"""What a list of writes comes to. Pure: no statement is sent from here.

Every write is looked into once, by `taken_apart`; the hot path of a busy session is a batch of many events, and what
it costs per event is what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from netaclaw.chat.v1.event_pb2 import RECEIPT_STATE_TAKEN, SessionLeafChanged
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_store.codec import timestamp
from netaclaw_store.delegations import complete_step
from netaclaw_store.hydrate import ADDED, LEAF_CHANGED, UPDATED, StoredEvent, entry_event, reduce, step_events
from netaclaw_store.queue import receipt

Part: TypeAlias = tuple[str | None, Any]
"""A write's kind and message; of an event what is kept of it, None where it is not durable."""


def taken_apart(writes: Iterable[j.Write]) -> list[Part]:
    """The writes, in order. A write that holds nothing has kind None."""
    parts: list[Part] = []
    for write in writes:
        kind = write.WhichOneof("write")
        if kind == "event":
            parts.append((kind, reduce(write.event.event)))
        elif kind == "subagent_steps":
            parts.extend(_steps(write.subagent_steps))
        else:
            parts.append((kind, getattr(write, kind) if kind else None))
    return parts


def _steps(write: j.SubagentStepsWrite) -> Iterator[Part]:
    """A process event and the event that tells of it, for each step."""
    place = write.first_n
    for step in write.process_events:
        yield "process_event", StepRow(write.batch_entry_id, place, write.task_id, step.SerializeToString())
        place += 1
    for event in step_events(write):
        yield "event", event


def referred(parts: Iterable[Part]) -> list[str]:
    """Entries that the batch's events report on and that it does not write itself before."""
    written: set[str] = set()
    wanted: dict[str, None] = {}
    for kind, body in parts:
        if kind == "event":
            subject = body.subject_entry_id
            if subject and subject not in written:
                wanted[subject] = None
        elif kind == "entry":
            written.add(body.entry.entry_id)
    return list(wanted)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A process event as its row keeps it."""

    batch_entry_id: str
    n: int
    task_id: str
    body: bytes


@dataclass(slots=True)
class Batch:
    """A batch as it unfolds from the session's row."""

    seq: int
    leaf: str
    running_turn_id: str
    now: datetime
    entries: dict[str, Entry] = field(default_factory=dict)
    """The batch's entries by id, each as its last write left it."""
    events: list[StoredEvent] = field(default_factory=list)
    reported: dict[int, Entry] = field(default_factory=dict)
    """By seq, the entry that the event reports on as the batch had written it by then."""
    quiet: set[str] = field(default_factory=set)
    """Entries written without an event of their own, until an event reports on them."""
    updated: dict[str, int] = field(default_factory=dict)
    """Seq of the last event on each entry."""
    tasks: dict[str, j.SubagentTaskWrite] = field(default_factory=dict)
    """Tasks that the batch writes, each as its last write left it."""
    taken: set[str] = field(default_factory=set)
    """Waiting messages that the batch took, by request_id."""
    ended: j.TurnEndWrite | None = None

    def add(self, parts: Sequence[Part]) -> None:
        """Take the writes in order."""
        for kind, body in parts:
            if kind == "event":
                self._event(body)
            elif kind == "entry":
                self._entry(body)
            elif kind == "leaf":
                self._leaf(body)
            elif kind == "subagent_task":
                self.tasks[body.task.task_id] = body
            elif kind == "queue_take":
                if body.request_id in self.taken:
                    self._log(receipt(body.request_id, RECEIPT_STATE_TAKEN, body.turn_id))
            elif kind == "turn_end":
                self.ended = body
                if self.running_turn_id == body.turn_id:
                    self.running_turn_id = ""
        for entry_id in self.quiet:
            if self.events:
                self.updated[entry_id] = self.seq

    def _entry(self, write: j.EntryWrite) -> None:
        entry = Entry()
        entry.CopyFrom(write.entry)
        known = entry.entry_id in self.entries
        self.entries[entry.entry_id] = entry
        if write.quiet:
            self.quiet.add(entry.entry_id)
        else:
            self._log(entry_event(UPDATED if known else ADDED, entry))

    def _event(self, stored: StoredEvent) -> None:
        if self.quiet and not stored.subject_entry_id and stored.entry_id in self.quiet:
            stored.subject_entry_id = stored.entry_id
        told = stored.told
        if told is not None and told.item.task_id in self.tasks:
            complete_step(told, self.tasks[told.item.task_id])
        self._log(stored)

    def _leaf(self, write: j.LeafWrite) -> None:
        if self.leaf != write.expected_leaf_entry_id:
            return
        self.leaf = write.leaf_entry_id
        payload = SessionLeafChanged(leaf_entry_id=self.leaf).SerializeToString()
        self._log(StoredEvent(LEAF_CHANGED, self.leaf, "", self.running_turn_id, "", payload))

    def _log(self, event: StoredEvent) -> None:
        self.seq += 1
        event.seq, event.time = self.seq, self.now
        self.events.append(event)
        subject = event.subject_entry_id
        if not subject:
            return
        self.quiet.discard(subject)
        self.updated[subject] = self.seq
        if subject in self.entries:
            entry = Entry()
            entry.CopyFrom(self.entries[subject])
            entry.updated_seq = self.seq
            entry.update_time.CopyFrom(timestamp(self.now))
            self.reported[self.seq] = entry
