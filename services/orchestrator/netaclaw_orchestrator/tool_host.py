"""A session's tool host, seen from here: calls go down one HostTools stream, results come back by call id."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.subagent.v1.envelope_pb2 import HostStart, ToolCall
from netaclaw.subagent.v1.runner_service_pb2 import (
    HostToolCancel,
    HostToolsOpen,
    HostToolsRequest,
    HostToolsResponse,
)
from netaclaw.tool.v1.tool_pb2 import ToolPolicy, ToolRoute
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError, from_rpc

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

PROTOCOL_VERSION = 1
CALL_TIMEOUT_S = 660.0
"""Above the host's own limit: a tool of the main agent that takes longer is stopped, and the model reads why."""

HostCall = grpc.aio.StreamStreamCall[HostToolsRequest, HostToolsResponse]


class ToolHost:
    """Opens the host at the first call and again after it was lost; one per session in use."""

    def __init__(
        self,
        stub: RunnerServiceAsyncStub,
        *,
        owner_id: str,
        session_id: str,
        policy: ToolPolicy,
    ) -> None:
        self._stub = stub
        self._owner_id = owner_id
        self._session_id = session_id
        self.policy = policy
        self._call: HostCall | None = None
        self._reader: asyncio.Task[None] | None = None
        self._results: dict[str, asyncio.Future[ToolResult]] = {}
        self._shown: dict[str, Callable[[str], None]] = {}
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def run(self, part: ToolCallPart, shown: Callable[[str], None]) -> ToolResult:
        """Run one call. A host that cannot be reached, dies or takes too long is a result that the model can read.

        `shown` is told each stretch of the tool's output. Cancelling the caller stops the tool.
        """
        result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._results[part.call_id] = result
        self._shown[part.call_id] = shown
        try:
            call = await self._open()
            request = ToolCall(
                call_id=part.call_id,
                tool_name=part.tool_name,
                arguments_json=part.arguments_json,
                route=ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY,
            )
            await self._write(call, HostToolsRequest(call=request))
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await result
        except (NetaclawError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            words = error if isinstance(error, NetaclawError) else "the connection to it was lost"
            return ToolResult(content=f"the tool host could not run this: {words}", is_error=True)
        except TimeoutError:
            await self._cancel(part.call_id)
            return ToolResult(content=f"stopped after {CALL_TIMEOUT_S:.0f} s", is_error=True)
        except asyncio.CancelledError:
            await self._cancel(part.call_id)
            raise
        finally:
            self._results.pop(part.call_id, None)
            self._shown.pop(part.call_id, None)

    async def close(self) -> None:
        """End the host with its process tree."""
        if self._call is not None:
            self._call.cancel()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def _open(self) -> HostCall:
        async with self._opening:
            if self._call is not None and not self._call.done():
                return self._call
            call = self._stub.HostTools(metadata=calls.outgoing(self._owner_id))
            host = HostStart(
                protocol_version=PROTOCOL_VERSION,
                policy=self.policy,
                tool_names=[
                    route.tool_name
                    for route in self.policy.routes
                    if route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY
                ],
            )
            opening = HostToolsOpen(session_id=self._session_id, owner_id=self._owner_id, host=host)
            self._call = call
            try:
                await self._write(call, HostToolsRequest(open=opening))
            except asyncio.InvalidStateError:
                raise NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "it cannot be reached") from None
            self._reader = asyncio.create_task(self._read(call))
            return call

    async def _read(self, call: HostCall) -> None:
        failure = NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "it ended")
        try:
            async for response in call:
                kind = response.WhichOneof("response")
                if kind == "output":
                    shown = self._shown.get(response.output.call_id)
                    if shown is not None:
                        shown(response.output.text)
                elif kind == "result":
                    line = response.result
                    waiting = self._results.get(line.call_id)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(ToolResult(content=line.content, is_error=line.is_error))
        except grpc.aio.AioRpcError as error:
            failure = from_rpc(error)
        except asyncio.CancelledError:
            if not call.cancelled():  # this task was cancelled, not the call
                call.cancel()
                raise
        finally:
            for waiting in self._results.values():
                if not waiting.done():
                    waiting.set_exception(failure)

    async def _write(self, call: HostCall, request: HostToolsRequest) -> None:
        async with self._writing:  # a stream takes one write at a time
            await call.write(request)

    async def _cancel(self, call_id: str) -> None:
        if self._call is not None and not self._call.done():
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._write(self._call, HostToolsRequest(cancel=HostToolCancel(call_id=call_id)))
