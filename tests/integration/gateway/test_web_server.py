"""Connections of the HTTP/1.1 port that are slow, half open, endless or nonsense."""

from __future__ import annotations

import asyncio
import base64
import json
import time

import pytest

from netaclaw_gateway import web_server
from netaclaw_gateway.grpcweb import bridge
from tests.conformance.wire import BINARY, Connection, ask, frame, request
from tests.integration.gateway.conftest import Rig

PING = "/netaclaw.chat.v1.ChatService/Ping"


def headers(rig: Rig) -> dict[str, str]:
    return {"host": rig.web, "content-type": BINARY}


async def closed_after(connection: Connection) -> float:
    """Seconds until the server ends the connection."""
    started = time.monotonic()
    async with asyncio.timeout(10):
        try:
            while await connection.reader.read(1000):
                pass
        except ConnectionError:
            pass
    return time.monotonic() - started


async def test_health_of_the_whole_names_what_does_not_serve(rig: Rig) -> None:
    async def answer() -> tuple[int, object]:
        connection = await Connection.open(rig.web)
        await connection.send(request("/healthz", [], {"host": "10.0.0.1"}, verb="GET"))
        found = await connection.rest(await connection.headers())
        await connection.close()
        return found.status, json.loads(found.body)

    assert await answer() == (503, {"orchestrator": False, "store": False})  # the rig's services know no health


async def test_health_is_told_to_those_who_ask_for_headers_alone(rig: Rig) -> None:
    connection = await Connection.open(rig.web)
    connection.writer.write(b"HEAD /healthz HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n")
    head, _, body = (await connection.reader.read()).partition(b"\r\n\r\n")
    assert (head.split(b" ", 2)[1], body) == (b"503", b"")
    await connection.close()


@pytest.mark.parametrize("kind", ["Application/gRPC-Web-Text", "application/grpc-web-TEXT+proto"])
async def test_a_content_type_counts_in_any_case(rig: Rig, kind: str) -> None:
    async def pong(_request: bytes, _context: object) -> bytes:
        return b"pong"

    rig.orchestrator.unaries[PING] = pong
    said = {"host": rig.web, "content-type": kind, "accept": kind}
    found = await ask(rig.web, request(PING, [base64.b64encode(frame(b"ping"))], said))
    assert (found.code, found.header("content-type")) == (0, "application/grpc-web-text+proto")


@pytest.mark.parametrize("sent", [b"", b"POST ", b"POST / HTTP/1.1\r\nhost: x\r\nx-a: "])
async def test_headers_that_do_not_come_end_the_connection(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(web_server, "HEADERS_WITHIN_S", 0.3)
    connection = await Connection.open(rig.web)
    connection.writer.write(sent)
    assert 0.1 < await closed_after(connection) < 3
    await connection.close()


async def test_headers_that_trickle_do_not_keep_it_open(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEADERS_WITHIN_S", 0.4)
    connection = await Connection.open(rig.web)

    async def trickle() -> None:
        connection.writer.write(b"POST / HTTP/1.1\r\n")
        while True:
            connection.writer.write(b"x-a: b\r\n")
            await asyncio.sleep(0.05)  # slow on purpose

    trickling = asyncio.create_task(trickle())
    assert await closed_after(connection) < 3
    trickling.cancel()
    await connection.close()


async def test_a_second_request_on_a_connection_has_its_own_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await Connection.open(rig.web)
    await connection.send(request(PING, [frame(b"")], headers(rig)))
    await connection.rest(await connection.headers())
    monkeypatch.setattr(web_server, "HEADERS_WITHIN_S", 0.3)
    connection.writer.write(b"POST / HTTP/1.1\r\nx-a")
    assert 0.1 < await closed_after(connection) < 3
    await connection.close()


async def test_a_body_that_does_not_come_ends_the_call(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "BODY_WITHIN_S", 0.3)
    connection = await Connection.open(rig.web)
    connection.writer.write(request(PING, [frame(b"x" * 100)], headers(rig))[0] + b"\0\0")
    answer = await connection.rest(await connection.headers())
    assert (answer.code, rig.orchestrator.seen) == (8, [])
    await connection.close()


async def test_an_endless_body_is_cut_at_the_limit(rig: Rig) -> None:
    connection = await Connection.open(rig.web)
    head = request(PING, [b""], headers(rig) | {"content-length": "1000000000"})[0]
    connection.writer.write(head.replace(b"content-length: 0\r\n", b""))
    flood = asyncio.create_task(connection.send([b"\0" * 65536] * 200))
    answer = await connection.rest(await connection.headers())
    assert answer.code == 8
    flood.cancel()
    await connection.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        *(
            b"\x16\x03\x01\x02\x00\x01",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET\r\n\r\n",
            b"\r\n" * 100 + b"x\r\n\r\n",
        ),
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_answered_or_ended_and_hurts_nobody(rig: Rig, nonsense: bytes) -> None:
    connection = await Connection.open(rig.web)
    await connection.send([nonsense])
    if connection.writer.can_write_eof():
        connection.writer.write_eof()
    await closed_after(connection)
    await connection.close()
    assert rig.orchestrator.seen == []
    again = await Connection.open(rig.web)
    await again.send(request(PING, [frame(b"")], headers(rig)))
    assert (await again.rest(await again.headers())).code == 12  # the rig knows no such method: it was asked
    await again.close()


@pytest.mark.parametrize("target", ["*", "//", "/%00"])
async def test_a_target_that_is_no_path_of_ours_is_not_found(rig: Rig, target: str) -> None:
    connection = await Connection.open(rig.web)
    await connection.send([f"GET {target} HTTP/1.1\r\nhost: {rig.web}\r\n\r\n".encode()])
    assert (await connection.headers()).status == 404
    await connection.close()
