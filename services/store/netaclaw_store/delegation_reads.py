"""Reads of what children did: transcripts, results, process events. Whole, in pages of at most 1 MiB."""

from __future__ import annotations

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentResultBody, SubagentTask
from netaclaw_chassis.errors import NetaclawError
from netaclaw_store.codec import Row, timestamp
from netaclaw_store.database import Database
from netaclaw_store.leases import owned_session
from netaclaw_store.pages import fitting, page_size, read_token, write_token
from netaclaw_store.queries import SQL
from netaclaw_store.session_reads import PAGE_BYTES


class DelegationReads:
    """What SessionService answers about subagents, per owner."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subagent_entries(
        self, owner_id: str, request: p.ListSubagentEntriesRequest
    ) -> p.ListSubagentEntriesResponse:
        size = page_size(request.page_size, 100, 500)
        scope = ("subagent", request.session_id, request.task_id)
        cursor = read_token(request.page_token, scope, (int,))
        names = (request.session_id, owner_id, request.task_id)

        async def work(connection: asyncpg.Connection) -> p.ListSubagentEntriesResponse:
            await owned_session(connection, owner_id, request.session_id)
            task = await connection.fetchval(SQL["read_task"], *names)
            if task is None:
                raise _task_not_found(request.task_id)
            shown = SubagentTask.FromString(task)
            rows = await connection.fetch(SQL["subagent_entries"], *names, cursor[0] if cursor else -1, size + 1)
            listed = fitting((_child_entry(request.task_id, row) for row in rows[:size]), PAGE_BYTES - shown.ByteSize())
            response = p.ListSubagentEntriesResponse(task=shown, entries=listed)
            if len(listed) < len(rows):
                response.next_page_token = write_token(scope, listed[-1].n)
            return response

        return await self._database.snapshot(work)

    async def result(self, owner_id: str, request: p.GetSubagentResultRequest) -> p.GetSubagentResultResponse:
        async def work(connection: asyncpg.Connection) -> p.GetSubagentResultResponse:
            await owned_session(connection, owner_id, request.session_id)
            row = await connection.fetchrow(SQL["read_outcome"], request.session_id, owner_id, request.task_id)
            if row is None:
                raise _task_not_found(request.task_id)
            response = p.GetSubagentResultResponse(task=SubagentTask.FromString(row["task"]))
            if row["outcome"]:
                outcome = SubagentResultBody.FromString(row["outcome"])
                response.result.CopyFrom(outcome.final_results[0])
                response.evidence_summaries.extend(outcome.evidence_summaries)
            return response

        return await self._database.snapshot(work)

    async def process_events(self, owner_id: str, request: p.ListProcessEventsRequest) -> p.ListProcessEventsResponse:
        size = page_size(request.page_size, 200, 1000)
        scope = ("process_events", request.session_id, request.batch_entry_id, request.task_id)
        cursor = read_token(request.page_token, scope, (int,))
        names = (request.session_id, request.batch_entry_id, owner_id)

        async def work(connection: asyncpg.Connection) -> p.ListProcessEventsResponse:
            await owned_session(connection, owner_id, request.session_id)
            if not await connection.fetchval(SQL["batch_exists"], *names):
                raise NetaclawError(
                    Reason.REASON_ENTRY_NOT_FOUND, "no such batch", metadata={"entry_id": request.batch_entry_id}
                )
            after = cursor[0] if cursor else -1
            rows = await connection.fetch(SQL["process_events"], *names, after, request.task_id, size + 1)
            events = fitting((ProcessEvent.FromString(row["body"]) for row in rows[:size]), PAGE_BYTES)
            response = p.ListProcessEventsResponse(process_events=events)
            if len(events) < len(rows):
                response.next_page_token = write_token(scope, rows[len(events) - 1]["n"])
            return response

        return await self._database.snapshot(work)


def _task_not_found(task_id: str) -> NetaclawError:
    return NetaclawError(Reason.REASON_TASK_NOT_FOUND, "no such task", metadata={"task_id": task_id})


def _child_entry(task_id: str, row: Row) -> p.SubagentEntry:
    message = Message.FromString(row["message"])
    return p.SubagentEntry(task_id=task_id, n=row["n"], message=message, create_time=timestamp(row["create_time"]))
