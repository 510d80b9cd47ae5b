"""SessionCommandService: validate, call the journal, publish what it wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import grpc

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import session_command_service_pb2 as pb
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceServicer
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest, GetSessionTreeRequest
from netaclaw.store.v1 import journal_service_pb2 as journal_pb
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError, Violations
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.branch_summary import BranchSummaries
from netaclaw_orchestrator.journal import translated
from netaclaw_orchestrator.owners import Owners, named_owner, onward
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.side_work import SideWork
from netaclaw_orchestrator.summary_call import Summary
from netaclaw_orchestrator.validation import check_id, check_instructions, require_ids

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

Context = grpc.aio.ServicerContext[Any, Any]

MAX_TITLE_CHARS = 200
MAX_LABEL_CHARS = 100
MAX_LABELS = 100


class SessionCommandServicer(SessionCommandServiceServicer):
    """Changes sessions."""

    def __init__(
        self,
        instance_id: str,
        journal: JournalServiceAsyncStub,
        reads: SessionServiceAsyncStub,
        *,
        sessions: Sessions,
        owners: Owners,
        summaries: BranchSummaries,
        side_work: SideWork,
    ) -> None:
        self._instance_id = instance_id
        self._journal = journal
        self._reads = reads
        self._sessions = sessions
        self._owners = owners
        self._summaries = summaries
        self._side_work = side_work

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        wrong = Violations()
        check_id(wrong, "session_id", request.session_id, optional=True)
        check_id(wrong, "agent_id", request.agent_id, optional=True)
        wrong.check(len(request.title) <= MAX_TITLE_CHARS, "title", f"is longer than {MAX_TITLE_CHARS} characters")
        wrong.raise_if_any()
        wanted = pb.CreateSessionRequest()
        wanted.CopyFrom(request)
        wanted.session_id = request.session_id or new_id()
        asked = journal_pb.CreateSessionRequest(owner_id=calls.owner_id(), request=wanted)
        with translated():
            made = await self._journal.CreateSession(asked, metadata=calls.outgoing())
        return pb.CreateSessionResponse(session=made.session)

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        wrong = Violations()
        check_id(wrong, "session.session_id", request.session.session_id)
        title = request.session.title
        wrong.check(len(title) <= MAX_TITLE_CHARS, "session.title", f"is longer than {MAX_TITLE_CHARS} characters")
        wrong.check(len(request.labels) <= MAX_LABELS, "labels", f"are more than {MAX_LABELS}")
        for number, label in enumerate(request.labels):
            check_id(wrong, f"labels[{number}].entry_id", label.entry_id)
            too_long = len(label.label) > MAX_LABEL_CHARS
            wrong.check(not too_long, f"labels[{number}].label", f"is longer than {MAX_LABEL_CHARS} characters")
        wrong.raise_if_any()
        asked = journal_pb.UpdateSessionRequest(
            owner_id=calls.owner_id(),
            session=request.session,
            update_mask=request.update_mask,
            etag=request.etag,
            labels=request.labels,
        )
        with translated():
            done = await self._journal.UpdateSession(asked, metadata=calls.outgoing())
        self._publish(request.session.session_id, done.events)
        return pb.UpdateSessionResponse(session=done.session)

    async def SwitchLeaf(self, request: pb.SwitchLeafRequest, context: Context) -> pb.SwitchLeafResponse:
        wrong = Violations()
        check_id(wrong, "session_id", request.session_id)
        check_id(wrong, "leaf_entry_id", request.leaf_entry_id, optional=request.to_root)
        wrong.check(not (request.to_root and request.leaf_entry_id), "to_root", "excludes leaf_entry_id")
        check_instructions(wrong, request.instructions)
        wrong.raise_if_any()
        owner_id = calls.owner_id()
        async with self._sessions.trees.alone(request.session_id):
            try:
                generation = await self.acquire(request.session_id, owner_id)
            except NetaclawError as error:
                owner = self._owners.commands_at(named_owner(error, context))
                with translated():
                    return await owner.SwitchLeaf(request, metadata=onward(owner_id))
            try:
                return await self._switch_leaf(request, owner_id, generation)
            finally:
                await self._sessions.give_back(request.session_id, generation)

    async def _switch_leaf(
        self, request: pb.SwitchLeafRequest, owner_id: str, generation: int
    ) -> pb.SwitchLeafResponse:
        with translated():
            reading = GetSessionRequest(session_id=request.session_id)
            session = (await self._reads.GetSession(reading, metadata=calls.outgoing(owner_id))).session
        summary = None
        if request.summarize:
            work = self._summaries.summarize(owner_id, session, generation, request.leaf_entry_id, request.instructions)
            summary = await self._side_work.run(
                owner_id, request.session_id, "the summary", work, ends_with_caller=True
            )
        moving = asyncio.create_task(self._move_leaf(request, owner_id, session, generation, summary))
        try:
            await asyncio.shield(moving)
        except asyncio.CancelledError:  # the caller has gone; the leaf moves with its summary, or not at all
            await asyncio.wait([moving])
            raise
        with translated():
            tree = GetSessionTreeRequest(session_id=request.session_id)
            page = await self._reads.GetSessionTree(tree, metadata=calls.outgoing(owner_id))
        return pb.SwitchLeafResponse(session=page.session, entries=page.entries, next_page_token=page.next_page_token)

    async def _move_leaf(
        self,
        request: pb.SwitchLeafRequest,
        owner_id: str,
        session: Session,
        generation: int,
        summary: Summary | None,
    ) -> None:
        with translated():
            asked = journal_pb.SwitchLeafRequest(
                owner_id=owner_id,
                session_id=request.session_id,
                generation=generation,
                leaf_entry_id=request.leaf_entry_id,
                to_root=request.to_root,
            )
            done = await self._journal.SwitchLeaf(asked, metadata=calls.outgoing())
        self._publish(request.session_id, done.events)
        if summary is not None:
            await self._summaries.write(owner_id, session, generation, request.leaf_entry_id, summary)

    async def ForkSession(self, request: pb.ForkSessionRequest, context: Context) -> pb.ForkSessionResponse:
        wrong = Violations()
        check_id(wrong, "session_id", request.session_id)
        check_id(wrong, "entry_id", request.entry_id, optional=True)
        check_id(wrong, "new_session_id", request.new_session_id, optional=True)
        wrong.raise_if_any()
        asked = journal_pb.ForkSessionRequest(
            owner_id=calls.owner_id(),
            session_id=request.session_id,
            entry_id=request.entry_id,
            new_session_id=request.new_session_id or new_id(),
        )
        with translated():
            done = await self._journal.ForkSession(asked, metadata=calls.outgoing())
        return pb.ForkSessionResponse(session=done.session)

    async def DeleteBranch(self, request: pb.DeleteBranchRequest, context: Context) -> pb.DeleteBranchResponse:
        require_ids(session_id=request.session_id, entry_id=request.entry_id)
        owner_id = calls.owner_id()
        async with self._sessions.trees.alone(request.session_id):
            try:
                generation = await self.acquire(request.session_id, owner_id)
            except NetaclawError as error:
                owner = self._owners.commands_at(named_owner(error, context))
                with translated():
                    return await owner.DeleteBranch(request, metadata=onward(owner_id))
            asked = journal_pb.DeleteBranchRequest(
                owner_id=owner_id, session_id=request.session_id, generation=generation, entry_id=request.entry_id
            )
            try:
                with translated():
                    done = await self._journal.DeleteBranch(asked, metadata=calls.outgoing())
            finally:
                await self._sessions.give_back(request.session_id, generation)
        self._publish(request.session_id, done.events)
        return pb.DeleteBranchResponse(session=done.session, deleted_count=done.deleted_count)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        require_ids(session_id=request.session_id)
        asked = journal_pb.DeleteSessionsRequest(owner_id=calls.owner_id(), session_ids=[request.session_id])
        await self._delete(asked)
        return pb.DeleteSessionResponse()

    async def DeleteAllSessions(
        self, request: pb.DeleteAllSessionsRequest, context: Context
    ) -> pb.DeleteAllSessionsResponse:
        gone = await self._delete(journal_pb.DeleteSessionsRequest(owner_id=calls.owner_id(), all=True))
        return pb.DeleteAllSessionsResponse(deleted_count=len(gone))

    async def retract(self, session_id: str, request_id: str) -> None:
        """Take back a waiting message. Raises NOT_FOUND once it was taken."""
        owner_id = calls.owner_id()
        live = self._sessions.get(session_id, owner_id)
        if live is not None and not live.retract(request_id):
            raise NetaclawError(Reason.REASON_NOT_FOUND, "no such message waits", metadata={"id": request_id})
        asked = journal_pb.RetractMessageRequest(owner_id=owner_id, session_id=session_id, request_id=request_id)
        with translated():
            done = await self._journal.RetractMessage(asked, metadata=calls.outgoing())
        if live is not None:
            live.waiting.pop(request_id, None)
        self._publish(session_id, done.events)

    async def _delete(self, asked: journal_pb.DeleteSessionsRequest) -> Sequence[str]:
        """Turns that run here end first, with their children; what another instance owns ends by its notice."""
        await self._sessions.cancel_turns(asked.owner_id, None if asked.all else asked.session_ids)
        with translated():
            done = await self._journal.DeleteSessions(asked, metadata=calls.outgoing())
        await asyncio.gather(*(self._sessions.drop(session_id) for session_id in done.deleted_session_ids))
        return done.deleted_session_ids

    def _publish(self, session_id: str, events: Sequence[ChatEvent]) -> None:
        self._sessions.publish(session_id, events)

    async def acquire(self, session_id: str, owner_id: str) -> int:
        """The lease's generation of an idle session. Raises TURN_RUNNING, OWNED_ELSEWHERE, SESSION_NOT_FOUND."""
        live = self._sessions.get(session_id, owner_id)
        if live is not None and live.busy and live.turn is not None:
            metadata = {"turn_id": live.turn.turn_id}
            raise NetaclawError(Reason.REASON_TURN_RUNNING, "a turn is running in the session", metadata=metadata)
        asked = journal_pb.AcquireSessionRequest(
            instance_id=self._instance_id, owner_id=owner_id, session_id=session_id
        )
        with translated():
            held = await self._journal.AcquireSession(asked, metadata=calls.outgoing(owner_id))
        self._sessions.forget_path(session_id)
        return held.generation
