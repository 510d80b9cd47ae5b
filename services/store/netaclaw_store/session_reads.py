"""Reads of sessions for clients: snapshots of committed rows, projected, in pages of at most 1 MiB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1.entry_pb2 import ENTRY_KIND_ASSISTANT, ENTRY_KIND_COMPACTION, ContentChunk, Entry
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_chassis.errors import InvalidRequest, NetaclawError
from netaclaw_store.codec import Row, add_entries, entry_from, projected, session_from
from netaclaw_store.database import Database
from netaclaw_store.delegations import VIEW_KINDS, fill, load, restored
from netaclaw_store.leases import owned_session
from netaclaw_store.pages import MAX_RESPONSE_BYTES, chunks, page_size, read_token, write_token
from netaclaw_store.queries import SQL
from netaclaw_store.queue import waiting

PAGE_BYTES = MAX_RESPONSE_BYTES - 32 * 1024
_CONTENT_DEFAULT = 64 * 1024
_CONTENT_MOST = 512 * 1024
_USAGE_FIELDS = tuple(field.name for field in Usage.DESCRIPTOR.fields)


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a list of sessions was read."""

    before: datetime | None = None
    """With session_id, the last one; None: the list's beginning."""
    session_id: str = ""
    since: datetime | None = None
    """Whatever changed after this is looked at once more in the end."""
    late: int = 0
    """1 while that is done."""


class SessionReads:
    """What SessionService answers, per owner."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def session(self, owner_id: str, session_id: str) -> p.GetSessionResponse:
        row = await self._database.read(lambda connection: owned_session(connection, owner_id, session_id))
        return p.GetSessionResponse(session=session_from(row))

    async def sessions(self, owner_id: str, request: p.ListSessionsRequest) -> p.ListSessionsResponse:
        """Last changed first. Sessions that change while pages are read come at the end, maybe once more: a change may
        have moved one from a page that was still to come to the front of those that were read."""
        size = page_size(request.page_size, 50, 200)
        scope = ("sessions", owner_id, request.query)
        cursor = read_token(request.page_token, scope, (str, str, str, int))
        place = _Place(moment_in(cursor[0]), cursor[1], moment_in(cursor[2]), cursor[3]) if cursor else _Place()
        names = (owner_id, _like(request.query))

        async def work(connection: asyncpg.Connection) -> list[Row]:
            after = place.since if place.late else None
            rows = await connection.fetch(SQL["list_sessions"], *names, place.before, place.session_id, after, size + 1)
            in_order = len(rows)
            if place.since is not None and not place.late and in_order <= size:
                most = size + 1 - in_order
                rows += await connection.fetch(SQL["list_sessions"], *names, None, "", place.since, most)
            return [{**row, "late": place.late or number >= in_order} for number, row in enumerate(rows)]

        rows = await self._database.read(work)
        response = p.ListSessionsResponse(sessions=[session_from(row) for row in rows[:size]])
        if len(rows) > size:
            last, since = rows[size - 1], place.since or rows[0]["update_time"]
            moments = (last["update_time"].isoformat(), last["session_id"], since.isoformat())
            response.next_page_token = write_token(scope, *moments, int(last["late"]))
        return response

    async def tree(self, owner_id: str, request: p.GetSessionTreeRequest) -> p.GetSessionTreeResponse:
        size = page_size(request.page_size, 200, 1000)
        session_id = request.session_id
        scope = ("tree", session_id)
        cursor = read_token(request.page_token, scope, (int,))
        after = cursor[0] if cursor else 0

        async def work(connection: asyncpg.Connection) -> p.GetSessionTreeResponse:
            session = await owned_session(connection, owner_id, session_id)
            names = (session_id, owner_id, after, size + 1)
            rows = await connection.fetch(SQL["tree_page"], *names, PAGE_BYTES)
            response = p.GetSessionTreeResponse(session=session_from(session))
            if not cursor:
                response.queued_messages.extend(await waiting(connection, owner_id, session_id))
            read = add_entries(session_id, rows[:size], response.entries)
            views = [entry for entry in read if entry.kind in VIEW_KINDS]
            await fill(connection, session_id, views)
            for entry in views:
                projected(entry)
            while len(response.entries) > 1 and response.ByteSize() > PAGE_BYTES:
                response.entries.pop()
            shown = len(response.entries)
            last = rows[shown - 1]["entry_no"] if shown else 0
            response.entries.extend(await _restored(connection, session_id, read[:shown]))
            if shown and last < session["entry_count"] and await _more(connection, session_id, last):
                response.next_page_token = write_token(scope, last)
            return response

        return await self._database.snapshot(work)

    async def messages(self, owner_id: str, request: p.ListMessagesRequest) -> p.ListMessagesResponse:
        size = page_size(request.page_size, 100, 500)
        session_id = request.session_id
        scope = ("messages", session_id, request.leaf_entry_id, str(request.compacted))
        cursor = read_token(request.page_token, scope, (str, int))

        async def work(connection: asyncpg.Connection) -> p.ListMessagesResponse:
            session = await owned_session(connection, owner_id, session_id)
            leaf = cursor[0] if cursor else request.leaf_entry_id or session["leaf_entry_id"]
            start = cursor[1] if cursor else 0
            path = await connection.fetch(SQL["path_ids"], session_id, owner_id, leaf, "")
            if not path and (request.leaf_entry_id or cursor):
                raise NetaclawError(Reason.REASON_ENTRY_NOT_FOUND, "no such entry", metadata={"entry_id": leaf})
            order = await _compacted(connection, owner_id, session_id, path) if request.compacted else path
            sizes = {row["entry_id"]: row["body_bytes"] + 256 for row in order[start : start + size]}
            ids = next(chunks(sizes, sizes, PAGE_BYTES), [])
            rows = await connection.fetch(SQL["entries_in"], session_id, owner_id, ids)
            found = {row["entry_id"]: entry_from(session_id, row) for row in rows}
            response = p.ListMessagesResponse(entries=[found[each] for each in ids])
            if start + len(ids) < len(order):
                response.next_page_token = write_token(scope, leaf, start + len(ids))
            return response

        return await self._database.snapshot(work)

    async def content(self, owner_id: str, request: p.ReadContentRequest) -> p.ReadContentResponse:
        """A range, cut back to the border of a character at both ends."""
        limit = min(request.limit_bytes or _CONTENT_DEFAULT, _CONTENT_MOST)
        if request.offset < 0 or request.limit_bytes < 0:
            raise InvalidRequest([("offset" if request.offset < 0 else "limit_bytes", "is negative")])
        names = (request.session_id, owner_id, request.content_id)

        async def work(connection: asyncpg.Connection) -> p.ReadContentResponse:
            await owned_session(connection, owner_id, request.session_id)
            size = await connection.fetchval(SQL["content_size"], *names)
            if size is None:
                raise NetaclawError(
                    Reason.REASON_CONTENT_NOT_FOUND, "no such content", metadata={"content_id": request.content_id}
                )
            end = min(request.offset, size) + limit
            rows = await connection.fetch(SQL["content_range"], *names, request.offset, end)
            data = b"".join(row["body"] for row in rows)
            first = rows[0]["start_byte"] if rows else 0
            cut = _whole_characters(data, request.offset - first, min(end - first, len(data)))
            chunk = ContentChunk(
                content_id=request.content_id, offset=first + cut.start, data=data[cut], size_bytes=size
            )
            return p.ReadContentResponse(chunk=chunk)

        return await self._database.snapshot(work)

    async def usage(self, owner_id: str, request: p.GetUsageRequest) -> p.GetUsageResponse:
        """Main agent's model calls and tasks together, and the tasks alone."""

        async def work(connection: asyncpg.Connection) -> p.GetUsageResponse:
            if request.session_id:
                await owned_session(connection, owner_id, request.session_id)
            rows = await connection.fetch(SQL["usage"], owner_id, request.session_id, request.turn_id)
            response = p.GetUsageResponse(total=Usage(), subagents=Usage())
            for row in rows:
                spent = Usage(**{name: row[name] for name in _USAGE_FIELDS})
                if row["of_task"]:
                    response.subagents.CopyFrom(spent)
                for name in _USAGE_FIELDS:
                    setattr(response.total, name, getattr(response.total, name) + row[name])
            return response

        return await self._database.snapshot(work)


async def _restored(connection: asyncpg.Connection, session_id: str, entries: Sequence[Entry]) -> list[Entry]:
    """Batch entries of anchors that refer to one that is not there, made from rows alone."""
    anchors = {
        part.batch_reference.batch_entry_id: entry
        for entry in entries
        if entry.kind == ENTRY_KIND_ASSISTANT
        for part in entry.assistant.parts
        if part.WhichOneof("part") == "batch_reference"
    }
    for entry in entries:
        anchors.pop(entry.entry_id, None)
    if not anchors:
        return []
    rows = await connection.fetch(SQL["missing_batches"], session_id, list(anchors))
    found = await load(connection, session_id, [row["batch_entry_id"] for row in rows])
    return [projected(restored(session_id, anchors[each], found[each])) for each in found]


async def _more(connection: asyncpg.Connection, session_id: str, entry_no: int) -> bool:
    found: bool = await connection.fetchval(SQL["entries_beyond"], session_id, entry_no)
    return found


async def _compacted(
    connection: asyncpg.Connection, owner_id: str, session_id: str, path: Sequence[Row]
) -> Sequence[Row]:
    """The last compaction, what it kept verbatim, and what came after it."""
    places = [place for place, row in enumerate(path) if row["kind"] == ENTRY_KIND_COMPACTION]
    if not places:
        return path
    place = places[-1]
    row = await connection.fetchrow(SQL["entries_in"], session_id, owner_id, [path[place]["entry_id"]])
    first_kept = entry_from(session_id, row).compaction.first_kept_entry_id
    ids = [each["entry_id"] for each in path]
    kept = path[ids.index(first_kept) : place] if first_kept in ids[:place] else []
    return [path[place], *kept, *path[place + 1 :]]


def _like(query: str) -> str:
    if not query:
        return ""
    escaped = query.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def moment_in(text: str) -> datetime:
    """A time out of a page token."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest([("page_token", "is not a token of this list")]) from None


def _whole_characters(data: bytes, start: int, end: int) -> slice:
    """The range moved back to where characters of UTF-8 begin; forward instead where it would be empty."""
    start, end = min(max(start, 0), len(data)), min(max(end, 0), len(data))
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while start < end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    if end <= start < len(data):
        end = start + 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
    return slice(start, end)
