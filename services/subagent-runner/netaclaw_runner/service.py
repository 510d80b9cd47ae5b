"""The runner's gRPC face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.runner_service_pb2 import (
    GetStatusRequest,
    GetStatusResponse,
    HostToolsOpen,
    HostToolsRequest,
    HostToolsResponse,
    RunRequest,
    RunResponse,
)
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceServicer
from netaclaw_chassis.errors import InvalidRequest, NetaclawError
from netaclaw_runner.caller import Caller
from netaclaw_runner.hosts import ToolHosts
from netaclaw_runner.launcher import LaunchError
from netaclaw_runner.limits import Limits
from netaclaw_runner.supervisor import Supervisor
from netaclaw_runner.tool_host import ToolHost

Context = grpc.aio.ServicerContext[Any, Any]


class RunnerService(RunnerServiceServicer):
    """Lets orders and events, calls and results pass each other."""

    def __init__(self, supervisor: Supervisor, hosts: ToolHosts, *, limits: Limits, max_workers: int) -> None:
        self._supervisor = supervisor
        self._hosts = hosts
        self._limits = limits
        self._callers: set[Caller] = set()
        self._max_workers = max_workers

    async def dismiss(self) -> None:
        """Take no more orders: each call ends with the last of its runs."""
        for caller in self._callers:
            caller.close()

    async def Run(self, request_iterator: AsyncIterator[RunRequest], context: Context) -> AsyncIterator[RunResponse]:
        caller = Caller(self._supervisor, self._limits)
        self._callers.add(caller)
        obeying = asyncio.create_task(_obey(caller, request_iterator))
        try:
            await context.send_initial_metadata(())  # a silent stream sends no headers before its first message
            while (response := await caller.take()) is not None:
                yield response
        finally:
            self._callers.discard(caller)
            caller.leave()
            await _end(obeying)

    async def HostTools(
        self, request_iterator: AsyncIterator[HostToolsRequest], context: Context
    ) -> AsyncIterator[HostToolsResponse]:
        host = self._hosts.make(await _opening(request_iterator))
        calling: asyncio.Task[None] | None = None
        try:
            yield HostToolsResponse(started=await host.open())
            calling = asyncio.create_task(_call(host, request_iterator))
            while (answer := await host.next_answer()) is not None:
                yield answer
        except LaunchError as error:
            raise NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, str(error)) from error
        finally:
            await _end(calling)
            await self._hosts.close(host)

    async def GetStatus(self, request: GetStatusRequest, context: Context) -> GetStatusResponse:
        sandbox = self._supervisor.sandbox
        return GetStatusResponse(
            sandbox_in_force=sandbox.in_force,
            sandbox_missing=sandbox.missing,
            runs=self._supervisor.statuses(),
            tool_hosts=self._hosts.count,
            max_workers=self._max_workers,
        )


async def _opening(requests: AsyncIterator[HostToolsRequest]) -> HostToolsOpen:
    """What the first request holds. Raises InvalidRequest unless it opens the host."""
    first = await anext(requests, None)
    if first is None or first.WhichOneof("request") != "open":
        raise InvalidRequest([("open", "must be the first request")])
    return first.open


async def _obey(caller: Caller, requests: AsyncIterator[RunRequest]) -> None:
    async for request in requests:
        for order in request.orders:
            caller.obey(order)
    caller.close()


async def _call(host: ToolHost, requests: AsyncIterator[HostToolsRequest]) -> None:
    async for request in requests:
        kind = request.WhichOneof("request")
        if kind == "call":
            await host.call(request.call)
        elif kind == "cancel":
            await host.cancel(request.cancel.call_id)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # a call that is over makes its request iterator fail: nothing to tell
