"""The journal's gRPC face: validate, call, translate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceServicer
from netaclaw_store import checks, queue
from netaclaw_store.append import append, write_drafts
from netaclaw_store.batch import taken_apart
from netaclaw_store.begin_turn import begin_turn
from netaclaw_store.commands import Commands
from netaclaw_store.database import Database
from netaclaw_store.fork import fork_session
from netaclaw_store.leases import Leases
from netaclaw_store.notices import Notices
from netaclaw_store.replay import Replay

Context = grpc.aio.ServicerContext[Any, Any]


class JournalService(JournalServiceServicer):
    """JournalService on the internal port."""

    def __init__(
        self, database: Database, leases: Leases, commands: Commands, replay: Replay, notices: Notices
    ) -> None:
        self._database = database
        self._leases = leases
        self._commands = commands
        self._replay = replay
        self._notices = notices

    async def BeginTurn(self, request: j.BeginTurnRequest, context: Context) -> j.BeginTurnResponse:
        checks.check_begin_turn(request)
        response = await begin_turn(self._database, request)
        if response.events:
            self._notices.changed(response.session.session_id, request.owner_id, response.session.seq)
        return response

    async def Append(
        self, request_iterator: AsyncIterator[j.AppendRequest], context: Context
    ) -> AsyncIterator[j.AppendResponse]:
        """A message of drafts alone gets no answer: nobody waits for them."""
        async for request in request_iterator:
            parts = taken_apart(request.writes)
            checks.check_append(request, parts)
            if parts or request.session_id:
                response, owner_id = await append(self._database, request, parts)
                if response.events or response.repeated_append:
                    self._notices.changed(response.session_id, owner_id, response.last_seq)
                yield response
            if request.drafts:
                await write_drafts(self._database, request.drafts)

    async def ReadPath(self, request: j.ReadPathRequest, context: Context) -> AsyncIterator[j.ReadPathResponse]:
        checks.owned_session(request.owner_id, request.session_id).raise_if_any()
        async for page in self._replay.path(request):
            yield page

    async def ReadQuestions(
        self, request: j.ReadQuestionsRequest, context: Context
    ) -> AsyncIterator[j.ReadQuestionsResponse]:
        found = checks.owned_session(request.owner_id, request.session_id)
        checks.check_optional_id(found, "turn_id", request.turn_id)
        checks.check_optional_id(found, "request_id", request.request_id)
        found.raise_if_any()
        async for page in self._replay.questions(request):
            yield page

    async def ReadDelegations(
        self, request: j.ReadDelegationsRequest, context: Context
    ) -> AsyncIterator[j.ReadDelegationsResponse]:
        found = checks.owned_session(request.owner_id, request.session_id)
        checks.check_id(found, "parent_entry_id", request.parent_entry_id)
        found.raise_if_any()
        async for page in self._replay.delegations(request):
            yield page

    async def ReadEvents(self, request: j.ReadEventsRequest, context: Context) -> AsyncIterator[j.ReadEventsResponse]:
        found = checks.owned_session(request.owner_id, request.session_id)
        found.check(request.after_seq >= 0, "after_seq", "is negative")
        found.raise_if_any()
        async for page in self._replay.events(request):
            yield page

    async def Notices(self, request: j.NoticesRequest, context: Context) -> AsyncIterator[j.NoticesResponse]:
        checks.check_instance(request.instance_id)
        # A silent stream would send no headers: the caller must know that it hears from now on.
        await context.send_initial_metadata(())
        async for response in self._notices.subscribe():
            yield response

    async def Heartbeat(self, request: j.HeartbeatRequest, context: Context) -> j.HeartbeatResponse:
        checks.check_heartbeat(request)
        return await self._leases.heartbeat(request)

    async def ClaimDue(self, request: j.ClaimDueRequest, context: Context) -> j.ClaimDueResponse:
        checks.check_instance(request.instance_id)
        response, ended = await self._leases.claim_due(request)
        for each in ended:
            self._notices.changed(each.session_id, each.owner_id, each.seq)
        return response

    async def AcquireSession(self, request: j.AcquireSessionRequest, context: Context) -> j.AcquireSessionResponse:
        checks.check_instance(request.instance_id)
        checks.owned_session(request.owner_id, request.session_id).raise_if_any()
        return await self._leases.acquire(request)

    async def ReleaseSession(self, request: j.ReleaseSessionRequest, context: Context) -> j.ReleaseSessionResponse:
        checks.check_instance(request.instance_id)
        return await self._leases.release(request)

    async def CreateSession(self, request: j.CreateSessionRequest, context: Context) -> j.CreateSessionResponse:
        checks.check_create_session(request)
        response = await self._commands.create(request)
        self._notices.changed(response.session.session_id, request.owner_id, response.session.seq)
        return response

    async def UpdateSession(self, request: j.UpdateSessionRequest, context: Context) -> j.UpdateSessionResponse:
        checks.check_update_session(request)
        response = await self._commands.update(request)
        self._notices.changed(response.session.session_id, request.owner_id, response.session.seq)
        return response

    async def SwitchLeaf(self, request: j.SwitchLeafRequest, context: Context) -> j.SwitchLeafResponse:
        checks.check_switch_leaf(request)
        response = await self._commands.switch_leaf(request)
        self._notices.changed(request.session_id, request.owner_id, response.session.seq)
        return response

    async def ForkSession(self, request: j.ForkSessionRequest, context: Context) -> j.ForkSessionResponse:
        found = checks.owned_session(request.owner_id, request.session_id)
        checks.check_id(found, "new_session_id", request.new_session_id)
        found.raise_if_any()
        response = await fork_session(self._database, request)
        self._notices.changed(request.new_session_id, request.owner_id, response.session.seq)
        return response

    async def DeleteBranch(self, request: j.DeleteBranchRequest, context: Context) -> j.DeleteBranchResponse:
        checks.owned_session(request.owner_id, request.session_id).raise_if_any()
        response = await self._commands.delete_branch(request)
        self._notices.changed(request.session_id, request.owner_id, response.session.seq)
        return response

    async def DeleteSessions(self, request: j.DeleteSessionsRequest, context: Context) -> j.DeleteSessionsResponse:
        checks.check_delete_sessions(request)
        response = await self._commands.delete(request)
        for session_id in response.deleted_session_ids:
            self._notices.deleted(session_id, request.owner_id)
        return response

    async def RetractMessage(self, request: j.RetractMessageRequest, context: Context) -> j.RetractMessageResponse:
        found = checks.owned_session(request.owner_id, request.session_id)
        checks.check_name(found, "request_id", request.request_id, checks.MAX_REQUEST_ID)
        found.raise_if_any()
        response = await queue.retract(self._database, request)
        self._notices.changed(request.session_id, request.owner_id, response.events[-1].seq)
        return response

    async def GetOwner(self, request: j.GetOwnerRequest, context: Context) -> j.GetOwnerResponse:
        checks.owned_session(request.owner_id, request.session_id).raise_if_any()
        return await self._leases.owner(request)
