"""An instance's lease: it ends here no later than in the store."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from netaclaw.store.v1.journal_service_pb2 import HeartbeatRequest, HeartbeatResponse
from netaclaw_orchestrator.instance import Instance

LEASE_S = 0.2


class Journal:
    """Answers the first heartbeat; after that it is silent."""

    def __init__(self) -> None:
        self.beats: list[HeartbeatRequest] = []

    async def Heartbeat(self, request: HeartbeatRequest, timeout: float) -> HeartbeatResponse:  # noqa: ASYNC109  # as stubs
        self.beats.append(request)
        if len(self.beats) == 1:
            return HeartbeatResponse(lease_ms=int(LEASE_S * 1000))
        await asyncio.sleep(timeout)  # the silence of a store, up to the deadline of the call
        raise grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, grpc.aio.Metadata(), grpc.aio.Metadata())


async def test_a_store_that_falls_silent_ends_the_lease_at_its_deadline() -> None:
    lost = asyncio.Event()
    journal: Any = Journal()

    async def on_lost() -> None:
        lost.set()

    instance = Instance(journal, "one", on_lost)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await instance.start(1.0)
    async with asyncio.timeout(5):
        await lost.wait()
    assert LEASE_S <= loop.time() - began < 2 * LEASE_S
    await instance.close()
