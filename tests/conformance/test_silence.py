"""Streams that say nothing for long, and TLS with HTTP/2. NETACLAW_SILENCE_S says how long: proxies cut after 15 s, or
after five minutes, where they are not told otherwise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.conformance.envoy import open_envoy
from tests.conformance.front import open_front
from tests.conformance.service import CaseService
from tests.conformance.test_cases import CHAT
from tests.conformance.wire import BINARY, Answer, Connection, frame, request
from tests.fakes.authority import Authority

SILENCE_S = float(os.environ.get("NETACLAW_SILENCE_S", "17"))


@pytest.mark.timeout(SILENCE_S + 60)
async def test_a_stream_that_is_silent_for_long_is_not_cut(tmp_path: Path) -> None:
    service = CaseService()
    service._answer = answer  # type: ignore[method-assign]  # the case service, told otherwise
    async with open_front(service) as front, open_envoy(front.address, front.ports, tmp_path) as envoy:
        for answered in await asyncio.gather(*map(asked, (front.ports["web"], envoy))):
            assert (answered.messages, answered.code, answered.ended) == ([b"before", b"after"], 0, True)


async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
    await context.send_initial_metadata(())
    yield b"before"
    await asyncio.sleep(SILENCE_S)  # the silence itself
    yield b"after"


async def asked(door: str) -> Answer:
    connection = await Connection.open(door)
    headers = {"host": door, "content-type": BINARY, "accept": BINARY}
    await connection.send(request(CHAT, [frame(b"q")], headers))
    answered = await connection.headers()
    async with asyncio.timeout(SILENCE_S + 30):
        while not answered.messages:
            await connection.piece(answered)
        await asyncio.sleep(max(0.0, SILENCE_S - 5))  # the connection waits at most its own time for a piece
        await connection.rest(answered)
    await connection.close()
    return answered


async def test_envoy_speaks_tls_with_http_2(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain, key = authority.sign("localhost")
    service = CaseService()
    service.play({"messages": ["one", "two"]})
    async with (
        open_front(service) as front,
        open_envoy(front.address, front.ports, tmp_path, certificate=chain, key=key) as web,
    ):
        credentials = grpc.ssl_channel_credentials(authority.roots.read_bytes())
        async with grpc.aio.secure_channel(f"localhost:{web.rpartition(':')[2]}", credentials) as channel:
            start: Any = channel.unary_stream(CHAT)
            assert [message async for message in start(b"q", timeout=20)] == [b"one", b"two"]
