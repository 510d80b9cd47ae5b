"""The API key, shown with every call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import grpc

_KEY = "authorization"


class KeyedChannel(grpc.aio.Channel):
    """A channel that adds the key to the metadata of each call; the channel below belongs to whoever made it."""

    def __init__(self, channel: grpc.aio.Channel, api_key: str) -> None:
        self._channel = channel
        self._pair = (_KEY, f"Bearer {api_key}")

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
