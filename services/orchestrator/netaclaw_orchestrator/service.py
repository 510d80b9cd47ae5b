"""ChatService: validate, call, translate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask

from netaclaw.chat.v1 import chat_service_pb2 as pb
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceServicer
from netaclaw.chat.v1.event_pb2 import ChatEvent, Pong
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_command_service_pb2 import UpdateSessionRequest
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError, Violations
from netaclaw_orchestrator.admission import Admission
from netaclaw_orchestrator.beginning import Beginning
from netaclaw_orchestrator.cancelling import TurnCancels
from netaclaw_orchestrator.chat import ChatTurns
from netaclaw_orchestrator.commands import SessionCommandServicer
from netaclaw_orchestrator.compact_command import Compactions
from netaclaw_orchestrator.delegation.outcome import ENDED
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.journal import translated
from netaclaw_orchestrator.owners import Owners, cancelled, forwarded, named_owner, onward
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.standing_approvals import QuestionReader
from netaclaw_orchestrator.validation import (
    check_answer,
    check_compact,
    check_id,
    check_key,
    check_steer,
    check_watch,
    require_ids,
)
from netaclaw_orchestrator.watch import Watcher

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceAsyncStub

Context = grpc.aio.ServicerContext[Any, Any]


class ChatServicer(ChatServiceServicer):
    """The public face of turns."""

    def __init__(
        self,
        turns: ChatTurns,
        sessions: Sessions,
        watcher: Watcher,
        owners: Owners,
        *,
        commands: SessionCommandServicer,
        compactions: Compactions,
        delegations: DelegationReader,
        questions: QuestionReader,
        admission: Admission,
        cancels: TurnCancels,
    ) -> None:
        self._cancels = cancels
        self._admission = admission
        self._turns = turns
        self._sessions = sessions
        self._watcher = watcher
        self._owners = owners
        self._commands = commands
        self._compactions = compactions
        self._delegations = delegations
        self._questions = questions

    async def Chat(self, request: pb.ChatRequest, context: Context) -> AsyncIterator[pb.ChatResponse]:
        owner_id = calls.owner_id()

        with self._admission.stream(), self._beginning(request.session_id, context) as beginning:
            self._admission.turn(owner_id, request.session_id)
            try:
                async for events in self._turns.execute_chat(request, owner_id, beginning, _headers(context)):
                    yield pb.ChatResponse(events=events)
            except NetaclawError as error:
                owner = self._owners.at(named_owner(error, context))
                with translated():
                    call = owner.Chat(request, metadata=onward(owner_id, cancelled=beginning.cancelled))
                    await call.initial_metadata()
                    beginning.over()  # the owner knows of it
                    async for response in call:
                        yield response

    async def ExecuteChat(self, request: pb.ExecuteChatRequest, context: Context) -> pb.ExecuteChatResponse:
        owner_id = calls.owner_id()
        self._admission.turn(owner_id, request.session_id)
        with self._beginning(request.session_id, context) as beginning:
            try:
                return await self._turns.answer(request, owner_id, beginning, _headers(context))
            except NetaclawError as error:
                owner = self._owners.at(named_owner(error, context))
                with translated():
                    call = owner.ExecuteChat(request, metadata=onward(owner_id, cancelled=beginning.cancelled))
                    beginning.over()  # it is on its way, and a cancel that is passed on comes behind it
                    return await call

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:
        check_watch(request)
        owner_id = calls.owner_id()
        with self._admission.stream():
            await context.send_initial_metadata(())  # a silent stream would otherwise send no headers
            batches = self._watcher.watch(
                owner_id, request.targets, here=forwarded(context), session_list=request.include_session_list
            )
            async for events in batches:
                yield pb.WatchResponse(events=events)

    async def CancelTurn(self, request: pb.CancelTurnRequest, context: Context) -> pb.CancelTurnResponse:
        require_ids(session_id=request.session_id)
        turn_id = await self._cancels.cancel(request, calls.owner_id(), passed_on=forwarded(context))
        response = pb.CancelTurnResponse(turn_id=turn_id)
        response.gone_time.GetCurrentTime()
        return response

    async def CancelSubagent(self, request: pb.CancelSubagentRequest, context: Context) -> pb.CancelSubagentResponse:
        require_ids(session_id=request.session_id, task_id=request.task_id)
        owner = await self._other_owner(request.session_id, context)
        if owner is not None:
            with translated():
                return await owner.CancelSubagent(request, metadata=onward(calls.owner_id()))
        live = self._sessions.get(request.session_id, calls.owner_id())
        task = None
        if live is not None and live.turn is not None:
            task = await live.turn.cancel_subagent(request.task_id)
        if task is None:
            raise await self._missed(request.session_id, request.task_id)
        return pb.CancelSubagentResponse(task=task)

    async def SteerSubagent(self, request: pb.SteerSubagentRequest, context: Context) -> pb.SteerSubagentResponse:
        check_steer(request)
        owner = await self._other_owner(request.session_id, context)
        if owner is not None:
            with translated():
                return await owner.SteerSubagent(request, metadata=onward(calls.owner_id()))
        live = self._sessions.get(request.session_id, calls.owner_id())
        turn = live.turn if live is not None else None
        state = (
            None if turn is None else await turn.steer_subagent(request.task_id, request.request_id, request.content)
        )
        if state is None:
            raise await self._missed(request.session_id, request.task_id)
        return pb.SteerSubagentResponse(state=state)

    async def SetThinkingLevel(
        self, request: pb.SetThinkingLevelRequest, context: Context
    ) -> pb.SetThinkingLevelResponse:
        update = UpdateSessionRequest(
            session=Session(session_id=request.session_id, thinking_level=request.level),
            update_mask=FieldMask(paths=["thinking_level"]),
        )
        updated = await self._commands.UpdateSession(update, context)
        return pb.SetThinkingLevelResponse(session=updated.session)

    async def RetractMessage(self, request: pb.RetractMessageRequest, context: Context) -> pb.RetractMessageResponse:
        wrong = Violations()
        check_id(wrong, "session_id", request.session_id)
        wrong.check(bool(request.request_id), "request_id", "must not be empty")
        check_key(wrong, "request_id", request.request_id)
        wrong.raise_if_any()
        owner = await self._other_owner(request.session_id, context)
        if owner is not None:
            with translated():
                return await owner.RetractMessage(request, metadata=onward(calls.owner_id()))
        await self._commands.retract(request.session_id, request.request_id)
        return pb.RetractMessageResponse()

    async def RespondClarify(self, request: pb.RespondClarifyRequest, context: Context) -> pb.RespondClarifyResponse:
        check_answer(request)
        owner = await self._other_owner(request.session_id, context)
        if owner is not None:
            with translated():
                return await owner.RespondClarify(request, metadata=onward(calls.owner_id()))
        live = self._sessions.get(request.session_id, calls.owner_id())
        entry = None
        if live is not None and live.turn is not None:
            entry = await live.turn.answer_question(request.request_id, request.answer)
        if entry is None:
            raise await self._questions.not_open(calls.owner_id(), request.session_id, request.request_id)
        return pb.RespondClarifyResponse(entry=entry)

    async def Compact(self, request: pb.CompactRequest, context: Context) -> pb.CompactResponse:
        check_compact(request)
        owner_id = calls.owner_id()
        try:
            entry = await self._compactions.compact(owner_id, request.session_id, request.instructions)
        except NetaclawError as error:
            owner = self._owners.at(named_owner(error, context))
            with translated():
                return await owner.Compact(request, metadata=onward(owner_id))
        return pb.CompactResponse(entry=entry)

    async def Ping(self, request: pb.PingRequest, context: Context) -> pb.PingResponse:
        wrong = Violations()
        check_key(wrong, "nonce", request.nonce)
        wrong.raise_if_any()
        event = ChatEvent(pong=Pong(nonce=request.nonce))
        event.time.GetCurrentTime()
        return pb.PingResponse(event=event)

    async def _missed(self, session_id: str, task_id: str) -> NetaclawError:
        """Why a task is not found here: it ended or never was, or its owner is gone and the next one is to come."""
        task = await self._delegations.task(calls.owner_id(), session_id, task_id)
        if task is None or task.state in ENDED:
            return NetaclawError(Reason.REASON_TASK_NOT_FOUND, "no such task is running", metadata={"task_id": task_id})
        return NetaclawError(
            Reason.REASON_SERVICE_UNAVAILABLE,
            "the task is being taken over: try again",
            metadata={"service": "orchestrator"},
        )

    @contextmanager
    def _beginning(self, session_id: str, context: Context) -> Iterator[Beginning]:
        """A message that came in."""
        with self._sessions.beginnings.of(calls.owner_id(), session_id) as beginning:
            beginning.cancelled = cancelled(context)
            yield beginning

    async def _other_owner(self, session_id: str, context: Context) -> ChatServiceAsyncStub | None:
        """The instance to pass the call on to, if another one owns the session."""
        return None if forwarded(context) else await self._owners.elsewhere(session_id, calls.owner_id())


def _headers(context: Context) -> Callable[[], Awaitable[None]]:
    """Sends the answer's headers before there is an answer: readers on the way take them in, and whoever has passed the
    call on learns that it is known here."""

    async def send() -> None:
        await context.send_initial_metadata(())

    return send
