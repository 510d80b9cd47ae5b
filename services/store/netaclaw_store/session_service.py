"""SessionService's gRPC face: validate, call, translate. The owner is the caller's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceServicer
from netaclaw_chassis.calls import owner_id
from netaclaw_chassis.errors import Violations
from netaclaw_store.checks import check_id, check_optional_id, check_text
from netaclaw_store.delegation_reads import DelegationReads
from netaclaw_store.pages import page_size, read_token, write_token
from netaclaw_store.session_reads import SessionReads
from netaclaw_store.settings import DEFAULT_WORKSPACE

Context = grpc.aio.ServicerContext[Any, Any]

MAX_QUERY = 200


class SessionService(SessionServiceServicer):
    """SessionService on the public port."""

    def __init__(self, reads: SessionReads, delegations: DelegationReads, workspaces: Iterable[str]) -> None:
        self._reads = reads
        self._delegations = delegations
        self._workspaces = sorted({DEFAULT_WORKSPACE, *workspaces})

    async def GetSession(self, request: p.GetSessionRequest, context: Context) -> p.GetSessionResponse:
        owner = owner_id()
        _check_session(request.session_id)
        return await self._reads.session(owner, request.session_id)

    async def ListSessions(self, request: p.ListSessionsRequest, context: Context) -> p.ListSessionsResponse:
        found = Violations()
        check_text(found, "query", request.query, MAX_QUERY)
        found.check("\0" not in request.query, "query", "holds NUL")
        found.raise_if_any()
        return await self._reads.sessions(owner_id(), request)

    async def GetSessionTree(self, request: p.GetSessionTreeRequest, context: Context) -> p.GetSessionTreeResponse:
        owner = owner_id()
        _check_session(request.session_id)
        return await self._reads.tree(owner, request)

    async def ListMessages(self, request: p.ListMessagesRequest, context: Context) -> p.ListMessagesResponse:
        owner = owner_id()
        _check_session(request.session_id, leaf_entry_id=request.leaf_entry_id)
        return await self._reads.messages(owner, request)

    async def ReadContent(self, request: p.ReadContentRequest, context: Context) -> p.ReadContentResponse:
        owner = owner_id()
        _check_session(request.session_id, content_id=request.content_id)
        return await self._reads.content(owner, request)

    async def ListSubagentEntries(
        self, request: p.ListSubagentEntriesRequest, context: Context
    ) -> p.ListSubagentEntriesResponse:
        owner = owner_id()
        _check_session(request.session_id, task_id=request.task_id)
        return await self._delegations.subagent_entries(owner, request)

    async def GetSubagentResult(
        self, request: p.GetSubagentResultRequest, context: Context
    ) -> p.GetSubagentResultResponse:
        owner = owner_id()
        _check_session(request.session_id, task_id=request.task_id)
        return await self._delegations.result(owner, request)

    async def ListProcessEvents(
        self, request: p.ListProcessEventsRequest, context: Context
    ) -> p.ListProcessEventsResponse:
        owner = owner_id()
        _check_session(request.session_id, batch_entry_id=request.batch_entry_id, task_id=request.task_id)
        return await self._delegations.process_events(owner, request)

    async def GetUsage(self, request: p.GetUsageRequest, context: Context) -> p.GetUsageResponse:
        owner = owner_id()
        if request.session_id or request.turn_id:  # a turn is one of a session
            _check_session(request.session_id, turn_id=request.turn_id)
        return await self._reads.usage(owner, request)

    async def ListWorkspaces(self, request: p.ListWorkspacesRequest, context: Context) -> p.ListWorkspacesResponse:
        owner_id()
        size = page_size(request.page_size, 100, 1000)
        cursor = read_token(request.page_token, ("workspaces",), (str,))
        names = [name for name in self._workspaces if not cursor or name > cursor[0]]
        response = p.ListWorkspacesResponse(
            workspaces=[p.Workspace(name=name, is_default=name == DEFAULT_WORKSPACE) for name in names[:size]]
        )
        if len(names) > size:
            response.next_page_token = write_token(("workspaces",), names[size - 1])
        return response


def _check_session(session_id: str, **optional: str) -> None:
    found = Violations()
    check_id(found, "session_id", session_id)
    for field, value in optional.items():
        check_optional_id(found, field, value)
    found.raise_if_any()
