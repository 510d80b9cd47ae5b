"""Every way into a suite, each spoken as its clients speak it: gRPC and gRPC-Web, at the gateway and through Envoy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import STATUS_DETAILS_KEY
from netaclaw_chassis.link import PLAIN, Link, LinkSettings
from tests.conformance.envoy import open_envoy
from tests.conformance.wire import BINARY, WAIT_S, Answer, Connection, decoded_value, frame, request
from tests.scenarios.suites import SERVICE_TOKEN, RunningSuite


class Refused(Exception):
    """A call ended with a status: its words, and the limit that its details name."""

    def __init__(self, code: grpc.StatusCode, words: str, details: bytes | None) -> None:
        super().__init__(f"{code.name}: {words}")
        self.code = code
        self.words = words
        self.limit = ""
        for detail in status_pb2.Status.FromString(details or b"").details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info):
                self.limit = info.metadata.get("limit", "")


@dataclass
class Door:
    """One way in. Notes the largest message that came through it."""

    name: str
    address: str
    web: bool
    link: Link = PLAIN
    wait_s: float = WAIT_S
    """How long a piece of an answer is waited for, where that is HTTP/1.1."""
    largest: int = field(default=0, compare=False)

    async def messages(self, method: str, sent: bytes) -> AsyncGenerator[bytes, None]:
        """The messages that answer one, as they come. Raises Refused."""
        async with aclosing((_over_web if self.web else _over_grpc)(self, method, sent)) as messages:
            async for message in messages:
                self.largest = max(self.largest, len(message))
                yield message

    async def ask(self, method: str, sent: bytes) -> bytes:
        """The one message that answers one. Raises Refused."""
        (message,) = [message async for message in self.messages(method, sent)]
        return message


@asynccontextmanager
async def open_doors(
    suite: RunningSuite, directory: Path, *, ping_s: float = 30.0, **envoy: object
) -> AsyncIterator[list[Door]]:
    """The doors of a suite in this process: "grpc", "web", "envoy grpc", "envoy web"."""
    front = open_envoy(
        suite.ports["orchestrator"],
        suite.ports,
        directory,
        store=suite.ports["store"],
        service_token=SERVICE_TOKEN,
        link=LinkSettings(ping_s=ping_s),
        **envoy,
    )
    link = Link(ping_s=ping_s)
    async with front as address:
        yield [
            Door("grpc", suite.gateway, False, link),
            Door("web", suite.web, True, link),
            Door("envoy grpc", address, False, link),
            Door("envoy web", address, True, link),
        ]


async def _over_grpc(door: Door, method: str, sent: bytes) -> AsyncGenerator[bytes, None]:
    async with connect(door.address, link=door.link) as channel:
        start: Any = channel.unary_stream(method)
        try:
            async for message in start(sent):
                yield message
        except grpc.aio.AioRpcError as error:
            raise Refused(error.code(), error.details() or "", _details(error)) from None


def _details(error: grpc.aio.AioRpcError) -> bytes | None:
    found = [value for key, value in error.trailing_metadata() or () if key == STATUS_DETAILS_KEY]
    return found[0] if found and isinstance(found[0], bytes) else None


async def _over_web(door: Door, method: str, sent: bytes) -> AsyncGenerator[bytes, None]:
    connection = await Connection.open(door.address, limit=2**20, wait_s=door.wait_s)
    try:
        headers = {"host": door.address, "content-type": BINARY, "accept": BINARY, "x-grpc-web": "1"}
        await connection.send(request(method, [frame(sent)], headers))
        answer = await connection.headers()
        if answer.header("transfer-encoding") != "chunked":
            await connection.rest(answer)
        more = not answer.ended
        while more or answer.body:
            more = bool(more and await connection.piece(answer))
            while (message := _taken(answer)) is not None:
                yield message
            if not more and answer.body[:1] != b"\x80":
                assert not answer.body, "the body ends inside a frame"
            elif not more:
                break
        if answer.code:
            code = next(code for code in grpc.StatusCode if code.value[0] == answer.code)
            told = answer.trailers.get(STATUS_DETAILS_KEY)
            raise Refused(code, answer.words, None if told is None else decoded_value(told))
        assert answer.code == 0, f"HTTP {answer.status}, and no status of the call"
    finally:
        connection.writer.transport.abort()


def _taken(answer: Answer) -> bytes | None:
    """Take the next whole message off a body; the trailer stays."""
    end = 5 + int.from_bytes(answer.body[1:5], "big")
    if len(answer.body) < max(5, end) or answer.body[0] & 0x80:
        return None
    message = bytes(answer.body[5:end])
    del answer.body[:end]
    return message
