"""The runner's gRPC face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.runner_service_pb2 import (
    AttachRequest,
    AttachResponse,
    GetStatusRequest,
    GetStatusResponse,
    HostToolsRequest,
    HostToolsResponse,
    RunEvent,
    RunRequest,
    RunResponse,
)
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceServicer
from netaclaw_chassis.errors import InvalidRequest, NetaclawError
from netaclaw_runner.events import Reader
from netaclaw_runner.hosts import ToolHosts
from netaclaw_runner.launcher import LaunchError
from netaclaw_runner.run import Run
from netaclaw_runner.supervisor import Supervisor
from netaclaw_runner.tool_host import ToolHost

Context = grpc.aio.ServicerContext[Any, Any]


class RunnerService(RunnerServiceServicer):
    """Validates the first request, then lets events and commands pass each other."""

    def __init__(self, supervisor: Supervisor, hosts: ToolHosts, *, max_workers: int) -> None:
        self._supervisor = supervisor
        self._hosts = hosts
        self._max_workers = max_workers

    async def Run(self, request_iterator: AsyncIterator[RunRequest], context: Context) -> AsyncIterator[RunResponse]:
        run, reader = self._supervisor.start(await _first(request_iterator, "start"))
        async for events in _follow(run, reader, request_iterator, context):
            yield RunResponse(events=events)

    async def Attach(
        self, request_iterator: AsyncIterator[AttachRequest], context: Context
    ) -> AsyncIterator[AttachResponse]:
        run, reader = self._supervisor.attach(await _first(request_iterator, "attach"))
        async for events in _follow(run, reader, request_iterator, context):
            yield AttachResponse(events=events)

    async def HostTools(
        self, request_iterator: AsyncIterator[HostToolsRequest], context: Context
    ) -> AsyncIterator[HostToolsResponse]:
        host = self._hosts.make(await _first(request_iterator, "open"))
        calling: asyncio.Task[None] | None = None
        try:
            yield HostToolsResponse(started=await host.open())
            calling = asyncio.create_task(_call(host, request_iterator))
            while True:
                yield await host.next_answer()
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


async def _first(requests: AsyncIterator[Any], kind: str) -> Any:
    """What the first request holds. Raises InvalidRequest unless it is of the kind."""
    first = await anext(requests, None)
    if first is None or first.WhichOneof("request") != kind:
        raise InvalidRequest([(kind, "must be the first request")])
    return getattr(first, kind)


async def _follow(
    run: Run, reader: Reader, requests: AsyncIterator[RunRequest] | AsyncIterator[AttachRequest], context: Context
) -> AsyncIterator[list[RunEvent]]:
    """A run's events for one caller, while the caller's commands are obeyed."""
    obeying = asyncio.create_task(_obey(run, reader, requests))
    try:
        await context.send_initial_metadata(())  # a silent stream sends no headers before its first message
        while events := await reader.take():
            yield events
    finally:
        run.leave(reader)
        await _end(obeying)


async def _obey(run: Run, reader: Reader, requests: AsyncIterator[Any]) -> None:
    """Pass commands on, until the caller has no more or another one took over."""
    async for request in requests:
        if reader.displaced:
            return
        if request.WhichOneof("request") == "command":
            run.obey(request.command)


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
