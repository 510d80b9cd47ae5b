"""What a streamed token costs, from a provider's bytes to a client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure
from bench.processes import Bench, started, suite_and_floor
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw_client.client import Client

STREAMS = 50
PER_SECOND = 50
SETTLE_S = 4.0
"""Until all streams run evenly."""
WINDOW_S = 12.0
TOKENS = 100_000
TOKEN_BYTES = 4
LIMIT = 6.0
_TICKS = os.sysconf("SC_CLK_TCK")


async def cpu() -> Sequence[Figure]:
    """stream.cpu: CPU seconds of all our processes for 100,000 tokens of 50 streams at 50 tokens a second, counted in a
    window in which all of them run. Floor: a process that reads the same paced bytes as lines, and no more."""
    async with suite_and_floor() as bench, Client(bench.gateway) as client:
        before = await _floor(bench.model_url)
        ours = await _ours(bench, client)
        after = await _floor(bench.model_url)
    floor = (before + after) / 2  # other work on the machine changes what a wake-up costs
    spread = (ours / max(before, after), ours / min(before, after))
    return [Figure("stream.cpu", "CPU s", ours, floor, spread, limit=LIMIT)]


async def _ours(bench: Bench, client: Client) -> float:
    seconds = SETTLE_S + WINDOW_S + SETTLE_S
    got = [0] * STREAMS

    async def follow(number: int) -> None:
        async for response in client.chat.Chat(ChatRequest(content=f"stream {seconds:g}")):
            for event in response.events:
                got[number] += len(event.assistant_stream_delta.text) // TOKEN_BYTES

    readers = [asyncio.create_task(follow(number)) for number in range(STREAMS)]
    await asyncio.sleep(SETTLE_S)  # the measured state, not its beginning
    before, begin = sum(map(_cpu_s, bench.pids.values())), sum(got)
    await asyncio.sleep(WINDOW_S)  # the window itself
    spent = sum(map(_cpu_s, bench.pids.values())) - before
    tokens = sum(got) - begin
    _check_pace(tokens)
    await asyncio.gather(*readers)
    return spent * TOKENS / tokens


async def _floor(model_url: str) -> float:
    """CPU seconds for 100,000 lines of the same streams."""
    async with started("bench.line_reader", model_url, str(STREAMS), f"{SETTLE_S:g}", f"{WINDOW_S:g}") as said:
        lines = int(said["lines"])
        _check_pace(lines)
        return float(said["cpu_s"]) * TOKENS / lines


def _check_pace(tokens: int) -> None:
    """A machine that cannot keep the pace batches what comes late, and its figure says nothing."""
    if not 0.97 <= tokens / (STREAMS * PER_SECOND * WINDOW_S) <= 1.03:
        raise RuntimeError(f"the pace was not kept: {tokens} tokens in the window")


def _cpu_s(pid: int) -> float:
    """User and system time of a process, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
