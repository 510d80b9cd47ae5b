"""A gateway that stops tells open streams so, and takes no more calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import from_rpc
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings
from tests.conformance.service import CaseService
from tests.conformance.wire import BINARY, Connection, frame, request

CHAT = "/netaclaw.chat.v1.ChatService/Chat"


@pytest.fixture
async def service() -> AsyncIterator[str]:
    """A service whose streams stay silent."""
    case = CaseService()
    case.play({"silent": True})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((case,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield address
    await server.stop(None)


async def test_open_streams_hear_that_the_gateway_stops(service: str) -> None:
    settings = Settings(port=0, web_port=0, authz_port=0, orchestrator_address=service, store_address=service)
    async with open_app(settings) as ports:
        web = await Connection.open(ports["web"])
        headers = {"host": ports["web"], "content-type": BINARY}
        await web.send(request(CHAT, [frame(b"q")], headers))
        answer = await web.headers()
        channel = connect(ports["public"])
        start: Any = channel.unary_stream(CHAT)
        call = start(b"q")
        await call.initial_metadata()
        reading = asyncio.ensure_future(call.read())
    await web.rest(answer)
    assert (answer.code, answer.ended) == (14, True)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reading
    assert from_rpc(caught.value).reason is Reason.REASON_SHUTTING_DOWN
    await web.close()
    await channel.close()
