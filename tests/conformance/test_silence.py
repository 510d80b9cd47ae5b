"""Streams that say nothing for long, and TLS with HTTP/2. NETACLAW_SILENCE_S says how long: proxies cut after 15 s, or
after five minutes, where they are not told otherwise."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings
from tests.conformance.conftest import WAYS, Way, open_way
from tests.conformance.envoy import open_envoy
from tests.conformance.service import CaseService
from tests.conformance.test_cases import CHAT
from tests.conformance.wire import BINARY, Connection, frame, request

SILENCE_S = float(os.environ.get("NETACLAW_SILENCE_S", "17"))


@pytest.mark.timeout(SILENCE_S + 60)
async def test_a_stream_that_is_silent_for_long_is_not_cut(tmp_path: Path) -> None:
    async def one(name: str) -> None:
        async with open_way(name, tmp_path) as way:
            await _is_not_cut(way)

    await asyncio.gather(*(one(name) for name in WAYS))  # the ways in are silent at the same time


async def _is_not_cut(way: Way) -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata(())
        yield b"before"
        await asyncio.sleep(SILENCE_S)  # the silence itself
        yield b"after"

    way.service._answer = answer  # type: ignore[method-assign]  # the case service, told otherwise
    connection = await Connection.open(way.web)
    headers = {"host": way.web, "content-type": BINARY, "accept": BINARY}
    await connection.send(request(CHAT, [frame(b"q")], headers))
    answered = await connection.headers()
    async with asyncio.timeout(SILENCE_S + 30):
        while not answered.messages:
            await connection.piece(answered)
        await asyncio.sleep(max(0.0, SILENCE_S - 5))  # the connection waits at most its own time for a piece
        await connection.rest(answered)
    assert (answered.messages, answered.code, answered.ended) == ([b"before", b"after"], 0, True)
    await connection.close()


async def test_envoy_speaks_tls_with_http_2(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(chain)]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    service = CaseService()
    service.play({"messages": ["one", "two"]})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    settings = Settings(port=0, web_port=0, authz_port=0, orchestrator_address=address, store_address=address)
    try:
        async with open_app(settings) as ports, open_envoy(address, ports, tmp_path, certificate=chain, key=key) as web:
            credentials = grpc.ssl_channel_credentials(chain.read_bytes())
            async with grpc.aio.secure_channel(f"localhost:{web.rpartition(':')[2]}", credentials) as channel:
                start: Any = channel.unary_stream(CHAT)
                assert [message async for message in start(b"q", timeout=20)] == [b"one", b"two"]
    finally:
        await server.stop(None)
