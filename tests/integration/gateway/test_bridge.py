"""The gateway passes public calls on unchanged, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError, from_rpc
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings
from tests.integration.gateway.conftest import Rig

CHAT = "/netaclaw.chat.v1.ChatService/Chat"
PING = "/netaclaw.chat.v1.ChatService/Ping"
TREE = "/netaclaw.session.v1.SessionService/GetSessionTree"


async def test_a_stream_arrives_message_by_message_with_headers_and_trailers(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata((("served-by", "test"), ("raw-bin", b"\x01")))
        context.set_trailing_metadata((("cost", "3"),))
        for n in range(3):
            yield request + str(n).encode()

    rig.orchestrator.streams[CHAT] = answer
    call = rig.stream(CHAT, b"hi")
    assert [message async for message in call] == [b"hi0", b"hi1", b"hi2"]
    headers = dict(await call.initial_metadata())
    assert (headers["served-by"], headers["raw-bin"]) == ("test", b"\x01")
    assert dict(await call.trailing_metadata())["cost"] == "3"


async def test_a_unary_call_goes_through_the_same_road(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("cost", "3"),))
        return request[::-1]

    rig.store.unaries[TREE] = answer
    call = rig.ask(TREE, b"abc")
    assert await call == b"cba"
    assert dict(await call.trailing_metadata())["cost"] == "3"


@pytest.mark.parametrize(
    ("method", "upstream"),
    [
        ("/netaclaw.chat.v1.ChatService/Anything", "orchestrator"),
        ("/netaclaw.session.v1.SessionCommandService/Anything", "orchestrator"),
        ("/netaclaw.tool.v1.ToolService/Anything", "orchestrator"),
        ("/netaclaw.model.v1.ModelService/Anything", "orchestrator"),
        ("/netaclaw.session.v1.SessionService/Anything", "store"),
        ("/netaclaw.agent.v1.AgentService/Anything", "store"),
    ],
)
async def test_each_public_service_has_one_upstream_whatever_the_method(rig: Rig, method: str, upstream: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.ask(method)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # the test upstream knows no such method
    behind = {"orchestrator": rig.orchestrator, "store": rig.store}
    assert [m for m, _ in behind.pop(upstream).seen] == [method]
    assert not next(iter(behind.values())).seen


@pytest.mark.parametrize(
    "method",
    [
        "/netaclaw.store.v1.JournalService/BeginTurn",
        "/netaclaw.store.v1.IdentityService/CreateKey",
        "/netaclaw.subagent.v1.RunnerService/GetStatus",
        "/netaclaw.chat.v1.ChatServiceX/Chat",
        "/unknown.Service/Method",
        "/nothing",
    ],
)
async def test_other_services_are_refused_and_reach_no_upstream(rig: Rig, method: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.ask(method)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    error = from_rpc(caught.value)
    assert error.reason == Reason.REASON_METHOD_NOT_PUBLIC
    assert error.metadata["method"] == method
    assert not rig.orchestrator.seen
    assert not rig.store.seen


async def test_an_error_keeps_code_words_details_and_trailers(rig: Rig) -> None:
    refused = NetaclawError(Reason.REASON_SESSION_NOT_FOUND, "нет такой сессии: 100%", metadata={"session_id": "x"})

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        trailers = ((STATUS_DETAILS_KEY, refused.details()), ("extra", "yes"))
        await context.abort(refused.code, str(refused), trailers)

    rig.orchestrator.streams[CHAT] = answer
    call = rig.stream(CHAT)
    stream = aiter(call)
    assert await anext(stream) == b"one"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(stream)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "нет такой сессии: 100%"
    assert from_rpc(caught.value).metadata == {"session_id": "x"}
    assert dict(caught.value.trailing_metadata())["extra"] == "yes"


async def test_an_error_before_any_message_of_a_unary_call_keeps_its_details(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        error = NetaclawError(Reason.REASON_LIMIT_REACHED, "too many", retry_after=1.5)
        await context.abort(error.code, str(error), ((STATUS_DETAILS_KEY, error.details()),))
        return b""

    rig.store.unaries[TREE] = answer
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.ask(TREE)
    error = from_rpc(caught.value)
    assert (error.reason, error.retry_after) == (Reason.REASON_LIMIT_REACHED, 1.5)


async def test_identity_of_the_caller_is_replaced(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        return b""

    rig.orchestrator.unaries[PING] = answer
    forged = (("netaclaw-owner-id", "root"), ("netaclaw-request-id", "r-1"), ("traceparent", "00-ab"))
    await rig.ask(PING, metadata=forged)
    (_, seen), *rest = rig.orchestrator.seen
    assert not rest
    assert seen["netaclaw-owner-id"] == "local"
    assert seen["netaclaw-request-id"] == "r-1"
    assert seen["traceparent"] == "00-ab"


async def test_a_silent_stream_shows_its_headers_at_once(rig: Rig) -> None:
    release = asyncio.Event()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata(())
        await release.wait()
        yield b"late"

    rig.orchestrator.streams[CHAT] = answer
    call = rig.stream(CHAT)
    async with asyncio.timeout(2):
        await call.initial_metadata()
    release.set()
    assert [message async for message in call] == [b"late"]


@pytest.mark.parametrize("silent", [True, False])
async def test_a_client_that_goes_away_cancels_the_upstream_call_at_once(rig: Rig, silent: bool) -> None:
    running, gone = asyncio.Event(), asyncio.Event()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            while True:
                running.set()
                await (asyncio.Event().wait() if silent else asyncio.sleep(0))  # it talks on
                yield b"x" * 1000
        finally:
            gone.set()

    rig.orchestrator.streams[CHAT] = answer
    call = rig.stream(CHAT)
    if silent:
        await running.wait()
    else:
        await anext(aiter(call))
    started = time.monotonic()
    call.cancel()
    async with asyncio.timeout(5):
        await gone.wait()
    assert time.monotonic() - started < 1.0  # 100 ms is promised; shared test machines are granted more


async def test_the_deadline_is_passed_on(rig: Rig) -> None:
    remaining: list[float | None] = []

    async def answer(request: bytes, context: Any) -> bytes:
        remaining.append(context.time_remaining())
        return b""

    rig.orchestrator.unaries[PING] = answer
    await rig.ask(PING, timeout=30)
    await rig.ask(PING)
    assert remaining[0] is not None
    assert 25 < remaining[0] < 31  # the wire rounds it
    assert remaining[1] is None


async def test_a_call_past_its_deadline_ends_upstream_too(rig: Rig) -> None:
    gone = asyncio.Event()

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            gone.set()

    rig.orchestrator.streams[CHAT] = answer
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in rig.stream(CHAT, timeout=0.2):
            pass
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(5):
        await gone.wait()


async def test_an_upstream_that_cancels_ends_the_call_as_cancelled(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await context.abort(grpc.StatusCode.CANCELLED, "stopped")

    rig.orchestrator.streams[CHAT] = answer
    stream = aiter(rig.stream(CHAT))
    await anext(stream)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(stream)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.CANCELLED, "stopped")


async def test_an_upstream_that_is_down_is_named_without_its_address(rig: Rig) -> None:
    await rig.orchestrator_server.stop(None)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.ask(PING)
    error = from_rpc(caught.value)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (error.reason, error.metadata) == (Reason.REASON_SERVICE_UNAVAILABLE, {"service": "orchestrator"})
    assert rig.orchestrator.address not in (caught.value.details() or "")


async def test_an_upstream_that_dies_in_mid_stream_is_unavailable(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Event().wait()

    rig.orchestrator.streams[CHAT] = answer
    stream = aiter(rig.stream(CHAT))
    assert await anext(stream) == b"one"
    await rig.orchestrator_server.stop(None)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(stream)
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


async def test_three_mebibytes_pass_both_ways(rig: Rig) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        return request

    rig.store.unaries[TREE] = answer
    large = bytes(range(256)) * 4 * 1024 * 3
    assert await rig.ask(TREE, large) == large


async def test_it_says_that_it_serves_and_reflects_public_services_only(rig: Rig) -> None:
    health = health_pb2_grpc.HealthStub(rig.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(rig.channel)
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    listed = [reply async for reply in reflection.ServerReflectionInfo(iter([ask]))]
    names = {service.name for service in listed[0].list_services_response.service}
    assert {name for name in names if name.startswith("netaclaw.")} == {
        "netaclaw.chat.v1.ChatService",
        "netaclaw.session.v1.SessionCommandService",
        "netaclaw.session.v1.SessionService",
        "netaclaw.agent.v1.AgentService",
        "netaclaw.tool.v1.ToolService",
        "netaclaw.model.v1.ModelService",
    }


async def test_a_port_in_use_is_one_clear_line(rig: Rig) -> None:
    async with open_app(Settings(port=0, web_port=0, authz_port=0)) as ports:
        port = int(ports["public"].rpartition(":")[2])
        with pytest.raises(Exception, match=f"127.0.0.1:{port}: the port is in use"):
            async with open_app(Settings(port=port, web_port=0, authz_port=0)):
                pass
