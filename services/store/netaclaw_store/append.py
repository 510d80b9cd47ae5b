"""Append: one atomic batch of writes, its events numbered in the transaction that stores what they report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from netaclaw.chat.v1.event_pb2 import RECEIPT_STATE_TAKEN, ChatEvent, SessionLeafChanged
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_store.codec import entry_body, entry_from, open_question, search_text, session_from, timestamp
from netaclaw_store.database import Database
from netaclaw_store.delegations import batch_id_of, complete_step, fill_entry, load
from netaclaw_store.hydrate import ADDED, LEAF_CHANGED, UPDATED, StoredEvent, entry_event, hydrate, reduce
from netaclaw_store.leases import session_not_found, stale_generation
from netaclaw_store.queries import SQL
from netaclaw_store.queue import receipt, take_into_turn
from netaclaw_store.side_rows import entry_usage, write_side_rows


@dataclass(slots=True)
class _Step:
    """An event of the batch and the entry that it reports on, as the batch had written it by then."""

    event: StoredEvent
    entry: Entry | None


@dataclass(slots=True)
class Batch:
    """What a list of writes comes to, given the session's row. Pure: no statement is sent from here."""

    seq: int
    leaf: str
    running_turn_id: str
    now: datetime
    entries: dict[str, Entry] = field(default_factory=dict)
    """The batch's entries by id, each as its last write left it."""
    steps: list[_Step] = field(default_factory=list)
    quiet: set[str] = field(default_factory=set)
    """Entries written without an event of their own, until an event reports on them."""
    updated: dict[str, int] = field(default_factory=dict)
    """Seq of the last event on each entry."""
    tasks: dict[str, j.SubagentTaskWrite] = field(default_factory=dict)
    """Tasks that the batch writes, each as its last write left it."""
    taken: set[str] = field(default_factory=set)
    """Waiting messages that the batch took, by request_id."""
    ended: j.TurnEndWrite | None = None

    def add(self, writes: Iterable[j.Write], reduced: Iterable[StoredEvent]) -> None:
        """Take the writes in order; `reduced` has what is kept of each event write, in order."""
        kept = iter(reduced)
        for write in writes:
            kind = write.WhichOneof("write")
            if kind == "entry":
                self._entry(write.entry)
            elif kind == "event":
                self._event(next(kept))
            elif kind == "leaf":
                self._leaf(write.leaf)
            elif kind == "subagent_task":
                self.tasks[write.subagent_task.task.task_id] = write.subagent_task
            elif kind == "queue_take":
                taken = write.queue_take
                if taken.request_id in self.taken:
                    self._log(receipt(taken.request_id, RECEIPT_STATE_TAKEN, taken.turn_id))
            elif kind == "turn_end":
                self.ended = write.turn_end
                if self.running_turn_id == write.turn_end.turn_id:
                    self.running_turn_id = ""
        for entry_id in self.quiet:
            if self.steps:
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
        if not stored.subject_entry_id and stored.entry_id in self.quiet:
            stored.subject_entry_id = stored.entry_id
        if stored.told is not None and stored.told.item.task_id in self.tasks:
            complete_step(stored.told, self.tasks[stored.told.item.task_id])
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
        entry = None
        subject = event.subject_entry_id
        if subject:
            self.quiet.discard(subject)
            self.updated[subject] = self.seq
            if subject in self.entries:
                entry = Entry()
                entry.CopyFrom(self.entries[subject])
                entry.updated_seq = self.seq
                entry.update_time.CopyFrom(timestamp(self.now))
        self.steps.append(_Step(event, entry))


def reduced_events(writes: Iterable[j.Write]) -> list[StoredEvent]:
    """What is kept of the event writes, in order."""
    return [reduce(write.event.event) for write in writes if write.WhichOneof("write") == "event"]


def referred(writes: Iterable[j.Write], reduced: Iterable[StoredEvent]) -> list[str]:
    """Entries that the batch's events report on and that it does not write itself before."""
    written: set[str] = set()
    wanted: dict[str, None] = {}
    kept = iter(reduced)
    for write in writes:
        kind = write.WhichOneof("write")
        if kind == "entry":
            written.add(write.entry.entry.entry_id)
        elif kind == "event":
            subject = next(kept).subject_entry_id
            if subject and subject not in written:
                wanted[subject] = None
    return list(wanted)


async def append(database: Database, request: j.AppendRequest) -> tuple[j.AppendResponse, str]:
    """Store a batch; answers its events and the session's owner.

    A repeat answers the session's last seq after it, without events and without writing.
    """
    return await database.transact(lambda connection: _append(connection, request))


async def _append(connection: asyncpg.Connection, request: j.AppendRequest) -> tuple[j.AppendResponse, str]:
    session = await connection.fetchrow(SQL["lock_for_append"], request.session_id)
    if session is None:
        raise session_not_found(request.session_id)
    if session["generation"] != request.generation:
        raise stale_generation(request.generation)
    response = j.AppendResponse(session_id=request.session_id, append_no=request.append_no)
    expected = session["append_no"] + 1
    if 0 < request.append_no < expected:
        response.last_seq = session["append_seq"] if request.append_no == expected - 1 else session["seq"]
        response.repeated_append = True
        return response, session["owner_id"]
    if request.append_no != expected:
        raise NetaclawError(
            Reason.REASON_APPEND_OUT_OF_ORDER,
            f"append {expected} comes next, not {request.append_no}",
            metadata={"expected": str(expected)},
        )
    batch = Batch(session["seq"], session["leaf_entry_id"], session["running_turn_id"], session["now"])
    reduced = reduced_events(request.writes)
    await _load_referred(connection, request, batch, referred(request.writes, reduced))
    for write in request.writes:
        if write.HasField("queue_take") and await take_into_turn(connection, request.session_id, write.queue_take):
            batch.taken.add(write.queue_take.request_id)
    batch.add(request.writes, reduced)
    rows = await _store(connection, request, session, batch)
    await write_side_rows(connection, request, session["owner_id"])
    if batch.ended is not None:
        await connection.execute(SQL["end_turn"], request.session_id, batch.ended.turn_id, batch.ended.outcome)
    response.last_seq = batch.seq
    await _fill_delegations(connection, request.session_id, batch)
    shown = _session_after(session, batch)
    response.events.extend(_shown(step, shown, rows) for step in batch.steps)
    return response, session["owner_id"]


async def _fill_delegations(connection: asyncpg.Connection, session_id: str, batch: Batch) -> None:
    """Batch and result entries that the answer shows whole, from the rows as the batch left them."""
    whole = [step.entry for step in batch.steps if step.entry is not None and step.event.told is None]
    loaded = await load(connection, session_id, map(batch_id_of, whole))
    for entry in whole:
        if batch_id_of(entry) in loaded:
            fill_entry(entry, loaded[batch_id_of(entry)])


async def _load_referred(
    connection: asyncpg.Connection, request: j.AppendRequest, batch: Batch, wanted: Sequence[str]
) -> None:
    if not wanted:
        return
    rows = await connection.fetch(SQL["entries_by_id"], request.session_id, wanted)
    for row in rows:
        batch.entries[row["entry_id"]] = entry_from(request.session_id, row)
    for entry_id in wanted:
        if entry_id not in batch.entries:
            raise NetaclawError(
                Reason.REASON_ENTRY_NOT_FOUND, "an event reports on no entry", metadata={"entry_id": entry_id}
            )


async def _store(
    connection: asyncpg.Connection, request: j.AppendRequest, session: asyncpg.Record, batch: Batch
) -> dict[str, asyncpg.Record]:
    entries = list(batch.entries.values())
    events = [step.event for step in batch.steps]
    rows = await connection.fetch(
        SQL["append_rows"],
        *(request.session_id, session["owner_id"], session["entry_count"]),
        *([e.entry_id for e in entries], [e.parent_entry_id for e in entries], [e.turn_id for e in entries]),
        *([e.kind for e in entries], [e.state for e in entries], [e.tool_call_id for e in entries]),
        *([entry_body(e) for e in entries], [search_text(e) for e in entries], [open_question(e) for e in entries]),
        *([entry_usage(e) for e in entries], [batch.updated.get(e.entry_id, 0) for e in entries]),
        *([v.seq for v in events], [v.kind for v in events], [v.entry_id for v in events]),
        *([v.subject_entry_id for v in events], [v.turn_id for v in events], [v.task_id for v in events]),
        [v.payload for v in events],
        *(batch.seq, batch.leaf, batch.running_turn_id, request.append_no),
    )
    return {row["entry_id"]: row for row in rows}


def _session_after(session: asyncpg.Record, batch: Batch) -> Session:
    changed: dict[str, Any] = {
        "seq": batch.seq,
        "leaf_entry_id": batch.leaf,
        "running_turn_id": batch.running_turn_id,
        "update_time": batch.now,
        "needs_attention": session["needs_attention"] or any(open_question(e) for e in batch.entries.values()),
    }
    return session_from({**session, **changed})


def _shown(step: _Step, session: Session, rows: dict[str, asyncpg.Record]) -> ChatEvent:
    event, entry = step.event, step.entry
    if entry is None:
        return hydrate(event, session, {})
    row = rows[entry.entry_id]
    if event.kind == ADDED and not row["added"]:
        event.kind = UPDATED
    entry.session_id = session.session_id
    entry.label = row["label"]
    entry.create_time.CopyFrom(timestamp(row["create_time"]))
    return hydrate(event, session, {entry.entry_id: entry})


async def write_drafts(database: Database, drafts: Iterable[j.Draft]) -> None:
    """Keep text checkpoints; does not wait for the disk. Drafts of lost leases are dropped in silence."""
    newest = {(d.session_id, d.entry_id, d.task_id, d.channel): d for d in drafts}
    if not newest:
        return
    listed = list(newest.values())

    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute("SET LOCAL synchronous_commit = off")
        await connection.execute(
            SQL["write_drafts"],
            *([d.session_id for d in listed], [d.generation for d in listed], [d.entry_id for d in listed]),
            *([d.task_id for d in listed], [d.channel for d in listed], [d.attempt for d in listed]),
            [d.text.encode() for d in listed],
        )

    await database.transact(work)
