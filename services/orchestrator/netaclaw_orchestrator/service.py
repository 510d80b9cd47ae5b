"""ChatService: validate, call, translate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

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
from netaclaw_orchestrator.chat import ChatTurns
from netaclaw_orchestrator.commands import SessionCommandServicer
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.validation import check_key, check_steer, check_watch, require_ids
from netaclaw_orchestrator.watch import Watcher

Context = grpc.aio.ServicerContext[Any, Any]


class ChatServicer(ChatServiceServicer):
    """The public face of turns."""

    def __init__(
        self, turns: ChatTurns, sessions: Sessions, watcher: Watcher, commands: SessionCommandServicer
    ) -> None:
        self._turns = turns
        self._sessions = sessions
        self._watcher = watcher
        self._commands = commands

    async def Chat(self, request: pb.ChatRequest, context: Context) -> AsyncIterator[pb.ChatResponse]:
        async for events in self._turns.execute_chat(request, calls.owner_id()):
            yield pb.ChatResponse(events=events)

    async def ExecuteChat(self, request: pb.ExecuteChatRequest, context: Context) -> pb.ExecuteChatResponse:
        return await self._turns.answer(request, calls.owner_id())

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:
        check_watch(request)
        await context.send_initial_metadata(())  # a silent stream would otherwise send no headers
        async for events in self._watcher.watch(calls.owner_id(), request.targets):
            yield pb.WatchResponse(events=events)

    async def CancelTurn(self, request: pb.CancelTurnRequest, context: Context) -> pb.CancelTurnResponse:
        require_ids(session_id=request.session_id)
        live = self._sessions.get(request.session_id, calls.owner_id())
        turn = live.turn if live is not None else None
        response = pb.CancelTurnResponse()
        if turn is not None and not turn.ended.is_set() and request.turn_id in ("", turn.turn_id):
            await turn.cancel()
            response.turn_id = turn.turn_id
        response.gone_time.GetCurrentTime()
        return response

    async def CancelSubagent(self, request: pb.CancelSubagentRequest, context: Context) -> pb.CancelSubagentResponse:
        require_ids(session_id=request.session_id, task_id=request.task_id)
        live = self._sessions.get(request.session_id, calls.owner_id())
        task = None
        if live is not None and live.turn is not None:
            task = await live.turn.cancel_subagent(request.task_id)
        if task is None:
            metadata = {"task_id": request.task_id}
            raise NetaclawError(Reason.REASON_TASK_NOT_FOUND, "no such task is running", metadata=metadata)
        return pb.CancelSubagentResponse(task=task)

    async def SteerSubagent(self, request: pb.SteerSubagentRequest, context: Context) -> pb.SteerSubagentResponse:
        check_steer(request)
        live = self._sessions.get(request.session_id, calls.owner_id())
        turn = live.turn if live is not None else None
        state = (
            None if turn is None else await turn.steer_subagent(request.task_id, request.request_id, request.content)
        )
        if state is None:
            metadata = {"task_id": request.task_id}
            raise NetaclawError(Reason.REASON_TASK_NOT_FOUND, "no such task is running", metadata=metadata)
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
        raise not_built("RetractMessage")

    async def RespondClarify(self, request: pb.RespondClarifyRequest, context: Context) -> pb.RespondClarifyResponse:
        raise not_built("RespondClarify")

    async def Compact(self, request: pb.CompactRequest, context: Context) -> pb.CompactResponse:
        raise not_built("Compact")

    async def Ping(self, request: pb.PingRequest, context: Context) -> pb.PingResponse:
        wrong = Violations()
        check_key(wrong, "nonce", request.nonce)
        wrong.raise_if_any()
        event = ChatEvent(pong=Pong(nonce=request.nonce))
        event.time.GetCurrentTime()
        return pb.PingResponse(event=event)


def not_built(method: str) -> NetaclawError:
    """UNIMPLEMENTED, for a method whose contract stands before its work does."""
    return NetaclawError(Reason.REASON_METHOD_NOT_PUBLIC, f"{method} is not built yet", metadata={"method": method})
