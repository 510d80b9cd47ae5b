"""Commands on sessions: make, change, switch, fork, prune, delete. Each is one transaction."""

from __future__ import annotations

from typing import Any

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_store import events
from netaclaw_store.codec import Row, entry_from, session_from, storable
from netaclaw_store.database import Database
from netaclaw_store.delegations import fill
from netaclaw_store.hydrate import REMOVED, SESSION_UPDATED, UPDATED, StoredEvent, entry_event, leaf_event
from netaclaw_store.leases import session_not_found, stale_generation, turn_running
from netaclaw_store.queries import SQL
from netaclaw_store.settings import DEFAULT_WORKSPACE
from netaclaw_store.usage_columns import total

SESSION_TABLES = (
    *("event", "turn", "queued_message", "subagent_event", "subagent_entry", "subagent_session", "entry_draft"),
    *("content", "entry", "session"),
)
"""Every table with rows of a session; a test compares it with the schema."""

_DELETED_AT_ONCE = 20
"""Sessions whose rows one statement deletes: its time is bounded, the number of an owner's rows is not."""
_OF_ENTRIES = (
    *("delete_entry_contents", "delete_entry_drafts", "delete_entry_tasks", "delete_entry_steps", "delete_entries"),
)
_UPDATABLE = ("title", "agent_id", "thinking_level")


class Commands:
    """The session commands of the journal."""

    def __init__(self, database: Database, workspaces: frozenset[str]) -> None:
        self._database = database
        self._workspaces = workspaces

    async def create(self, request: j.CreateSessionRequest) -> j.CreateSessionResponse:
        """Make a session, or answer the one of that id."""
        asked = request.request
        if asked.workspace and asked.workspace not in self._workspaces:
            raise NetaclawError(
                Reason.REASON_WORKSPACE_NOT_FOUND,
                "no workspace of that name",
                metadata={"workspace": asked.workspace},
            )

        async def work(connection: asyncpg.Connection) -> j.CreateSessionResponse:
            if asked.agent_id:
                await _check_agent(connection, request.owner_id, asked.agent_id)
            columns = (storable(asked.title), asked.workspace or DEFAULT_WORKSPACE, asked.agent_id)
            await connection.execute(SQL["insert_session"], asked.session_id, request.owner_id, *columns)
            session = await connection.fetchrow(SQL["read_session"], asked.session_id, request.owner_id)
            if session is None:
                raise session_not_found(asked.session_id)  # the id is another owner's
            return j.CreateSessionResponse(session=session_from(session))

        return await self._database.transact(work)

    async def update(self, request: j.UpdateSessionRequest) -> j.UpdateSessionResponse:
        """Change title, agent, thinking level and labels."""
        session_id = request.session.session_id
        paths = list(request.update_mask.paths)

        async def work(connection: asyncpg.Connection) -> j.UpdateSessionResponse:
            session = await _lock(connection, session_id, request.owner_id)
            if request.etag and request.etag != str(session["etag_no"]):
                raise NetaclawError(
                    Reason.REASON_STALE_ETAG,
                    "the session has changed since it was read",
                    metadata={"etag": str(session["etag_no"])},
                )
            changed = _changes(session, request, paths)
            if changed.get("agent_id"):
                await _check_agent(connection, request.owner_id, changed["agent_id"])
            logged, entries = await _set_labels(connection, session, request)
            if changed:
                columns = [changed.get(name, session[name]) for name in _UPDATABLE]
                await connection.execute(SQL["update_session"], session_id, *columns, True)
                changed["etag_no"] = session["etag_no"] + 1
                logged.append(StoredEvent(SESSION_UPDATED, "", "", "", "", b""))
            shown, published = await events.log(connection, session, logged, entries, changed=changed)
            return j.UpdateSessionResponse(session=shown, events=published)

        return await self._database.transact(work)

    async def switch_leaf(self, request: j.SwitchLeafRequest) -> j.SwitchLeafResponse:
        """Move the leaf to a path entry, or off all of them."""

        async def work(connection: asyncpg.Connection) -> j.SwitchLeafResponse:
            session = await _lock(connection, request.session_id, request.owner_id, request.generation)
            leaf = request.leaf_entry_id
            names = (request.session_id, leaf, request.owner_id)
            if not request.to_root and not await connection.fetchval(SQL["path_entry_exists"], *names):
                raise _entry_not_found(leaf)
            logged = [] if leaf == session["leaf_entry_id"] else [leaf_event(leaf)]
            shown, published = await events.log(connection, session, logged, {}, leaf=leaf)
            return j.SwitchLeafResponse(session=shown, events=published)

        return await self._database.transact(work)

    async def delete_branch(self, request: j.DeleteBranchRequest) -> j.DeleteBranchResponse:
        """Delete an entry and all below it; the leaf moves to its parent when it stood inside."""

        async def work(connection: asyncpg.Connection) -> j.DeleteBranchResponse:
            session = await _lock(connection, request.session_id, request.owner_id, request.generation)
            session_id = request.session_id
            names = (session_id, request.entry_id)
            parent = await connection.fetchval(SQL["parent_of"], *names)
            if parent is None:
                raise _entry_not_found(request.entry_id)
            gone = [row["entry_id"] for row in await connection.fetch(SQL["branch_ids"], *names)]
            spent = [row["token_usage"] for row in await connection.fetch(SQL["usage_of_entries"], session_id, gone)]
            if spent:  # what was spent stays spent
                kept = total([*filter(None, [session["lost_usage"]]), *spent])
                await connection.execute(SQL["keep_usage"], session_id, kept)
            for block in _OF_ENTRIES:
                await connection.execute(SQL[block], session_id, gone)
            await connection.execute(SQL["blank_events"], session_id, gone, REMOVED)
            logged = [StoredEvent(REMOVED, entry_id, "", "", "", b"") for entry_id in gone]
            leaf = session["leaf_entry_id"]
            if leaf in gone:
                leaf = parent
                logged.append(leaf_event(leaf))
            shown, published = await events.log(connection, session, logged, {}, leaf=leaf)
            return j.DeleteBranchResponse(session=shown, events=published, deleted_count=len(gone))

        return await self._database.transact(work)

    async def delete(self, request: j.DeleteSessionsRequest) -> j.DeleteSessionsResponse:
        """Delete sessions with every row of theirs. Their owners' next write finds no session."""

        async def work(connection: asyncpg.Connection) -> j.DeleteSessionsResponse:
            ids = list(request.session_ids)
            rows = await connection.fetch(SQL["doomed_sessions"], request.owner_id, ids, request.all)
            doomed = [row["session_id"] for row in rows]
            for start in range(0, len(doomed), _DELETED_AT_ONCE):
                some = doomed[start : start + _DELETED_AT_ONCE]
                for table in SESSION_TABLES:
                    statement = f"DELETE FROM {table} WHERE session_id = ANY ($1::text[])"  # noqa: S608  # our own names
                    await connection.execute(statement, some)
            return j.DeleteSessionsResponse(deleted_session_ids=doomed)

        return await self._database.transact(work)


async def _lock(connection: asyncpg.Connection, session_id: str, owner_id: str, generation: int | None = None) -> Row:
    session = await connection.fetchrow(SQL["lock_session"], session_id, owner_id)
    if session is None:
        raise session_not_found(session_id)
    if generation is not None:
        if session["generation"] != generation:
            raise stale_generation(generation)
        if session["running_turn_id"]:
            raise turn_running(session)
    found: Row = session
    return found


async def _check_agent(connection: asyncpg.Connection, owner_id: str, agent_id: str) -> None:
    if await connection.fetchrow(SQL["find_agent"], owner_id, agent_id, "") is None:
        raise NetaclawError(Reason.REASON_AGENT_NOT_FOUND, "no such agent", metadata={"agent_id": agent_id})


def _changes(session: Row, request: j.UpdateSessionRequest, paths: list[str]) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "title": storable(request.session.title),
        "agent_id": request.session.agent_id,
        "thinking_level": request.session.thinking_level,
    }
    return {name: wanted[name] for name in paths if wanted[name] != session[name]}


async def _set_labels(
    connection: asyncpg.Connection, session: Row, request: j.UpdateSessionRequest
) -> tuple[list[StoredEvent], dict[str, Entry]]:
    logged: list[StoredEvent] = []
    entries: dict[str, Entry] = {}
    session_id = session["session_id"]
    for seq, mark in enumerate(request.labels, session["seq"] + 1):
        row = await connection.fetchrow(SQL["set_label"], session_id, mark.entry_id, storable(mark.label), seq)
        if row is None:
            raise _entry_not_found(mark.entry_id)
        entry = entry_from(session_id, row)
        entries[entry.entry_id] = entry
        logged.append(entry_event(UPDATED, entry))
    await fill(connection, session_id, list(entries.values()))
    return logged, entries


def _entry_not_found(entry_id: str) -> NetaclawError:
    return NetaclawError(Reason.REASON_ENTRY_NOT_FOUND, "no such entry", metadata={"entry_id": entry_id})
