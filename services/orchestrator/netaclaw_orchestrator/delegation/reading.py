"""Reads of delegations from the store: results, conversations to go on with, and what dead owners left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import grpc

from netaclaw.session.v1.entry_pb2 import Message, ToolCallState, ToolResult
from netaclaw.session.v1.session_service_pb2 import (
    GetSubagentResultRequest,
    GetSubagentResultResponse,
    GetUsageRequest,
    ListProcessEventsRequest,
    ListSubagentEntriesRequest,
)
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.loop import calls_of
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import ReadRange
from netaclaw_agent.tools.results import cut_middle
from netaclaw_chassis import calls
from netaclaw_chassis.errors import from_rpc
from netaclaw_orchestrator.delegation.outcome import ENDED
from netaclaw_orchestrator.delegation.sources import Earlier
from netaclaw_orchestrator.journal import translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

MAX_HISTORY_BYTES = 3 * 1024 * 1024
"""A conversation to go on with travels in one message of at most 4 MiB."""
_SHORT_RESULT_BYTES = 4 * 1024
_PAGE = 500

_STOPPED = ToolResult(content="stopped before it ended; it may have had effect", is_error=True)


class DelegationReader:
    """Every read raises NetaclawError when the store cannot be asked."""

    def __init__(self, sessions: SessionServiceAsyncStub) -> None:
        self._sessions = sessions

    async def task(self, owner_id: str, session_id: str, task_id: str) -> SubagentTask | None:
        """A task as its row has it; None when there is none."""
        try:
            return (await self._known(owner_id, session_id, task_id)).task
        except ToolError:
            return None

    async def earlier(self, owner_id: str, session_id: str, task_id: str) -> Earlier:
        """A task to go on with. Raises ToolError when there is no such task, it still runs, or it is too long."""
        task = (await self._known(owner_id, session_id, task_id)).task
        if task.state not in ENDED:
            raise ToolError(f"task {task_id} still runs: it can be gone on with once it ended")
        history = await self._history(owner_id, session_id, task_id)
        return Earlier(task, _fitting(task_id, history))

    async def result(self, owner_id: str, session_id: str, wanted: ReadRange) -> ToolResult:
        """A range of a task's final result, and nothing else of it. Raises ToolError as above."""
        found = await self._known(owner_id, session_id, wanted.task_id)
        if found.task.state not in ENDED:
            raise ToolError(f"task {wanted.task_id} still runs: it has no result yet")
        whole = (found.result.final_output or found.task.summary or found.task.partial_text).encode()
        if wanted.offset and wanted.offset >= len(whole):
            raise ToolError(f"offset {wanted.offset} is behind the end: the result has {len(whole)} bytes")
        text = whole[wanted.offset : wanted.offset + wanted.limit].decode(errors="ignore")
        end = min(wanted.offset + wanted.limit, len(whole))
        return ToolResult(content=f"[bytes {wanted.offset} to {end} of {len(whole)}]\n{text}")

    async def _known(self, owner_id: str, session_id: str, task_id: str) -> GetSubagentResultResponse:
        request = GetSubagentResultRequest(session_id=session_id, task_id=task_id)
        try:
            return await self._sessions.GetSubagentResult(request, metadata=calls.outgoing(owner_id))
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                raise ToolError(f"this conversation has no task {task_id}") from None
            raise from_rpc(error) from error

    async def _history(self, owner_id: str, session_id: str, task_id: str) -> list[Message]:
        """A task's conversation; what stands before its first message is that of the task that it went on with."""
        request = ListSubagentEntriesRequest(session_id=session_id, task_id=task_id, page_size=_PAGE)
        messages: list[Message] = []
        before: list[Message] = []
        while True:
            with translated():
                page = await self._sessions.ListSubagentEntries(request, metadata=calls.outgoing(owner_id))
            if not request.page_token and page.task.resumed_task_id and not (page.entries and page.entries[0].n == 0):
                before = await self._history(owner_id, session_id, page.task.resumed_task_id)
            messages.extend(entry.message for entry in page.entries)
            if not page.next_page_token:
                return [*before, *messages]
            request.page_token = page.next_page_token

    async def spent(self, owner_id: str, session_id: str, turn_id: str) -> Usage:
        """What all subagents of a turn have spent."""
        request = GetUsageRequest(session_id=session_id, turn_id=turn_id)
        with translated():
            return (await self._sessions.GetUsage(request, metadata=calls.outgoing(owner_id))).subagents

    async def steps(self, owner_id: str, session_id: str, batch_entry_id: str) -> list[ProcessEvent]:
        """All process events of a batch, in order."""
        request = ListProcessEventsRequest(session_id=session_id, batch_entry_id=batch_entry_id, page_size=1000)
        steps: list[ProcessEvent] = []
        while True:
            with translated():
                page = await self._sessions.ListProcessEvents(request, metadata=calls.outgoing(owner_id))
            steps.extend(page.process_events)
            if not page.next_page_token:
                return steps
            request.page_token = page.next_page_token


def _fitting(task_id: str, history: Iterable[Message]) -> list[Message]:
    """The conversation with every call answered, its older results cut where the whole would be too large."""
    messages = []
    for message in history:
        kept = Message()
        kept.CopyFrom(message)
        for call in calls_of(kept):
            if not call.HasField("result"):
                call.state = ToolCallState.TOOL_CALL_STATE_CANCELLED
                call.result.CopyFrom(_STOPPED)
        messages.append(kept)
    size = sum(message.ByteSize() for message in messages)
    for message in messages:
        if size <= MAX_HISTORY_BYTES:
            return messages
        size -= message.ByteSize()
        for call in calls_of(message):
            call.result.content = cut_middle(call.result.content, _SHORT_RESULT_BYTES)
        size += message.ByteSize()
    if size > MAX_HISTORY_BYTES:
        raise ToolError(f"the conversation of task {task_id} is too long to go on with: delegate a fresh task")
    return messages
