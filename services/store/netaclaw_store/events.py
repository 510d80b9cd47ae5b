"""Events of commands: numbered and logged in the command's own transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw_store.codec import Row, session_from
from netaclaw_store.hydrate import StoredEvent, hydrate
from netaclaw_store.pages import fitting
from netaclaw_store.queries import SQL


async def log(
    connection: asyncpg.Connection,
    session: Row,
    events: Sequence[StoredEvent],
    entries: Mapping[str, Entry],
    *,
    leaf: str | None = None,
    changed: Row | None = None,
) -> tuple[Session, list[ChatEvent]]:
    """Number the events after the session's last seq, store them, move the leaf; answers what to publish: the first
    that fit an answer. The others are fetched by whoever misses them.

    The session's row must be locked by the caller; `changed` are its columns that the caller wrote meanwhile.
    """
    session_id, now = session["session_id"], session["now"]
    for seq, event in enumerate(events, session["seq"] + 1):
        event.seq, event.time = seq, now
    last = session["seq"] + len(events)
    new_leaf = session["leaf_entry_id"] if leaf is None else leaf
    if events:
        await connection.execute(
            SQL["log_events"],
            *(session_id, session["owner_id"]),
            *([v.seq for v in events], [v.kind for v in events], [v.entry_id for v in events]),
            *([v.subject_entry_id for v in events], [v.turn_id for v in events], [v.task_id for v in events]),
            [v.payload for v in events],
        )
        await connection.execute(SQL["advance_session"], session_id, last, new_leaf)
    moved = {"seq": last, "leaf_entry_id": new_leaf, "update_time": now if events else session["update_time"]}
    shown = session_from({**session, **(changed or {}), **moved})
    return shown, fitting(hydrate(event, shown, entries) for event in events)
