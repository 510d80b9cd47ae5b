"""A gateway in front of two small real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import PLAIN
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings

Answer = Callable[[bytes, Any], AsyncIterator[bytes]]
UnaryAnswer = Callable[[bytes, Any], Awaitable[bytes]]


@dataclass
class Upstream:
    """A service that answers each method as a test says, and remembers what it was asked."""

    streams: dict[str, Answer] = field(default_factory=dict)
    unaries: dict[str, UnaryAnswer] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str | bytes]]] = field(default_factory=list)
    address: str = ""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        self.seen.append((details.method, dict(details.invocation_metadata or ())))
        if details.method in self.streams:
            return grpc.unary_stream_rpc_method_handler(self.streams[details.method])
        if details.method in self.unaries:
            return grpc.unary_unary_rpc_method_handler(self.unaries[details.method])
        return None


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._upstream.service(handler_call_details)


async def _serve(upstream: Upstream) -> grpc.aio.Server:
    server = grpc.aio.server(options=PLAIN.server_options())
    server.add_generic_rpc_handlers((_Handler(upstream),))
    upstream.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    return server


@dataclass
class Rig:
    """A running gateway, a channel to it, and what stands behind it."""

    channel: grpc.aio.Channel
    orchestrator: Upstream
    store: Upstream
    orchestrator_server: grpc.aio.Server
    web: str
    """host:port of gRPC-Web."""

    def stream(self, method: str, request: bytes = b"", **options: Any) -> grpc.aio.UnaryStreamCall[bytes, bytes]:
        """A server-streaming call through the gateway."""
        start: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(method)
        return start(request, **options)

    def ask(self, method: str, request: bytes = b"", **options: Any) -> grpc.aio.UnaryUnaryCall[bytes, bytes]:
        """A unary call through the gateway."""
        start: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        return start(request, **options)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    orchestrator, store = Upstream(), Upstream()
    servers = [await _serve(orchestrator), await _serve(store)]
    settings = Settings(
        port=0, web_port=0, authz_port=0, orchestrator_address=orchestrator.address, store_address=store.address
    )
    async with open_app(settings) as ports:
        channel = connect(ports["public"])
        yield Rig(channel, orchestrator, store, servers[0], ports["web"])
        await channel.close()
    await asyncio.gather(*(server.stop(None) for server in servers))
