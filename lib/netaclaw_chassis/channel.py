"""Channels between services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import grpc

from netaclaw_chassis import calls
from netaclaw_chassis.link import PLAIN, Link


def connect(address: str, service_token: str = "", link: Link = PLAIN) -> grpc.aio.Channel:
    """A channel to host:port. Connects lazily and reconnects with backoff; close it when done.

    With a token every call shows it, so that the service knows a caller of its own suite.
    """
    options = link.channel_options()
    if link.channels is None:
        channel = grpc.aio.insecure_channel(address, options=options)
    else:
        channel = grpc.aio.secure_channel(address, link.channels, options=options)
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
