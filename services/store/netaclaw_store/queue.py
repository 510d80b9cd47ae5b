"""Messages that wait for a running turn: put in, taken into a turn, taken back."""

from __future__ import annotations

import asyncpg

from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_INTERRUPT
from netaclaw.chat.v1.event_pb2 import (
    RECEIPT_STATE_QUEUED,
    RECEIPT_STATE_RETRACTED,
    RECEIPT_STATE_TAKEN,
    ChatEvent,
    MessageReceipt,
    ReceiptState,
)
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_service_pb2 import QueuedMessage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_store import events
from netaclaw_store.codec import Row
from netaclaw_store.database import Database
from netaclaw_store.hydrate import StoredEvent
from netaclaw_store.leases import session_not_found
from netaclaw_store.queries import SQL

MAX_WAITING = 100
SHOWN_BYTES = 2048
"""Of a waiting message so much is shown to readers."""
RETRACTED = "retracted"
"""In place of the turn that it entered, of a message that was taken back."""

_RECEIPT = ChatEvent.DESCRIPTOR.fields_by_name["message_receipt"].number


def receipt(request_id: str, state: ReceiptState, turn_id: str) -> StoredEvent:
    """The event that says what became of a message."""
    payload = MessageReceipt(request_id=request_id, state=state).SerializeToString()
    return StoredEvent(_RECEIPT, "", "", turn_id, "", payload)


async def enqueue(
    connection: asyncpg.Connection, request: j.BeginTurnRequest, request_hash: bytes, session: Row
) -> j.BeginTurnResponse:
    """Keep a message until the running turn ends or takes it. The session's row is locked by the caller.

    A message without a request_id gets one, named in the answer, so that it can be taken back.
    """
    if await connection.fetchval(SQL["count_queued"], request.session_id) >= MAX_WAITING:
        raise NetaclawError(
            Reason.REASON_LIMIT_REACHED,
            "too many messages wait in the session",
            metadata={"limit": "queued_messages", "value": str(MAX_WAITING)},
            retry_after=1.0,
        )
    request_id = request.request_id or new_id()
    await connection.execute(
        SQL["enqueue_message"],
        *(request.session_id, request.owner_id, request_id, request_hash, request.when_busy),
        *(request.content.encode(), request.agent_id, request.agent_name, request.leaf_entry_id, request.from_root),
        session["seq"],
    )
    turn_id = session["running_turn_id"]
    shown, published = await events.log(connection, session, [receipt(request_id, RECEIPT_STATE_QUEUED, turn_id)], {})
    return j.BeginTurnResponse(
        outcome=j.BEGIN_TURN_OUTCOME_QUEUED,
        turn_id=turn_id,
        session=shown,
        events=published,
        turn_start_seq=session["seq"],
        request_id=request_id,
    )


async def take_next(
    connection: asyncpg.Connection, request: j.BeginTurnRequest, session: Row
) -> tuple[j.BeginTurnRequest, list[ChatEvent]] | None:
    """The request of the message that has waited longest, and its receipt; None when no message waits.

    An agent or entry that the message named and that is gone by now is not insisted on: what was accepted is answered.
    """
    row = await connection.fetchrow(SQL["next_queued"], request.session_id, WHEN_BUSY_INTERRUPT)
    if row is None:
        return None
    taken = j.BeginTurnRequest()
    taken.CopyFrom(request)
    taken.content = bytes(row["content"]).decode()
    taken.request_id = row["request_id"]
    taken.agent_id, taken.agent_name, taken.leaf_entry_id = row["agent_id"], row["agent_name"], row["leaf_entry_id"]
    taken.from_root = row["from_root"]
    names = (request.owner_id, taken.agent_id, taken.agent_name)
    if any(names[1:]) and not await connection.fetchval(SQL["find_agent"], *names):
        taken.agent_id = taken.agent_name = ""
    head = (request.session_id, taken.leaf_entry_id, request.owner_id)
    if taken.leaf_entry_id and not await connection.fetchval(SQL["path_entry_exists"], *head):
        taken.leaf_entry_id = ""
    told = receipt(taken.request_id, RECEIPT_STATE_TAKEN, request.turn_id)
    _, published = await events.log(connection, session, [told], {})
    return taken, published


async def waiting(connection: asyncpg.Connection, owner_id: str, session_id: str) -> list[QueuedMessage]:
    """The messages that wait, in the order in which they came; of long ones the beginning."""
    rows = await connection.fetch(SQL["shown_waiting"], session_id, owner_id, SHOWN_BYTES)
    # The cut may go through a character.
    return [
        QueuedMessage(
            request_id=row["request_id"], text=row["head"].decode(errors="ignore"), create_time=row["create_time"]
        )
        for row in rows
    ]


async def take_into_turn(connection: asyncpg.Connection, session_id: str, write: j.QueueTakeWrite) -> bool:
    """Mark a message as taken; False when it was taken back or taken before."""
    names = (session_id, write.request_id, write.turn_id)
    return await connection.fetchval(SQL["take_queued"], *names) is not None


async def retract(database: Database, request: j.RetractMessageRequest) -> j.RetractMessageResponse:
    """Take a waiting message back. Raises NOT_FOUND once it was taken."""

    async def work(connection: asyncpg.Connection) -> j.RetractMessageResponse:
        session = await connection.fetchrow(SQL["lock_session"], request.session_id, request.owner_id)
        if session is None:
            raise session_not_found(request.session_id)
        names = (request.session_id, request.request_id, RETRACTED)
        if await connection.fetchval(SQL["retract_queued"], *names) is None:
            raise NetaclawError(Reason.REASON_NOT_FOUND, "no such message waits", metadata={"id": request.request_id})
        told = receipt(request.request_id, RECEIPT_STATE_RETRACTED, session["running_turn_id"])
        _, published = await events.log(connection, session, [told], {})
        return j.RetractMessageResponse(events=published)

    return await database.transact(work)
