"""Reading a path and the durable events again, in pages and without buffering."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import asyncpg

from netaclaw.chat.v1.event_pb2 import SteerReceipt
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_store.codec import Row, entry_from, session_from
from netaclaw_store.database import Database
from netaclaw_store.delegations import fill
from netaclaw_store.hydrate import StoredEvent, event_from, hydrate
from netaclaw_store.leases import owned_session, session_not_found
from netaclaw_store.pages import chunks
from netaclaw_store.queries import SQL

PAGE_BYTES = 512 * 1024
_FIRST_PAGE = 64
_PAGE = 512
_WINDOW_BYTES = 2 * 1024 * 1024
"""Entries held at once while a page is joined."""


class Replay:
    """Reads of the journal. Every page is a snapshot of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def path(self, request: j.ReadPathRequest) -> AsyncIterator[j.ReadPathResponse]:
        """The path's entries after known_entry_id, root first."""
        owner_id, session_id = request.owner_id, request.session_id

        async def find(connection: asyncpg.Connection) -> list[Row]:
            session = await connection.fetchrow(SQL["read_session"], session_id, owner_id)
            if session is None:
                raise session_not_found(session_id)
            leaf = request.leaf_entry_id or session["leaf_entry_id"]
            if request.leaf_entry_id and not await connection.fetchval(
                SQL["path_entry_exists"], session_id, leaf, owner_id
            ):
                raise NetaclawError(Reason.REASON_ENTRY_NOT_FOUND, "no such entry", metadata={"entry_id": leaf})
            found: list[Row] = await connection.fetch(
                SQL["path_ids"], session_id, owner_id, leaf, request.known_entry_id
            )
            return found

        rows = await self._database.snapshot(find)
        sizes = {row["entry_id"]: row["body_bytes"] + 256 for row in rows}
        for ids in chunks(sizes, sizes, PAGE_BYTES):
            entries = await self.entries(owner_id, session_id, ids)
            yield j.ReadPathResponse(entries=[entries[each] for each in ids if each in entries])

    async def questions(self, request: j.ReadQuestionsRequest) -> AsyncIterator[j.ReadQuestionsResponse]:
        """CLARIFY entries, oldest first; reads nothing else of the tree."""
        owner_id, session_id = request.owner_id, request.session_id

        async def find(connection: asyncpg.Connection) -> list[Row]:
            await owned_session(connection, owner_id, session_id)
            found: list[Row] = await connection.fetch(SQL["question_ids"], session_id, owner_id, request.turn_id)
            return found

        rows = await self._database.snapshot(find)
        sizes = {
            row["entry_id"]: row["body_bytes"] + 256
            for row in rows
            if request.request_id in ("", row["entry_id"])  # a question's entry has its request's id
        }
        for ids in chunks(sizes, sizes, PAGE_BYTES):
            entries = await self.entries(owner_id, session_id, ids)
            yield j.ReadQuestionsResponse(entries=[entries[each] for each in ids if each in entries])

    async def delegations(self, request: j.ReadDelegationsRequest) -> AsyncIterator[j.ReadDelegationsResponse]:
        """Tasks that hang on an entry, by their rows; reads nothing else of the tree."""
        names = (request.session_id, request.owner_id, request.parent_entry_id)

        async def find(connection: asyncpg.Connection) -> tuple[list[Row], list[Row]]:
            await owned_session(connection, request.owner_id, request.session_id)
            tasks = await connection.fetch(SQL["delegations_of_entry"], *names)
            return tasks, await connection.fetch(SQL["steer_receipts"], *names)

        page, size = j.ReadDelegationsResponse(), 0
        tasks, told = await self._database.snapshot(find)
        receipts: dict[str, list[j.TaskReceipt]] = {}
        for row in told:
            receipt = j.TaskReceipt(task_id=row["task_id"], receipt=SteerReceipt.FromString(row["payload"]))
            receipts.setdefault(receipt.task_id, []).append(receipt)
        for row in tasks:
            size += len(row["task"])
            if row["batch_entry_id"] != page.batch_entry_id or size > PAGE_BYTES:
                if page.tasks:
                    yield page
                page, size = _delegation(row), len(row["task"])
            task = page.tasks.add()
            task.MergeFromString(row["task"])
            page.steer_receipts.extend(receipts.get(task.task_id, ()))
        if page.tasks:
            yield page

    async def entries(self, owner_id: str, session_id: str, ids: Sequence[str]) -> dict[str, Entry]:
        """Entries of a path by id; the caller bounds their size."""

        rows = await self._database.read(
            lambda connection: connection.fetch(SQL["entries_in"], session_id, owner_id, list(ids))
        )
        return {row["entry_id"]: entry_from(session_id, row) for row in rows}

    async def events(self, request: j.ReadEventsRequest) -> AsyncIterator[j.ReadEventsResponse]:
        """Events after after_seq up to the last one committed now, joined with the rows as they stand."""
        session = await self._database.read(
            lambda connection: connection.fetchrow(SQL["read_session"], request.session_id, request.owner_id)
        )
        if session is None:
            raise session_not_found(request.session_id)
        last = session["seq"]
        if request.after_seq > last or request.after_seq < session["trimmed_seq"]:
            raise _out_of_range(last)
        after, limit = request.after_seq, _FIRST_PAGE
        while True:
            pages, after, ended = await self._page(request, after, last, limit)
            for page in pages:
                yield page
            if ended:
                return
            limit = _PAGE

    async def _page(
        self, request: j.ReadEventsRequest, after: int, last: int, limit: int
    ) -> tuple[list[j.ReadEventsResponse], int, bool]:
        owner_id, session_id = request.owner_id, request.session_id

        async def work(connection: asyncpg.Connection) -> tuple[list[j.ReadEventsResponse], int, bool]:
            row = await connection.fetchrow(SQL["read_session"], session_id, owner_id)
            if row is None:
                raise session_not_found(session_id)
            if after < row["trimmed_seq"]:  # trimmed while pages were read
                raise _out_of_range(row["seq"])
            names = (session_id, owner_id)
            stored = [
                event_from(each) for each in await connection.fetch(SQL["events_after"], *names, after, last, limit)
            ]
            taken, entries = await _window(connection, session_id, owner_id, stored)
            ended = len(taken) == len(stored) and len(stored) < limit
            session = session_from(row)
            pages = [j.ReadEventsResponse(session=session)]
            size = 0
            for event in taken:
                shown = hydrate(event, session, entries)
                size += shown.ByteSize()
                if pages[-1].events and size > PAGE_BYTES:
                    pages.append(j.ReadEventsResponse(session=session))
                    size = shown.ByteSize()
                pages[-1].events.append(shown)
            if ended:
                pages.extend(_draft_pages(await connection.fetch(SQL["open_drafts"], *names), pages.pop()))
            return pages, taken[-1].seq if taken else last, ended

        return await self._database.snapshot(work)


def _out_of_range(last: int) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_SEQ_OUT_OF_RANGE,
        "the events after that seq are not there: take a snapshot and follow from its seq",
        metadata={"snapshot_seq": str(last)},
    )


async def _window(
    connection: asyncpg.Connection, session_id: str, owner_id: str, stored: list[StoredEvent]
) -> tuple[list[StoredEvent], dict[str, Entry]]:
    """As many of the events as their entries' sizes allow, at least one, with those entries."""
    wanted = list(dict.fromkeys(each.subject_entry_id for each in stored if each.subject_entry_id))
    if not wanted:
        return stored, {}
    sizes = {
        row["entry_id"]: row["body_bytes"]
        for row in await connection.fetch(SQL["entry_sizes"], session_id, owner_id, wanted)
    }
    ids = next(chunks(wanted, sizes, _WINDOW_BYTES))
    held = set(ids)
    taken: list[StoredEvent] = []
    total = 0
    for event in stored:
        total += sizes.get(event.subject_entry_id, 0)
        if event.subject_entry_id and event.subject_entry_id not in held:
            break
        if taken and total > 2 * _WINDOW_BYTES:
            break
        taken.append(event)
    return taken, await _entries(connection, session_id, owner_id, ids)


async def _entries(
    connection: asyncpg.Connection, session_id: str, owner_id: str, ids: Sequence[str]
) -> dict[str, Entry]:
    """Entries by id, filled from their rows, not projected."""
    rows = await connection.fetch(SQL["entries_in"], session_id, owner_id, list(ids))
    entries = {row["entry_id"]: entry_from(session_id, row) for row in rows}
    await fill(connection, session_id, list(entries.values()))
    return entries


def _draft_pages(rows: Sequence[Row], last: j.ReadEventsResponse) -> list[j.ReadEventsResponse]:
    pages = [last]
    size = last.ByteSize()
    for row in rows:
        draft = j.Draft(
            session_id=row["session_id"],
            generation=row["generation"],
            entry_id=row["entry_id"],
            task_id=row["task_id"],
            channel=row["channel"],
            attempt=row["attempt"],
            text=bytes(row["body"]).decode(),
        )
        size += draft.ByteSize()
        if size > PAGE_BYTES and (pages[-1].drafts or pages[-1].events):
            pages.append(j.ReadEventsResponse(session=last.session))
            size = draft.ByteSize()
        pages[-1].drafts.append(draft)
    return pages


def _delegation(row: Row) -> j.ReadDelegationsResponse:
    body = Entry.FromString(row["batch_body"])
    return j.ReadDelegationsResponse(
        batch_entry_id=row["batch_entry_id"],
        tool_call_id=row["tool_call_id"],
        title=body.subagent_batch.batch.title,
        result_written=row["result_written"],
    )
