"""Connecting to a suite."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from netaclaw.chat.v1.chat_service_pb2 import PingRequest, PingResponse
from netaclaw_client.client import Client
from tests.faults.proxy import Proxy

FAR_S = 0.5
"""A far suite, or a busy one, takes so long to greet."""


async def ping(request: PingRequest, context: grpc.aio.ServicerContext[Any, Any]) -> PingResponse:
    return PingResponse()


async def test_a_suite_that_is_slow_to_greet_is_reached() -> None:
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(ping, PingRequest.FromString, PingResponse.SerializeToString)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("netaclaw.chat.v1.ChatService", {"Ping": method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with Proxy(f"127.0.0.1:{port}") as proxy, Client(proxy.address) as client:
            proxy.hush()
            asyncio.get_running_loop().call_later(FAR_S, proxy.speak)
            await client.chat.Ping(PingRequest(), timeout=20)
    finally:
        await server.stop(None)
