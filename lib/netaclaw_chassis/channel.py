"""Channels between services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import grpc

from netaclaw_chassis import calls
from netaclaw_chassis.server import MAX_MESSAGE_BYTES

OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),  # not below the servers' min_ping_interval, else GOAWAY too_many_pings
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),  # services are addressed directly, whatever the environment says
)


def connect(address: str, service_token: str = "") -> grpc.aio.Channel:
    """A channel to host:port. Connects lazily and reconnects with backoff; close it when done.

    With a token every call shows it, so that the service knows a caller of its own suite.
    """
    channel = grpc.aio.insecure_channel(address, options=OPTIONS)
    return CredentialedChannel(channel, service_token) if service_token else channel


class CredentialedChannel(grpc.aio.Channel):
    """Adds the service credential to the metadata of every call; costs nothing per message, unlike an interceptor."""

    def __init__(self, channel: grpc.aio.Channel, service_token: str) -> None:
        self._channel = channel
        self._pair = (calls.SERVICE_KEY, service_token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        return self._showing(self._channel.unary_unary(*args, **kwargs))

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        return self._showing(self._channel.unary_stream(*args, **kwargs))

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        return self._showing(self._channel.stream_unary(*args, **kwargs))

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        return self._showing(self._channel.stream_stream(*args, **kwargs))

    def _showing(self, start: Any) -> Any:
        def call(*args: Any, metadata: Iterable[tuple[str, str | bytes]] | None = None, **kwargs: Any) -> Any:
            return start(*args, metadata=(*(metadata or ()), self._pair), **kwargs)

        return call
