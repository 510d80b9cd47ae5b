"""A plain turn through the gateway, with a model that answers within a millisecond."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import grpc

from bench.bare import METHOD
from bench.figures import Figure, median_figure
from bench.processes import Bench, suite_and_floor
from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw_agent.loop import user_message
from netaclaw_agent.models.openai_request import request_body
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_client.client import Client
from netaclaw_orchestrator.prelude import make_prelude

HEADERS = {"Content-Type": "application/json"}
COUNT = 300
WARM_UP = 20


def model_request() -> bytes:
    """The very request that the suite sends for such a turn."""
    agent = Agent(name="assistant", published=True)
    prelude = make_prelude(agent, [agent], "default", SubagentSettings())
    call = prelude.call([user_message("say hello")], ThinkingLevel.THINKING_LEVEL_UNSPECIFIED)
    return json.dumps(request_body(call, "default"), ensure_ascii=False).encode()


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
        self._request = model_request()

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
        async with self._http.post(
            f"{self._bench.model_url}/chat/completions", data=self._request, headers=HEADERS
        ) as response:
            await response.content.readline()
            first = time.perf_counter() - started
            await response.read()
        return first * 1000, (time.perf_counter() - started) * 1000

    def _untyped(self) -> Any:
        return self._channel
