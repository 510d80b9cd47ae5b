"""Append: one atomic batch of writes, its events numbered in the transaction that stores what they report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_store import compactions
from netaclaw_store.batch import Batch, Part, referred
from netaclaw_store.codec import entry_body, entry_from, open_question, search_text, session_from, timestamp
from netaclaw_store.database import Database
from netaclaw_store.delegations import batch_id_of, fill_entry, load
from netaclaw_store.hydrate import ADDED, UPDATED, StoredEvent, hydrate, stamp_came
from netaclaw_store.leases import session_not_found, stale_generation
from netaclaw_store.queries import SQL
from netaclaw_store.queue import take_into_turn
from netaclaw_store.side_rows import write_side_rows
from netaclaw_store.usage_columns import entry_usage

MAX_ANSWER_BYTES = 3 * 1024 * 1024
"""Of events that are answered at once; more of them are read in pages."""

_NOT_YET = ChatEvent()
"""Keeps the place of an event whose entry is being written."""


async def append(database: Database, request: j.AppendRequest, parts: Sequence[Part]) -> tuple[j.AppendResponse, str]:
    """Store a batch, its writes taken apart; answers its events and the session's owner.

    A repeat answers the session's last seq after it, without events and without writing. Events that do not fit an
    answer are left to be read, as those of a repeat.
    """
    return await database.transact(lambda connection: _append(connection, request, parts))


async def _append(
    connection: asyncpg.Connection, request: j.AppendRequest, parts: Sequence[Part]
) -> tuple[j.AppendResponse, str]:
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
    await _load_referred(connection, request, batch, referred(parts))
    for kind, body in parts:
        if kind == "queue_take" and await take_into_turn(connection, request.session_id, body):
            batch.taken.add(body.request_id)
    batch.add(parts)
    response.last_seq = batch.seq
    shown = _session_after(session, batch)
    rows, _ = await asyncio.gather(_store(connection, request, session, batch), _show_what_came(response, shown, batch))
    await write_side_rows(connection, request.session_id, session["owner_id"], parts)
    await compactions.note(connection, session, batch, parts)
    if batch.ended is not None:
        await connection.execute(SQL["end_turn"], request.session_id, batch.ended.turn_id, batch.ended.outcome)
    await _fill_delegations(connection, request.session_id, batch)
    for seq, entry in batch.reported.items():
        place = seq - session["seq"] - 1
        event = batch.events[place]
        if event.came is None:
            response.events[place].CopyFrom(_shown(event, shown, entry, rows[entry.entry_id]))
    if batch.reported and response.ByteSize() > MAX_ANSWER_BYTES:  # each shows its entry or task once more
        del response.events[:]
        response.repeated_append = True
    return response, session["owner_id"]


async def _fill_delegations(connection: asyncpg.Connection, session_id: str, batch: Batch) -> None:
    """Batch and result entries that the answer shows whole, from the rows as the batch left them."""
    first = batch.seq - len(batch.events) + 1
    whole = [entry for seq, entry in batch.reported.items() if batch.events[seq - first].told is None]
    loaded = await load(connection, session_id, map(batch_id_of, whole))
    for entry in whole:
        if batch_id_of(entry) in loaded:
            fill_entry(entry, loaded[batch_id_of(entry)])


async def _show_what_came(response: j.AppendResponse, session: Session, batch: Batch) -> None:
    """Fill in the events that need no row, and keep a place for the others, while the database writes them all."""
    await asyncio.sleep(0)  # yields once, so that the statement is on its way before this work begins
    stamp_came(batch.events, session.session_id)
    response.events.extend([event.came or _known(event, session, batch) for event in batch.events])


def _known(event: StoredEvent, session: Session, batch: Batch) -> ChatEvent:
    return _NOT_YET if event.seq in batch.reported else hydrate(event, session, {})


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
    events = batch.events
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


def _shown(event: StoredEvent, session: Session, entry: Entry, row: asyncpg.Record) -> ChatEvent:
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
