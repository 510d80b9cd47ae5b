"""Finds the instance that owns a session, and reaches it: a call that came to the wrong one is passed on once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc

from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceStub
from netaclaw.store.v1.journal_service_pb2 import GetOwnerRequest, GetOwnerResponse
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceAsyncStub
    from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub
    from netaclaw_orchestrator.sessions import Sessions

FORWARDED = ("netaclaw-forwarded", "1")
CANCELLED = ("netaclaw-cancelled", "1")
MAX_CHANNELS = 64


class Owners:
    """Stubs of other instances by address; channels are kept and closed with it."""

    def __init__(
        self,
        instance_id: str,
        journal: JournalServiceAsyncStub,
        sessions: Sessions,
        connect: Callable[[str], grpc.aio.Channel],
    ) -> None:
        self._connect = connect
        self._instance_id = instance_id
        self._journal = journal
        self._sessions = sessions
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def elsewhere(self, session_id: str, owner_id: str) -> ChatServiceAsyncStub | None:
        """The other instance that has a live lease on the session; None when this one has, or none.

        Raises NetaclawError: SESSION_NOT_FOUND, or when the store cannot be asked.
        """
        address = await self.address(session_id, owner_id)
        return self.at(address) if address else None

    async def address(self, session_id: str, owner_id: str) -> str:
        """Where `elsewhere` is reached; empty when there is no other owner. Raises as it does."""
        if self._sessions.get(session_id, owner_id) is not None:
            return ""
        return (await self.look_up(session_id, owner_id)).address

    async def look_up(self, session_id: str, owner_id: str) -> GetOwnerResponse:
        """What the store says; the address is empty when this instance is the owner. Raises as `elsewhere` does."""
        request = GetOwnerRequest(owner_id=owner_id, session_id=session_id, instance_id=self._instance_id)
        with translated():
            found = await self._journal.GetOwner(request, metadata=calls.outgoing(owner_id))
        if found.instance_id == self._instance_id:
            found.address = ""
        return found

    def at(self, address: str) -> ChatServiceAsyncStub:
        """A stub of the instance at host:port."""
        return ChatServiceStub(self._channel(address))

    def commands_at(self, address: str) -> SessionCommandServiceAsyncStub:
        """The same for commands."""
        return SessionCommandServiceStub(self._channel(address))

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS:  # instances come and go; an old one is not missed
                self._channels.pop(next(iter(self._channels)))
            channel = self._channels[address] = self._connect(address)
        return channel


def named_owner(error: NetaclawError, context: grpc.aio.ServicerContext[object, object]) -> str:
    """Where the owner is reached that a refused call names with OWNED_ELSEWHERE.

    Raises the error again when it is another one; SERVICE_UNAVAILABLE when the call was passed on already: the owner
    has just changed, or has died and its lease is not over.
    """
    if error.reason != Reason.REASON_OWNED_ELSEWHERE:
        raise error
    if forwarded(context):
        words = "the session is being taken over: try again"
        raise NetaclawError(
            Reason.REASON_SERVICE_UNAVAILABLE, words, metadata={"service": "orchestrator"}, retry_after=1.0
        ) from error
    return error.metadata["address"]


def forwarded(context: grpc.aio.ServicerContext[object, object]) -> bool:
    """Whether another instance has passed the call on: it is not passed on again."""
    return FORWARDED in tuple(context.invocation_metadata() or ())


def cancelled(context: grpc.aio.ServicerContext[object, object]) -> bool:
    """Whether the turn that a passed on message begins was cancelled on the way."""
    return forwarded(context) and CANCELLED in tuple(context.invocation_metadata() or ())


def onward(owner_id: str, *, cancelled: bool = False) -> tuple[tuple[str, str], ...]:
    """Metadata of a call that is passed on."""
    return (*calls.outgoing(owner_id), FORWARDED, *((CANCELLED,) if cancelled else ()))
