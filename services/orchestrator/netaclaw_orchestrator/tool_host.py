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
"""Above the host's own limit for one call; they run one after the other, so it counts from the last answer. A call that
gets none for so long is stopped, and the model reads why."""

_TRIES = 3
_IN_DOUBT = "the connection to the tool host was lost while this ran; it may have had effect"

HostCall = grpc.aio.StreamStreamCall[HostToolsRequest, HostToolsResponse]


class GivenUp(Exception):
    """The runner has given the place of an idle host away: what it did not answer has not begun."""


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
        self._stream: _Stream | None = None
        self._opening = asyncio.Lock()

    async def run(self, part: ToolCallPart, shown: Callable[[str], None]) -> ToolResult:
        """Run one call. A host that cannot be reached, dies or takes too long is a result that the model can read; it
        says so where the call may have had effect.

        `shown` is told each stretch of the tool's output. Cancelling the caller stops the tool.
        """
        words: object = "its place is given away again and again"
        for _ in range(_TRIES):
            try:
                return await (await self._open()).run(part, shown)
            except GivenUp:
                continue  # the call and the news of it have crossed
            except NetaclawError as error:
                words = error
                break
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                words = "the connection to it was lost"
                break
        return ToolResult(content=f"the tool host could not run this: {words}", is_error=True)

    async def close(self) -> None:
        """End the host with its process tree."""
        if self._stream is not None:
            await self._stream.close()

    async def _open(self) -> _Stream:
        async with self._opening:
            if self._stream is not None and not self._stream.over:
                return self._stream
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
            self._stream = stream = _Stream(self._stub.HostTools(metadata=calls.outgoing(self._owner_id)))
            try:
                await stream.open(opening)
            except asyncio.InvalidStateError:
                raise NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "it cannot be reached") from None
            return stream


class _Stream:
    """One HostTools call with what is asked over it."""

    def __init__(self, call: HostCall) -> None:
        self._call = call
        self._results: dict[str, asyncio.Future[ToolResult]] = {}
        self._shown: dict[str, Callable[[str], None]] = {}
        self._writing = asyncio.Lock()
        self._started = False
        self._ended = False
        self._answered_at = 0.0
        """When the last result came, in the event loop's time."""
        self._reader = asyncio.create_task(self._read())

    @property
    def over(self) -> bool:
        """Nothing more can be asked over it."""
        return self._ended or self._call.done()

    async def open(self, opening: HostToolsOpen) -> None:
        """Send the first request. Where that is cut, the call is over: nobody could ask anything after it."""
        try:
            await self._write(HostToolsRequest(open=opening))
        except BaseException:
            self._call.cancel()
            raise

    async def run(self, part: ToolCallPart, shown: Callable[[str], None]) -> ToolResult:
        """As ToolHost.run. Raises GivenUp, and NetaclawError where the call has not begun."""
        if self._ended:
            raise GivenUp
        result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._results[part.call_id] = result
        self._shown[part.call_id] = shown
        request = ToolCall(
            call_id=part.call_id,
            tool_name=part.tool_name,
            arguments_json=part.arguments_json,
            route=ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY,
        )
        try:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader hears why
                await self._write(HostToolsRequest(call=request))
            return await self._answer(result)
        except TimeoutError:
            await self._cancel(part.call_id)
            return ToolResult(content=f"stopped after {CALL_TIMEOUT_S:.0f} s; it may have had effect", is_error=True)
        except asyncio.CancelledError:
            await self._cancel(part.call_id)
            raise
        finally:
            self._results.pop(part.call_id, None)
            self._shown.pop(part.call_id, None)

    async def _answer(self, result: asyncio.Future[ToolResult]) -> ToolResult:
        """Raises TimeoutError when nothing at all is answered for too long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (left := max(began, self._answered_at) + CALL_TIMEOUT_S - loop.time()) > 0:
            await asyncio.wait([result], timeout=left)
            if result.done():
                return result.result()
        raise TimeoutError

    async def close(self) -> None:
        """End it."""
        self._call.cancel()
        await asyncio.wait([self._reader])

    async def _read(self) -> None:
        failure: Exception = NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "it ended")
        try:
            async for response in self._call:
                self._started = True
                self._take(response)
            if await self._call.code() == grpc.StatusCode.OK:
                failure = GivenUp()
        except grpc.aio.AioRpcError as error:
            failure = from_rpc(error)
        except asyncio.CancelledError:
            if not self._call.cancelled():  # this task was cancelled, not the call
                self._call.cancel()
                raise
        finally:
            self._ended = True
            self._fail(failure)

    def _take(self, response: HostToolsResponse) -> None:
        kind = response.WhichOneof("response")
        if kind == "output":
            shown = self._shown.get(response.output.call_id)
            if shown is not None:
                shown(response.output.text)
        elif kind == "result":
            line = response.result
            self._answered_at = asyncio.get_running_loop().time()
            waiting = self._results.get(line.call_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(ToolResult(content=line.content, is_error=line.is_error))

    def _fail(self, failure: Exception) -> None:
        """Answer what waits. A host that had stood, and was not given up, may have begun it."""
        for waiting in self._results.values():
            if waiting.done():
                continue
            if self._started and not isinstance(failure, GivenUp):
                waiting.set_result(ToolResult(content=_IN_DOUBT, is_error=True))
            else:
                waiting.set_exception(failure)

    async def _write(self, request: HostToolsRequest) -> None:
        async with self._writing:  # a stream takes one write at a time
            await self._call.write(request)

    async def _cancel(self, call_id: str) -> None:
        if not self._call.done():
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._write(HostToolsRequest(cancel=HostToolCancel(call_id=call_id)))
