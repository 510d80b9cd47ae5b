"""A plain turn through the gateway, with a model that answers within a millisecond."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import grpc

from bench.bare import METHOD
from bench.figures import Figure, median_figure
from bench.processes import Bench, suite_and_floor
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw_client.client import Client

COUNT = 300
WARM_UP = 20
REQUEST = {
    "model": "default",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": "say hello"}],
}


async def first_token_and_end() -> Sequence[Figure]:
    """turn.first_token: to the first delta. turn.end: to `done`. Floor: bare chain and bare model call, one after the
    other, to the model's first chunk or to its end."""
    async with suite_and_floor() as bench, Client(bench.gateway) as client, _Floor(bench) as floor:
        turns: list[tuple[float, float]] = []
        floors: list[tuple[float, float]] = []

        async def turn() -> None:
            turns.append(await _turn(client))

        async def bare() -> None:
            floors.append(await floor.turn())

        for number in range(WARM_UP + COUNT):
            for step in (turn, bare) if number % 2 else (bare, turn):
                await step()
    firsts, ends = zip(*turns[WARM_UP:], strict=True)
    floor_firsts, floor_ends = zip(*floors[WARM_UP:], strict=True)
    return [
        median_figure("turn.first_token", "ms", firsts, floor_firsts, limit=1.5),
        median_figure("turn.end", "ms", ends, floor_ends),
    ]


async def _turn(client: Client) -> tuple[float, float]:
    """Milliseconds to the first delta and to done, of the first turn of a session that it makes."""
    request = ChatRequest(content="say hello")
    started = time.perf_counter()
    first = 0.0
    async for response in client.chat.Chat(request):
        for event in response.events:
            if not first and event.WhichOneof("event") == "assistant_stream_delta":
                first = time.perf_counter() - started
    return first * 1000, (time.perf_counter() - started) * 1000


class _Floor:
    """The bare chain and the bare model call, on kept connections."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def __aenter__(self) -> _Floor:
        self._channel = grpc.aio.insecure_channel(self._bench.bare)
        self._call: Callable[[bytes], Awaitable[bytes]] = self._untyped().unary_unary(METHOD)
        self._http = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()
        await self._channel.close()

    async def turn(self) -> tuple[float, float]:
        """Milliseconds to the model's first chunk and to its end."""
        started = time.perf_counter()
        await self._call(b"x" * 200)
        async with self._http.post(f"{self._bench.model_url}/chat/completions", json=REQUEST) as response:
            await response.content.readline()
            first = time.perf_counter() - started
            await response.read()
        return first * 1000, (time.perf_counter() - started) * 1000

    def _untyped(self) -> Any:
        return self._channel
