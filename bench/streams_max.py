"""How many answers can be streamed at once before readers lag behind the model."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.doors import open_web
from bench.figures import Figure
from bench.processes import ROOT, started
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.topology import ENVOY_SERVICE, SERVICES

CHAT = "/netaclaw.chat.v1.ChatService/Chat"
PER_SECOND = 50
TOKEN = b"tok "
LAG_S = 0.1
SETTLE_S, WINDOW_S, REST_S = 3.0, 6.0, 6.0
STEPS = (25, 40, 60, 80, 100, 120, 150)
BEST_MEASURED = 25.0
"""Streams that the best other system held on this kind of machine."""
WANTED = {"bridge": 60.0, "envoy": 100.0}


async def most() -> Sequence[Figure]:
    """streams.max: whole turns at 50 tokens a second that are read at once, through the bridge and through Envoy, while
    p99 of the lag behind the model stays within 100 ms. Floor: what the best other system held."""
    figures = []
    async with _suite() as suite:
        for name, address in (("bridge", suite.web_address), ("envoy", suite.envoy_address)):
            held = 0
            for count in STEPS:
                if not await _holds(name, address, count):
                    break
                held = count
            ratio = held / BEST_MEASURED
            limit = WANTED[name] / BEST_MEASURED
            figures.append(
                Figure(f"streams.max.{name}", "streams", held, BEST_MEASURED, (ratio, ratio), limit, at_least=True)
            )
    return figures


async def _holds(name: str, address: str, count: int) -> bool:
    """Whether so many are held, in one of two tries: neighbours on the machine disturb the first now and then."""
    for _ in range(2):
        lag, kept = await _lag(address, count)
        print(f'{{"streams.max.{name}": {count}, "p99_ms": {lag * 1000:.0f}, "pace": {kept:.2f}}}', flush=True)
        await asyncio.sleep(REST_S)  # leaving cancels nothing: the turns run to their ends
        if lag <= LAG_S and kept >= 0.97:
            return True
    return False


@asynccontextmanager
async def _suite() -> AsyncIterator[Suite]:
    with tempfile.TemporaryDirectory(prefix="netaclaw-bench-") as name:
        async with started("bench.model_server") as model:
            environ = os.environ | {
                "NETACLAW_OPENAI_BASE_URL": model["base_url"],
                "NETACLAW_LOG_LEVEL": "WARNING",
                "NETACLAW_MODEL_MAX_CONCURRENT": "1000",
            }
            options = SuiteOptions(Path(name), {"repo": ROOT}, environ=environ, throw_away=True)
            async with Suite(options, services=(*SERVICES, ENVOY_SERVICE)) as suite:
                yield suite


async def _lag(address: str, count: int) -> tuple[float, float]:
    """p99 of the lag in seconds over all tokens of a window, and the share of the model's pace that was kept."""
    readers = [_Reader(address) for _ in range(count)]
    tasks = [asyncio.create_task(reader.read()) for reader in readers]
    await asyncio.sleep(SETTLE_S)  # the measured state, not its beginning
    for reader in readers:
        reader.measuring = True
    await asyncio.sleep(WINDOW_S)  # the window itself
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    lags = sorted(lag for reader in readers for lag in reader.lags())
    if not lags:
        return float("inf"), 0.0
    return lags[len(lags) * 99 // 100], len(lags) / (count * PER_SECOND * WINDOW_S)


class _Reader:
    """Reads one turn, and notes when each token came against the pace at which the model sends.

    The model's clock is taken from the token that was least late: what batches and queues add shows in the others.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._late: list[float] = []
        self.measuring = False

    async def read(self) -> None:
        request = ChatRequest(content=f"stream {SETTLE_S + WINDOW_S + 4:g}")
        reader, writer = await open_web(self._address, request.SerializeToString(), CHAT)
        clock, tokens, rest = asyncio.get_running_loop(), 0, b""
        try:
            while data := await reader.read(65536):
                now = clock.time()
                seen = rest + data
                for _ in range(seen.count(TOKEN)):
                    if self.measuring:
                        self._late.append(now - tokens / PER_SECOND)
                    tokens += 1
                rest = seen[seen.rfind(TOKEN) + len(TOKEN) :][-len(TOKEN) + 1 :]
        finally:
            writer.transport.abort()

    def lags(self) -> list[float]:
        """Of each token in the window, in seconds."""
        first = min(self._late, default=0.0)
        return [late - first for late in self._late]
