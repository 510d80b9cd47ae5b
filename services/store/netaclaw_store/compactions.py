"""Compactions that are under way, and what summaries have cost that came to nothing.

The generation that began a compaction stands in its session's row until the compaction ends. Where that generation's
holder is gone, nobody else will end it: no reader may be left waiting for an end that never comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from netaclaw.chat.v1.event_pb2 import ChatEvent, CompactionError
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_store import events
from netaclaw_store.codec import Row
from netaclaw_store.hydrate import StoredEvent
from netaclaw_store.queries import SQL
from netaclaw_store.usage_columns import added

if TYPE_CHECKING:  # what a batch is made of knows leases, which end compactions
    from netaclaw_store.batch import Batch, Part

_FIELDS = ChatEvent.DESCRIPTOR.fields_by_name
_START = _FIELDS["compaction_start"].number
_ERROR = _FIELDS["compaction_error"].number
_KINDS = frozenset({_START, _ERROR, _FIELDS["compaction_done"].number})
_WORDS = "whoever summed up the conversation has stopped in the middle; nothing was changed"
_LOST_CALL = Usage(model_calls=1, estimated_calls=1)
"""Its tokens are known to nobody any more."""


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session whose compaction was ended here."""

    session_id: str
    owner_id: str
    seq: int


async def note(connection: asyncpg.Connection, session: Row, batch: Batch, parts: Sequence[Part]) -> None:
    """Write down what a batch says of compactions and of lost cost; most batches say nothing of either."""
    told = [event.kind for event in batch.events if event.kind in _KINDS]
    spent = [body.usage for kind, body in parts if kind == "usage"]
    if not told and not spent:
        return
    compacting = session["compaction_generation"]
    if told:
        compacting = session["generation"] if told[-1] == _START else 0
    lost = added(session["lost_usage"], spent)
    await connection.execute(SQL["note_compaction"], session["session_id"], compacting, lost)


async def end_orphaned(connection: asyncpg.Connection, limit: int) -> list[EndedSession]:
    """End compactions whose owner is gone, with an event that says so; an owner that comes back is fenced off.

    The call of one that a turn had made is counted by whoever takes the turn over, any other here.
    """
    ended = []
    for session in await connection.fetch(SQL["orphaned_compactions"], limit):
        turn_id = session["running_turn_id"]
        lost = added(session["lost_usage"], [] if turn_id else [_LOST_CALL])
        await connection.execute(SQL["end_compaction"], session["session_id"], lost, session["lease_is_dead"])
        anchor = session["leaf_entry_id"] if turn_id else ""
        event = StoredEvent(_ERROR, anchor, "", turn_id, "", CompactionError(message=_WORDS).SerializeToString())
        shown, _ = await events.log(connection, session, [event], {})
        ended.append(EndedSession(shown.session_id, session["owner_id"], shown.seq))
    return ended
