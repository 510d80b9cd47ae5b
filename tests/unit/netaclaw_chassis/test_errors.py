"""Errors keep their reason across the wire, and faults of ours are masked."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls, interceptors
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import CODES, InvalidRequest, NetaclawError, from_rpc, printable
from netaclaw_chassis.server import GrpcServer, PortInUse

CANARY = "canary-7f3a"


class Raises(grpc.GenericRpcHandler):
    """Answers every method by raising what it was given, streaming when the method's name says so."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def service(self, handler_call_details: Any) -> Any:
        if not handler_call_details.method.startswith("/test/"):
            return None
        if handler_call_details.method.endswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        raise self._error

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        raise self._error


async def call(channel: grpc.aio.Channel, method: str) -> None:
    """Call a method without serializers and read its answer to the end."""
    bare: Any = channel
    if method.endswith("Stream"):
        async for _ in bare.unary_stream(method)(b""):
            pass
    else:
        await bare.unary_unary(method)(b"")


async def fail(error: Exception, method: str = "/test/Unary") -> NetaclawError:
    """Raise the error in a server and return what a client makes of it."""
    server = GrpcServer("127.0.0.1", 0, [], handlers=[Raises(error)])
    await server.start()
    try:
        async with connect(server.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, method)
            return from_rpc(caught.value)
    finally:
        await server.stop(0)


@pytest.mark.parametrize("method", ["/test/Unary", "/test/Stream"])
async def test_an_error_arrives_with_reason_metadata_violations_and_retry(method: str) -> None:
    sent = NetaclawError(
        Reason.REASON_LIMIT_REACHED,
        "too many: 100 % of 3\nplaces, ünïcode",
        metadata={"limit": "turns"},
        violations=[("a.b", "is wrong")],
        retry_after=1.5,
    )
    got = await fail(sent, method)
    assert got.reason == Reason.REASON_LIMIT_REACHED
    assert got.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (str(got), got.metadata, got.violations, got.retry_after) == (
        str(sent),
        {"limit": "turns"},
        (("a.b", "is wrong"),),
        1.5,
    )


async def test_every_violation_is_named_in_one_answer() -> None:
    got = await fail(InvalidRequest([("content", "must not be empty"), ("session_id", "is not a UUID")]))
    assert got.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [field for field, _ in got.violations] == ["content", "session_id"]


@pytest.mark.parametrize("letter", ["x", "漢", "\0", "\n", "😀"])
async def test_an_error_of_any_size_arrives_with_its_reason_and_the_first_violations(letter: str) -> None:
    many = [(f"paths[{n}]", letter * 5000) for n in range(5000)]
    sent = NetaclawError(
        Reason.REASON_LIMIT_REACHED, letter * 5000, metadata={"limit": letter * 5000}, violations=many, retry_after=2
    )
    for method in ("/test/Unary", "/test/Stream"):
        got = await fail(sent, method)
        assert (got.reason, got.retry_after) == (Reason.REASON_LIMIT_REACHED, 2)
        assert str(got).startswith(letter * 200)
        assert got.metadata["limit"].startswith(letter * 50)
        assert [field for field, _ in got.violations] == [f"paths[{n}]" for n in range(len(got.violations))]
        assert got.violations[0][1].startswith(letter * 50)
    words, details = printable(str(sent)), sent.details()
    assert len(quote(words)) + len(base64.b64encode(details)) < 8192 - 512, "below what every peer takes"


@pytest.mark.parametrize("method", ["/test/Unary", "/test/Stream"])
async def test_an_unknown_error_is_masked_and_names_the_request(method: str) -> None:
    got = await fail(RuntimeError(CANARY), method)
    assert got.code is grpc.StatusCode.INTERNAL
    assert CANARY not in str(got)
    assert got.metadata["request_id"] in str(got)


async def test_a_request_that_does_not_come_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptors, "REQUEST_WITHIN_S", 0.2)
    server = GrpcServer("127.0.0.1", 0, [], handlers=[Raises(RuntimeError())])
    await server.start()
    async with connect(server.address) as channel:
        bare: Any = channel
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await bare.stream_unary("/test/Unary")()  # opened, and never written to
    await server.stop(0)
    error = from_rpc(caught.value)
    assert (error.reason, error.metadata) == (Reason.REASON_LIMIT_REACHED, {"limit": "request_seconds"})


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    server = GrpcServer("127.0.0.1", 0, [])
    await server.start()
    address = server.address
    await server.stop(0)
    async with connect(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, "/test/Unary")
    assert from_rpc(caught.value).reason == Reason.REASON_SERVICE_UNAVAILABLE


async def test_a_port_in_use_is_refused_in_words() -> None:
    first = GrpcServer("127.0.0.1", 0, [])
    await first.start()
    second = GrpcServer("127.0.0.1", first.port, [])
    with pytest.raises(PortInUse, match=f"127.0.0.1:{first.port}"):
        await second.start()
    await first.stop(0)


def test_every_reason_has_the_status_that_its_comment_names() -> None:
    proto = Path(__file__).parents[3] / "protos/netaclaw/error/v1/reason.proto"
    pattern = re.compile(r"// \[([A-Z_]+)\][^=]*?(REASON_[A-Z_]+) =", re.DOTALL)
    documented = {name: status for status, name in pattern.findall(proto.read_text())}
    assert documented == {Reason.Name(reason): code.name for reason, code in CODES.items()}


def test_a_call_without_identity_has_no_owner() -> None:
    calls.begin(())
    with pytest.raises(NetaclawError) as caught:
        calls.owner_id()
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
