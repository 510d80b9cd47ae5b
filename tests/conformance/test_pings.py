"""Pings and idle limits fit each other at both ends of every connection: services, Envoy, and the clients we ship."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import Link, LinkSettings
from netaclaw_chassis.server import GrpcServer
from netaclaw_cli import envoy
from netaclaw_client import client
from netaclaw_gateway import web_server
from netaclaw_orchestrator.settings import Settings
from tests.conformance.test_cases import CHAT

ROOT = Path(__file__).parents[2]
PING, ANSWER, APART = (
    "grpc.keepalive_time_ms",
    "grpc.keepalive_timeout_ms",
    "grpc.http2.min_ping_interval_without_data_ms",
)


def milliseconds(path: str, pattern: str, unit: int) -> int:
    """A number in a client's source."""
    found = re.search(pattern, (ROOT / path).read_text())
    assert found is not None, f"{path} says no longer how often it pings: {pattern}"
    return int(found[1].replace("_", "")) * unit


@pytest.mark.parametrize("ping_s", [30.0, 2.0])
def test_both_ends_of_an_inner_channel_have_the_same_pings_and_allow_them(ping_s: float) -> None:
    link = Link(ping_s=ping_s)
    server, channel = dict(link.server_options()), dict(link.channel_options())
    for name in (PING, ANSWER, "grpc.http2.max_pings_without_data", "grpc.max_receive_message_length"):
        assert server[name] == channel[name], name
    assert int(channel[PING]) == ping_s * 1000
    assert int(server[APART]) < int(channel[PING])
    assert int(channel[ANSWER]) < int(channel[PING])
    assert server["grpc.keepalive_permit_without_calls"] == 1


@pytest.mark.parametrize("ping_s", [30.0, 2.0])
def test_envoy_pings_services_and_clients_as_services_ping_each_other(ping_s: float) -> None:
    reached = "127.0.0.1:1"
    options = envoy.EnvoyOptions(reached, reached, reached, reached, reached, reached, link=LinkSettings(ping_s=ping_s))
    told = re.findall(
        r"connection_keepalive: \{ interval: ([\d.]+)s, timeout: ([\d.]+)s \}", envoy.configuration(options)
    )
    server = dict(Link(ping_s=ping_s).server_options())
    assert len(told) == 2, "towards clients, and towards services"
    for interval, answer in told:
        assert float(interval) * 1000 == server[PING]
        assert float(answer) * 1000 == pytest.approx(server[ANSWER], abs=1)


def test_clients_ping_no_more_often_than_a_server_of_ours_allows() -> None:
    least = dict(Link().server_options())[APART]
    every = {
        "python": dict(client._OPTIONS)[PING],
        "typescript": milliseconds("clients/typescript/src/node.ts", r"PING_EVERY_MS = ([\d_]+)", 1),
        "go": milliseconds("clients/go/client.go", r"ClientParameters\{Time: (\d+) \* time.Second", 1000),
        "java": milliseconds(
            "clients/java/src/main/java/netaclaw/client/Client.java", r"keepAliveTime\((\d+), TimeUnit.SECONDS", 1000
        ),
    }
    assert {name: ms for name, ms in every.items() if ms < int(least)} == {}


def test_heartbeats_come_before_every_idle_limit() -> None:
    """Twice as often: the streams that leave events out carry them within two periods."""
    slowest = 2 * Settings().heartbeat_s
    limits = {
        "bridge, unread": web_server.UNREAD_ENDS_S,
        "bridge, idle": web_server.IDLE_CLOSES_S,
        "envoy, unread": envoy.UNREAD_S,
        "envoy, idle": envoy.IDLE_S,
        "go": milliseconds("clients/go/follow.go", r"silence\s+= (\d+) \* time.Second", 1000) / 1000,
        "java": milliseconds("clients/java/src/main/java/netaclaw/client/Client.java", r"SILENCE_S = (\d+);", 1),
    }
    assert {name: limit for name, limit in limits.items() if limit <= slowest} == {}


PING_S = 1.0
"""The shortest that grpc sends."""


class _Silent(grpc.GenericRpcHandler):
    """Says nothing, until it is let."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.unary_stream_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata(())
        await self.over.wait()
        yield b"after"


async def test_a_channel_whose_pings_its_server_does_not_allow_would_be_closed() -> None:
    """What equal settings are for: the same silent call, to a server with ours and to one with another's."""
    equal, unequal = await asyncio.gather(*map(survives, (PING_S, 30 * PING_S)))
    assert equal == b"after"
    assert isinstance(unequal, grpc.aio.AioRpcError)
    assert "too many pings" in str(unequal.details()).lower()


async def survives(allowed_s: float) -> object:
    """What comes of a call that is silent for six pings, where three too many end it: its message, or its error."""
    silent = _Silent()
    server = GrpcServer("127.0.0.1", 0, [], handlers=[silent], link=Link(ping_s=allowed_s))
    await server.start()
    try:
        async with connect(server.address, link=Link(ping_s=PING_S)) as channel:
            start: Any = channel.unary_stream(CHAT)
            call = start(b"q")
            await call.initial_metadata()
            first = asyncio.ensure_future(call.read())
            await asyncio.wait([first], timeout=6 * PING_S)  # the silence itself
            silent.over.set()
            return (await asyncio.gather(first, return_exceptions=True))[0]
    finally:
        await server.stop(0)
