"""The runs of a batch, over one call to the runner: orders go down it, events come back by run.

A run's feed is bounded with all others of its call: they write to one journal, so that none is slow for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw.subagent.v1.runner_service_pb2 import (
    AttachTarget,
    RunCommand,
    RunEvent,
    RunEvents,
    RunOrder,
    RunRequest,
    RunResponse,
)
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError, from_rpc

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

MAX_UNREAD_BYTES = 4 * 1024 * 1024
"""Events of all runs that their children have not taken; beyond it the call is not read on."""
MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""Orders that wait to be sent; beyond it a command waits before it joins them."""
MAX_REQUEST_BYTES = 512 * 1024
"""Orders in one message, unless a single one is larger."""

Call = grpc.aio.StreamStreamCall[RunRequest, RunResponse]


class NotFollowed(Exception):
    """The runner refused the run, or the call was lost."""

    def __init__(self, error: NetaclawError) -> None:
        super().__init__(str(error))
        self.reason = error.reason


class RunCalls:
    """Opens the batch's call with its first run, and again with the next one after it was lost."""

    def __init__(self, runner: RunnerServiceAsyncStub, owner_id: str) -> None:
        self._runner = runner
        self._owner_id = owner_id
        self._call: _RunCall | None = None

    def start(self, envelope: SubagentTaskEnvelope) -> RunFeed:
        """Start a run."""
        return self._order(RunOrder(run_id=envelope.run_id, start=envelope))

    def attach(self, run_id: str, target: AttachTarget) -> RunFeed:
        """Take a run over."""
        return self._order(RunOrder(run_id=run_id, attach=target))

    async def close(self) -> None:
        """Leave the runs that are not over: the runner holds their workers for another owner."""
        if self._call is not None:
            await self._call.close()

    def _order(self, order: RunOrder) -> RunFeed:
        if self._call is None or self._call.lost:
            self._call = _RunCall(self._runner.Run(metadata=calls.outgoing(self._owner_id)))
        return self._call.follow(order)


class RunFeed:
    """One run's events, and the way to tell it something. To be iterated once."""

    def __init__(self, call: _RunCall, run_id: str) -> None:
        self._call = call
        self._run_id = run_id
        self._came: deque[tuple[RunEvents, int]] = deque()
        self._failure: NetaclawError | None = None
        self._wake = asyncio.Event()

    async def batches(self) -> AsyncIterator[Sequence[RunEvent]]:
        """Events in order, up to `ended`. Raises NotFollowed."""
        while True:
            while self._came:
                came, size = self._came.popleft()
                self._call.took(size)
                yield came.events
                if came.events[-1].HasField("ended"):
                    return
            if self._failure is not None:
                raise NotFollowed(self._failure)
            self._wake.clear()
            await self._wake.wait()

    async def tell(self, command: RunCommand) -> None:
        """Send a command; one for a run that is over, or lost, goes nowhere."""
        await self._call.tell(RunOrder(run_id=self._run_id, command=command))

    def leave(self) -> None:
        """What is still to come of it is for nobody here."""
        self._call.forget(self._run_id)
        while self._came:
            self._call.took(self._came.popleft()[1])

    def put(self, came: RunEvents, size: int) -> bool:
        """More of the run, and its size in bytes. False when this was the last of it."""
        if came.HasField("refused"):
            refused = came.refused
            self.fail(NetaclawError(refused.reason, refused.message, metadata=refused.metadata))
            return False
        self._came.append((came, size))
        self._wake.set()
        return not came.events[-1].HasField("ended")

    def fail(self, error: NetaclawError) -> None:
        """Nothing more will come."""
        self._failure = error
        self._wake.set()


class _RunCall:
    def __init__(self, call: Call) -> None:
        self._call = call
        self._feeds: dict[str, RunFeed] = {}
        self._orders: deque[RunOrder] = deque()
        self._unsent = 0
        self._sent = asyncio.Event()
        self._ordered = asyncio.Event()
        self._unread = 0
        self._taken = asyncio.Event()
        self._closing = False
        self._left = False
        self.lost = False
        """Nothing more goes over it."""
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    def follow(self, order: RunOrder) -> RunFeed:
        feed = self._feeds[order.run_id] = RunFeed(self, order.run_id)
        self._enqueue(order)
        return feed

    async def tell(self, order: RunOrder) -> None:
        while self._unsent > MAX_UNSENT_BYTES and not self.lost:
            self._sent.clear()
            await self._sent.wait()
        if order.run_id in self._feeds:
            self._enqueue(order)

    def forget(self, run_id: str) -> None:
        if self._feeds.pop(run_id, None) is not None:
            self._left = True

    async def close(self) -> None:
        """End the call; it ends by itself when all its runs are over."""
        self._closing = True
        self._ordered.set()
        if self._feeds or self._left:
            self._call.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def took(self, size: int) -> None:
        """A child has taken events."""
        self._unread -= size
        self._taken.set()

    def _enqueue(self, order: RunOrder) -> None:
        self._orders.append(order)
        self._unsent += order.ByteSize()
        self._ordered.set()

    async def _write(self) -> None:
        """Send what waits: all that came while the message before it was on its way goes into one."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader hears why
            while not self._closing:
                await self._ordered.wait()
                self._ordered.clear()
                while self._orders:
                    await self._call.write(RunRequest(orders=self._take_orders()))
                    self._sent.set()
            await self._call.done_writing()

    def _take_orders(self) -> list[RunOrder]:
        orders: list[RunOrder] = []
        size = 0
        while self._orders and (not orders or size + self._orders[0].ByteSize() <= MAX_REQUEST_BYTES):
            order = self._orders.popleft()
            size += order.ByteSize()
            orders.append(order)
        self._unsent -= size
        return orders

    async def _read(self) -> None:
        failure = NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "the runner ended the call")
        try:
            async for response in self._call:
                for came in response.runs:
                    self._deliver(came)
                while self._unread > MAX_UNREAD_BYTES:
                    self._taken.clear()
                    await self._taken.wait()
        except grpc.aio.AioRpcError as error:
            failure = from_rpc(error)
        finally:
            self._lose(failure)

    def _deliver(self, came: RunEvents) -> None:
        feed = self._feeds.get(came.run_id)
        if feed is None:
            return
        size = 0 if came.HasField("refused") else came.ByteSize()
        self._unread += size
        if not feed.put(came, size):
            del self._feeds[came.run_id]

    def _lose(self, error: NetaclawError) -> None:
        self.lost = True
        for feed in self._feeds.values():
            feed.fail(error)
        self._feeds.clear()
        self._sent.set()
