"""Readers that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure
from bench.processes import suite_and_floor
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, WatchRequest, WatchTarget
from netaclaw_client.client import Client

WATCHERS = 1000
LIMIT_MIB = 64


async def idle() -> Sequence[Figure]:
    """watch.idle1000: memory of 1,000 idle watchers of one session in the orchestrator. Floor: the stated 64 MiB."""
    async with suite_and_floor() as bench, Client(bench.gateway) as client:
        session_id = ""
        async for response in client.chat.Chat(ChatRequest(content="say hello")):
            session_id = response.events[0].session_id
        before = _rss_mib(bench.orchestrator_pid)
        request = WatchRequest(targets=[WatchTarget(session_id=session_id)])
        calls = [client.chat.Watch(request) for _ in range(WATCHERS)]
        await asyncio.gather(*(call.read() for call in calls))
        grown = _rss_mib(bench.orchestrator_pid) - before
        for call in calls:
            call.cancel()
    ratio = grown / LIMIT_MIB
    return [Figure("watch.idle1000", "MiB", grown, float(LIMIT_MIB), (ratio, ratio), limit=1.0)]


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel tells no memory")
