"""BeginTurn: one statement where nothing stands in the way, a closer look under a lock otherwise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_REJECT, WHEN_BUSY_UNSPECIFIED
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import (
    ENTRY_KIND_ASSISTANT,
    ENTRY_KIND_USER,
    ENTRY_STATE_COMPLETE,
    ENTRY_STATE_STREAMING,
    AssistantBody,
    Entry,
    Session,
    UserBody,
)
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_store import queue
from netaclaw_store.codec import (
    agent_from,
    entry_body,
    entry_from,
    search_text,
    session_from,
    timestamp,
    title_from,
)
from netaclaw_store.database import Database, LostRace
from netaclaw_store.hydrate import ADDED, LEAF_CHANGED, SESSION_UPDATED, StoredEvent, entry_event, hydrate
from netaclaw_store.leases import not_alive, owned_elsewhere, session_not_found, turn_running
from netaclaw_store.queries import SQL
from netaclaw_store.settings import DEFAULT_WORKSPACE

MAX_PATH_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is known before the database is asked."""

    request: j.BeginTurnRequest
    user: Entry
    placeholder: Entry
    hash: bytes

    def parameters(self) -> tuple[Any, ...]:
        asked = self.request
        return (
            *(asked.instance_id, asked.owner_id, asked.session_id, asked.turn_id),
            *(asked.user_entry_id, asked.assistant_entry_id, asked.agent_id, asked.agent_name, asked.leaf_entry_id),
            *(asked.request_id, self.hash, asked.create_session, asked.known_entry_id, title_from(asked.content)),
            *(entry_body(self.user), search_text(self.user), entry_body(self.placeholder), MAX_PATH_BYTES),
            asked.from_root,
        )

    def parameters_in_new_session(self) -> tuple[Any, ...]:
        asked = self.request
        return (
            *(asked.instance_id, asked.owner_id, asked.session_id, asked.turn_id),
            *(asked.user_entry_id, asked.assistant_entry_id, asked.agent_id, asked.agent_name),
            *(asked.request_id, self.hash, title_from(asked.content)),
            *(entry_body(self.user), search_text(self.user), entry_body(self.placeholder), DEFAULT_WORKSPACE),
        )


async def begin_turn(database: Database, request: j.BeginTurnRequest) -> j.BeginTurnResponse:
    """Begin a turn, join the one that the request_id began, or queue the message. Atomic."""
    if request.from_queue:
        return await database.transact(lambda connection: _from_queue(connection, request))
    turn = _turn(request)
    block, parameters = "begin_turn", turn.parameters
    if request.create_session:
        block, parameters = "begin_in_new_session", turn.parameters_in_new_session
    row = await database.write(lambda connection: connection.fetchrow(SQL[block], *parameters()))
    if row is not None:
        return _started(turn, row)
    return await database.transact(lambda connection: _carefully(connection, turn))


def _turn(request: j.BeginTurnRequest, origin: str = "") -> _Turn:
    user = Entry(
        entry_id=request.user_entry_id,
        turn_id=request.turn_id,
        kind=ENTRY_KIND_USER,
        state=ENTRY_STATE_COMPLETE,
        user=UserBody(text=request.content, origin=origin),
    )
    placeholder = Entry(
        entry_id=request.assistant_entry_id,
        turn_id=request.turn_id,
        kind=ENTRY_KIND_ASSISTANT,
        state=ENTRY_STATE_STREAMING,
        assistant=AssistantBody(attempt=1),
    )
    return _Turn(request, user, placeholder, hashlib.sha256(request.content.encode()).digest())


async def _carefully(connection: asyncpg.Connection, turn: _Turn) -> j.BeginTurnResponse:
    """The same under the session's lock, naming what stands in the way."""
    request = turn.request
    session = await connection.fetchrow(SQL["lock_session"], request.session_id, request.owner_id)
    begun = await _begun_before(connection, request, session)
    if begun is not None:
        return begun
    earlier = await _earlier(connection, turn)
    if earlier is not None:
        return earlier
    if request.create_session:
        defaults = ("", DEFAULT_WORKSPACE, "")
        await connection.execute(SQL["insert_session"], request.session_id, request.owner_id, *defaults)
    session = await _owned(connection, request)
    if session["running_turn_id"]:
        if request.when_busy in (WHEN_BUSY_UNSPECIFIED, WHEN_BUSY_REJECT):
            raise turn_running(session)
        await _check_references(connection, turn, session)
        return await queue.enqueue(connection, request, turn.hash, session)
    await _check_references(connection, turn, session)
    return _started(turn, await _begin(connection, turn))


async def _begun_before(
    connection: asyncpg.Connection, request: j.BeginTurnRequest, session: asyncpg.Record | None
) -> j.BeginTurnResponse | None:
    """The turn that an earlier try of the same request has begun, whose answer was lost.

    Nobody runs it, so its lease is given back, and the first who looks goes on with it.
    """
    if session is None or session["running_turn_id"] != request.turn_id:
        return None
    names = (request.session_id, session["lease_instance_id"], session["generation"])
    await connection.execute(SQL["release_lease"], *names)
    return j.BeginTurnResponse(
        outcome=j.BEGIN_TURN_OUTCOME_JOINED,
        turn_id=request.turn_id,
        turn_start_seq=await connection.fetchval(SQL["turn_start"], request.session_id, request.turn_id),
        session=session_from(session),
        request_id=request.request_id,
    )


async def _from_queue(connection: asyncpg.Connection, request: j.BeginTurnRequest) -> j.BeginTurnResponse:
    """Begin a turn with the message that has waited longest."""
    session = await _owned(connection, request)
    before = await _begun_before(connection, request, session)
    if before is not None:
        return before
    if session["running_turn_id"]:
        raise turn_running(session)
    taken = await queue.take_next(connection, request, session)
    if taken is None:
        return j.BeginTurnResponse(outcome=j.BEGIN_TURN_OUTCOME_EMPTY, session=session_from(session))
    turn = _turn(taken[0], "queue")
    await _check_references(connection, turn, session)
    response = _started(turn, await _begin(connection, turn))
    response.turn_start_seq = session["seq"]
    await connection.execute(SQL["start_turn_at"], request.session_id, request.turn_id, session["seq"])
    begun = list(response.events)
    del response.events[:]
    response.events.extend([*taken[1], *begun])  # the receipt comes first, as in the journal
    return response


async def _begin(connection: asyncpg.Connection, turn: _Turn) -> asyncpg.Record:
    row = await connection.fetchrow(SQL["begin_turn"], *turn.parameters())
    if row is None:
        raise LostRace  # what stands in the way came between the look and the statement
    return row


async def _owned(connection: asyncpg.Connection, request: j.BeginTurnRequest) -> asyncpg.Record:
    """The session's row, locked, if the caller may take its lease."""
    session = await connection.fetchrow(SQL["lock_session"], request.session_id, request.owner_id)
    if session is None:
        raise session_not_found(request.session_id)
    if session["holder_id"] not in ("", request.instance_id):
        raise owned_elsewhere(session)
    if await connection.fetchval(SQL["live_instance"], request.instance_id) is None:
        raise not_alive()
    return session


async def _earlier(connection: asyncpg.Connection, turn: _Turn) -> j.BeginTurnResponse | None:
    """The answer to a request_id that was used before."""
    request = turn.request
    if not request.request_id:
        return None
    names = (request.owner_id, request.session_id, request.request_id)
    known = await connection.fetchrow(SQL["turn_by_request"], *names, request.create_session)
    if known is None:
        known = await connection.fetchrow(SQL["queued_by_request"], *names)
    if known is None:
        return None
    if known["request_hash"] != turn.hash:
        raise NetaclawError(
            Reason.REASON_REQUEST_ID_REUSED,
            "the request_id was used before with other content",
            metadata={"request_id": request.request_id},
        )
    session = await connection.fetchrow(SQL["lock_session"], known["session_id"], request.owner_id)
    if session is None:
        raise session_not_found(known["session_id"])
    outcome, turn_id = j.BEGIN_TURN_OUTCOME_JOINED, known["turn_id"]
    if turn_id == queue.RETRACTED:
        outcome, turn_id = j.BEGIN_TURN_OUTCOME_RETRACTED, ""
    elif not turn_id:
        outcome, turn_id = j.BEGIN_TURN_OUTCOME_QUEUED, session["running_turn_id"]
    return j.BeginTurnResponse(
        outcome=outcome,
        turn_id=turn_id,
        turn_start_seq=known["start_seq"],
        session=session_from(session),
        request_id=request.request_id,
    )


async def _check_references(connection: asyncpg.Connection, turn: _Turn, session: asyncpg.Record) -> None:
    request = turn.request
    head = request.leaf_entry_id
    if head and not await connection.fetchval(SQL["path_entry_exists"], request.session_id, head, request.owner_id):
        raise NetaclawError(
            Reason.REASON_ENTRY_NOT_FOUND, "no such entry to continue from", metadata={"entry_id": head}
        )
    if not request.agent_id and not request.agent_name:
        if not await connection.fetchval(SQL["find_agent"], request.owner_id, session["agent_id"], "assistant"):
            await connection.execute(SQL["default_agent"], request.owner_id, new_id())
        return
    if not await connection.fetchval(SQL["find_agent"], request.owner_id, request.agent_id, request.agent_name):
        named = {"agent_id": request.agent_id} if request.agent_id else {"agent_name": request.agent_name}
        raise NetaclawError(Reason.REASON_AGENT_NOT_FOUND, "no such agent", metadata=named)


def _started(turn: _Turn, row: asyncpg.Record) -> j.BeginTurnResponse:
    request = turn.request
    session = session_from(row)
    agents = _agents(row)
    response = j.BeginTurnResponse(
        outcome=j.BEGIN_TURN_OUTCOME_STARTED,
        turn_id=request.turn_id,
        session=session,
        generation=row["generation"],
        agent=agents[0],
        presets=agents[1:],
        turn_start_seq=row["start_seq"],
        request_id=request.request_id,
        path_omitted=(row["path_bytes"] or 0) > MAX_PATH_BYTES,
    )
    if row["path_bodies"] and not response.path_omitted:
        response.path.extend(_path(request.session_id, row))
    seq, head = row["start_seq"], row["head_entry_id"]
    entries = {
        request.user_entry_id: _written(turn.user, session, head, seq + 1, row["now"]),
        request.assistant_entry_id: _written(turn.placeholder, session, request.user_entry_id, seq + 2, row["now"]),
    }
    events = [entry_event(ADDED, entry) for entry in entries.values()]
    events.append(StoredEvent(LEAF_CHANGED, request.assistant_entry_id, "", request.turn_id, "", b""))
    if row["untitled"]:
        events.append(StoredEvent(SESSION_UPDATED, "", "", request.turn_id, "", b""))
    for seq, event in enumerate(events, row["start_seq"] + 1):
        event.seq, event.time = seq, row["now"]
        response.events.append(hydrate(event, session, entries))
    return response


def _written(entry: Entry, session: Session, parent_entry_id: str, seq: int, now: datetime) -> Entry:
    """An entry as the statement has written it."""
    shown = Entry()
    shown.CopyFrom(entry)
    shown.session_id = session.session_id
    shown.parent_entry_id = parent_entry_id
    shown.updated_seq = seq
    shown.create_time.CopyFrom(timestamp(now))
    shown.update_time.CopyFrom(timestamp(now))
    return shown


def _agents(row: asyncpg.Record) -> list[Agent]:
    names = ("agent_id", "name", "body", "published", "etag_no", "create_time", "update_time")
    columns = (
        *(row["agent_ids"], row["agent_names"], row["agent_bodies"], row["agent_published"], row["agent_etags"]),
        *(row["agent_create_times"], row["agent_update_times"]),
    )
    return [agent_from(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _path(session_id: str, row: asyncpg.Record) -> list[Entry]:
    names = ("parent_entry_id", "label", "body", "updated_seq", "create_time", "update_time")
    columns = (
        *(row["path_parents"], row["path_labels"], row["path_bodies"], row["path_updated_seqs"]),
        *(row["path_create_times"], row["path_update_times"]),
    )
    return [entry_from(session_id, dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
