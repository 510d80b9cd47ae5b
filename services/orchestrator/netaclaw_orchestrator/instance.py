"""This instance's life in the store: one heartbeat row on which all its leases hang."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import HeartbeatRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import StartError

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

log = logging.getLogger(__name__)

BEATS_PER_LEASE = 5
FIRST_BEAT_S = 1.0


class Instance:
    """Beats until it is closed. When the lease runs out unrenewed, `on_lost` is called: nothing may be written then."""

    def __init__(
        self, journal: JournalServiceAsyncStub, instance_id: str, on_lost: Callable[[], Awaitable[None]]
    ) -> None:
        self._journal = journal
        self._instance_id = instance_id
        self._incarnation_id = new_id()
        self._on_lost = on_lost
        self._beating: asyncio.Task[None] | None = None
        self._lease_s = 0.0
        self.address = ""

    async def start(self, timeout_s: float) -> None:
        """Register; waits for the store up to timeout_s. Raises StartError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            try:
                await self._beat()
                break
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
                if failure.code is not grpc.StatusCode.UNAVAILABLE or loop.time() > deadline:
                    raise StartError(f"the store cannot be used: {failure} ({error.details()})") from error
            await asyncio.sleep(0.1)  # the store is starting
        self._beating = asyncio.create_task(self._keep_beating())

    @property
    def lease_s(self) -> float:
        """How long the instance lives after a heartbeat, in seconds; known once it was started."""
        return self._lease_s

    async def close(self) -> None:
        """Stop beating and end the leases now."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        try:
            await self._journal.Heartbeat(self._request(leaving=True), timeout=1.0)
        except grpc.aio.AioRpcError as error:
            log.info("not signed off", extra={"status": error.code().name})

    async def _keep_beating(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._lease_s  # by the monotonic clock, counted from before the sending
        while True:
            await asyncio.sleep(self._lease_s / BEATS_PER_LEASE)  # the heartbeat's own period
            sent = loop.time()
            try:
                await self._beat(timeout_s=max(deadline - sent, 0.0))  # a store in silence does not prolong a lease
                deadline = sent + self._lease_s
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
                log.warning("heartbeat failed", extra={"reason": failure.reason_name})
                if loop.time() >= deadline or failure.code is grpc.StatusCode.ABORTED:
                    log.error("lease lost")
                    await self._on_lost()
                    # A new incarnation frees the old one's leases, so that what was left can be claimed, here too.
                    self._incarnation_id = new_id()
                    deadline = loop.time() + self._lease_s

    async def _beat(self, timeout_s: float = FIRST_BEAT_S) -> None:
        response = await self._journal.Heartbeat(self._request(), timeout=timeout_s)
        self._lease_s = response.lease_ms / 1000

    def _request(self, *, leaving: bool = False) -> HeartbeatRequest:
        return HeartbeatRequest(
            instance_id=self._instance_id,
            incarnation_id=self._incarnation_id,
            address=self.address,
            leaving=leaving,
        )
