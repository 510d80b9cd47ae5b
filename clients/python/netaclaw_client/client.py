"""Stubs of the public services on one channel."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc

from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from netaclaw.model.v1.model_service_pb2_grpc import ModelServiceStub
from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceStub
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.tool.v1.tool_service_pb2_grpc import ToolServiceStub
from netaclaw_client.credentials import KeyedChannel
from netaclaw_client.view import SessionView

if TYPE_CHECKING:  # names of the type stubs only
    from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceAsyncStub
    from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceAsyncStub
    from netaclaw.model.v1.model_service_pb2_grpc import ModelServiceAsyncStub
    from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceAsyncStub
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub
    from netaclaw.tool.v1.tool_service_pb2_grpc import ToolServiceAsyncStub

_MAX_MESSAGE_BYTES = 4 * 1024 * 1024

_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),  # finds connections that died in silence; servers allow one ping in 10 s
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # in truth, how long one try to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class Client:
    """A connection to the gateway at host:port; connects lazily, reconnects by itself, closes with its context.

    The API key is shown with every call; without one the caller is the local owner of a suite on this machine. With
    `credentials` (grpc.ssl_channel_credentials) TLS is spoken.
    """

    chat: ChatServiceAsyncStub
    sessions: SessionServiceAsyncStub
    commands: SessionCommandServiceAsyncStub
    agents: AgentServiceAsyncStub
    tools: ToolServiceAsyncStub
    models: ModelServiceAsyncStub

    def __init__(self, address: str, *, api_key: str = "", credentials: grpc.ChannelCredentials | None = None) -> None:
        self.address = address
        self._api_key = api_key
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        if self._credentials is None:
            bare = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        else:
            bare = grpc.aio.secure_channel(self.address, self._credentials, options=_OPTIONS)
        self._channel = bare
        channel = KeyedChannel(bare, self._api_key) if self._api_key else bare
        self.chat = ChatServiceStub(channel)
        self.sessions = SessionServiceStub(channel)
        self.commands = SessionCommandServiceStub(channel)
        self.agents = AgentServiceStub(channel)
        self.tools = ToolServiceStub(channel)
        self.models = ModelServiceStub(channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def load(self, session_id: str) -> SessionView:
        """The session as stored: all pages of its tree. Raises AioRpcError."""
        pages: list[GetSessionTreeResponse] = []
        token = ""
        while not pages or token:
            request = GetSessionTreeRequest(session_id=session_id, page_token=token)
            pages.append(await self.sessions.GetSessionTree(request))
            token = pages[-1].next_page_token
        return SessionView.from_tree(pages)
