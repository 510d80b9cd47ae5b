"""ForkSession: a copy with new entry ids, its own events, and no usage of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import (
    CLARIFY_STATE_CLOSED,
    CLARIFY_STATE_OPEN,
    ENTRY_STATE_INTERRUPTED,
    ENTRY_STATE_STREAMING,
    TOOL_CALL_STATE_CANCELLED,
    TOOL_CALL_STATE_PENDING,
    TOOL_CALL_STATE_RUNNING,
    TOOL_CALL_STATE_WAITING,
    Entry,
)
from netaclaw.session.v1.subagent_pb2 import SUBAGENT_TASK_STATE_CANCELLED, SubagentBatch, SubagentTask
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_store.codec import Row, entry_body, entry_from, search_text, session_from, timestamp
from netaclaw_store.database import Database
from netaclaw_store.events import log
from netaclaw_store.hydrate import ADDED, leaf_event
from netaclaw_store.leases import session_not_found
from netaclaw_store.queries import SQL

_PAGE = 100
_OPEN_CALLS = frozenset({TOOL_CALL_STATE_PENDING, TOOL_CALL_STATE_WAITING, TOOL_CALL_STATE_RUNNING})
_CUT_OFF = "the session was copied while this task ran; it goes on in the other session alone"


@dataclass(slots=True)
class _Copy:
    """What is copied so far."""

    path: list[str] | None
    """The entries of the path that is copied; None: the whole tree."""
    ids: dict[str, str] = field(default_factory=dict)
    """Old entry ids to new ones."""
    count: int = 0


async def fork_session(database: Database, request: j.ForkSessionRequest) -> j.ForkSessionResponse:
    """Copy a session, or the path to one entry with its attachments. Atomic; idempotent per new_session_id."""

    async def work(connection: asyncpg.Connection) -> j.ForkSessionResponse:
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # the source goes on meanwhile
        source = await connection.fetchrow(SQL["read_session"], request.session_id, request.owner_id)
        if source is None:
            raise session_not_found(request.session_id)
        leaf = request.entry_id or source["leaf_entry_id"]
        copy = _Copy(await _path(connection, request) if request.entry_id else None)
        names = (request.session_id, request.new_session_id)
        if await connection.execute(SQL["fork_session"], *names, request.owner_id) == "INSERT 0 1":
            await _copy_entries(connection, request, copy)
            maps = (list(copy.ids), list(copy.ids.values()))
            await connection.execute(SQL["fork_contents"], *names, *maps)
            await connection.execute(SQL["fork_tasks"], *names, *maps)
            await _end_tasks(connection, request.new_session_id)
            await connection.execute(SQL["fork_transcripts"], *names)
            await connection.execute(SQL["fork_steps"], *names, *maps)
            new_leaf = copy.ids.get(leaf, "")
            await connection.execute(SQL["finish_fork"], request.new_session_id, new_leaf, copy.count)
            if new_leaf:  # whoever follows the copy from its beginning learns where it stands
                row = await connection.fetchrow(SQL["lock_session"], request.new_session_id, request.owner_id)
                await log(connection, row, [leaf_event(new_leaf)], {}, leaf=new_leaf)
        made = await connection.fetchrow(SQL["read_session"], request.new_session_id, request.owner_id)
        if made is None or made["forked_from_session_id"] != request.session_id:
            raise NetaclawError(
                Reason.REASON_ALREADY_EXISTS,
                "a session of that id exists",
                metadata={"id": request.new_session_id},
            )
        return j.ForkSessionResponse(session=session_from(made))

    return await database.transact(work)


async def _path(connection: asyncpg.Connection, request: j.ForkSessionRequest) -> list[str]:
    rows = await connection.fetch(SQL["path_ids"], request.session_id, request.owner_id, request.entry_id, "")
    if not rows:
        raise NetaclawError(Reason.REASON_ENTRY_NOT_FOUND, "no such entry", metadata={"entry_id": request.entry_id})
    return [row["entry_id"] for row in rows]


async def _copy_entries(connection: asyncpg.Connection, request: j.ForkSessionRequest, copy: _Copy) -> None:
    after = 0
    while True:
        rows = await connection.fetch(SQL["fork_source"], request.session_id, after, _PAGE, copy.path)
        if not rows:
            return
        after = rows[-1]["entry_no"]
        entries = [_renamed(request.session_id, row, copy) for row in rows]
        numbers = range(copy.count + 1, copy.count + len(entries) + 1)
        copy.count += len(entries)
        await connection.execute(
            SQL["insert_entries"],
            *(request.new_session_id, request.owner_id, [e.entry_id for e in entries], list(numbers)),
            *([e.parent_entry_id for e in entries], [e.turn_id for e in entries], [e.kind for e in entries]),
            *([e.state for e in entries], [e.tool_call_id for e in entries], [e.label for e in entries]),
            *([entry_body(e) for e in entries], [search_text(e) for e in entries]),
            [row["create_time"] for row in rows],
        )
        await connection.execute(
            SQL["log_events"],
            *(request.new_session_id, request.owner_id, list(numbers), [ADDED] * len(entries)),
            *([e.entry_id for e in entries], [e.entry_id for e in entries], [e.turn_id for e in entries]),
            *([""] * len(entries), [b""] * len(entries)),
        )


async def _end_tasks(connection: asyncpg.Connection, session_id: str) -> None:
    """Nobody runs a task on in the copy, and nothing there would ever end it."""
    for row in await connection.fetch(SQL["open_tasks_of_fork"], session_id):
        task = SubagentTask.FromString(row["task"])
        task.state = SUBAGENT_TASK_STATE_CANCELLED
        task.error = _CUT_OFF
        task.end_time.CopyFrom(timestamp(row["now"]))
        names = (session_id, row["task_id"])
        await connection.execute(SQL["end_task_of_fork"], *names, _CUT_OFF, task.SerializeToString())


def _renamed(session_id: str, row: Row, copy: _Copy) -> Entry:
    """The entry under its new id; references to entries copied before it follow."""
    entry = entry_from(session_id, row)
    known = copy.ids
    # An anchor refers to its batch, which is younger: ids are given out when they are first met.
    entry.entry_id = known.setdefault(entry.entry_id, new_id())
    entry.parent_entry_id = known.get(entry.parent_entry_id, "")
    if entry.state == ENTRY_STATE_STREAMING:
        entry.state = ENTRY_STATE_INTERRUPTED  # nobody writes on in the copy
    body = entry.WhichOneof("body")
    if body == "assistant":
        for part in entry.assistant.parts:
            if part.WhichOneof("part") == "batch_reference":
                old = part.batch_reference.batch_entry_id
                part.batch_reference.batch_entry_id = known.setdefault(old, new_id())
            elif part.tool_call.state in _OPEN_CALLS:
                part.tool_call.state = TOOL_CALL_STATE_CANCELLED
    elif body == "subagent_batch":
        _rename_batch(entry.subagent_batch.batch, known)
    elif body == "subagent_result":
        _rename_batch(entry.subagent_result.batch, known)
        entry.subagent_result.batch_entry_id = known.get(entry.subagent_result.batch_entry_id, "")
    elif body == "clarify":
        _settle_question(entry)
    elif body == "compaction":
        entry.compaction.first_kept_entry_id = known.get(entry.compaction.first_kept_entry_id, "")
    elif body == "branch_summary":
        entry.branch_summary.from_entry_id = known.get(entry.branch_summary.from_entry_id, "")
    return entry


def _settle_question(entry: Entry) -> None:
    """Nobody waits for an answer in the copy, and what was allowed for one session is not allowed for another."""
    question = entry.clarify
    question.request_id = entry.entry_id
    if question.state == CLARIFY_STATE_OPEN:
        question.state = CLARIFY_STATE_CLOSED
    if question.HasField("approval") and question.answer == "always":
        question.answer = "allow"


def _rename_batch(batch: SubagentBatch, known: dict[str, str]) -> None:
    batch.parent_entry_id = known.get(batch.parent_entry_id, "")
    batch.batch_entry_id = known.get(batch.batch_entry_id, "")
