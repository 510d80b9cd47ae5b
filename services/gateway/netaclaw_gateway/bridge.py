"""The bridge: public calls passed on as bytes, without knowing their methods."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

import grpc

from netaclaw_gateway.identity import Gate
from netaclaw_gateway.onward import onward_metadata, onward_timeout
from netaclaw_gateway.upstreams import Routes, Upstream, shutting_down, unreachable

log = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # quoted: these are generic for type checkers only
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_REMEMBERED_METHODS = 256
_HEADERS_WAIT_S = 0.001
"""Headers and the first message come together, most often."""


class Bridge(grpc.GenericRpcHandler):
    """Serves every method of the routed services, and refuses all others with METHOD_NOT_PUBLIC.

    One unary-to-stream handler serves both kinds of public RPC: on the wire a unary answer is a stream of one. Passed
    on unchanged: messages, deadline, cancellation (both ways), headers (before the first message), trailers with
    grpc-status-details-bin, status code and words. An upstream that cannot be reached answers SERVICE_UNAVAILABLE.
    """

    def __init__(self, routes: Routes, gate: Gate) -> None:
        self._routes = routes
        self._gate = gate
        self._calls: set[Any] = set()
        self._draining = False
        # Bounded: clients choose the names of methods.
        self._handler = functools.lru_cache(_REMEMBERED_METHODS)(self._make_handler)

    def drain(self) -> None:
        """Take no more calls, and end those that are open with SHUTTING_DOWN: clients watch again elsewhere."""
        self._draining = True
        for call in self._calls:
            call.cancel()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        return self._handler(handler_call_details.method)

    def _make_handler(self, method: str) -> Handler:
        async def pass_on(request: bytes, context: Context) -> AsyncIterator[bytes]:
            if self._draining:
                raise shutting_down()
            upstream = self._routes.find(method)
            received = tuple(context.invocation_metadata() or ())
            caller = await self._gate.admit(_credential(received), _address(context.peer()))
            metadata = onward_metadata(received, caller.metadata())
            start: Any = upstream.channel.unary_stream(method)
            call = start(request, timeout=onward_timeout(context.time_remaining()), metadata=metadata)
            self._calls.add(call)
            headers = _Headers(context)
            try:
                headers.received(await call.initial_metadata())
                message = await call.read()
                await headers.before_first()
                while message is not grpc.aio.EOF:
                    yield message
                    message = await call.read()
                context.set_trailing_metadata(tuple(await call.trailing_metadata()))
            except grpc.aio.AioRpcError as error:
                await headers.settled()
                await _end(method, upstream, context, error)
            except asyncio.CancelledError:
                if self._draining and call.cancelled():
                    raise shutting_down() from None
                raise
            finally:
                self._calls.discard(call)
                headers.close()
                call.cancel()  # the client may be gone, or the generator closed; no effect on an ended call

        return grpc.unary_stream_rpc_method_handler(pass_on)


class _Headers:
    """An upstream's headers on their way to the client: with the first message where that follows at once, which saves
    a write, and by themselves when none has come _HEADERS_WAIT_S after them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._headers: tuple[tuple[str, str | bytes], ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def received(self, headers: Iterable[tuple[str, str | bytes]]) -> None:
        """The upstream has sent them, or has ended its call without any."""
        self._headers = tuple(headers)
        self._timer = asyncio.get_running_loop().call_later(_HEADERS_WAIT_S, self._on_silence)

    async def before_first(self) -> None:
        """Make sure that headers which are not empty are sent before the message, or before the end."""
        await self.settled()
        if self._sending is None and self._headers:
            await self._context.send_initial_metadata(self._headers)

    async def settled(self) -> None:
        """Wait for headers that are on their way: the status must not be sent beside them."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            await self._sending

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    def _on_silence(self) -> None:
        self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        await self._context.send_initial_metadata(self._headers)


def _address(peer: str) -> str:
    """grpc's name of a peer ("ipv4:127.0.0.1:5000", "ipv6:%5B::1%5D:5000") without its port."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")


def _credential(received: Iterable[tuple[str, str | bytes]]) -> str:
    return next((value for key, value in received if key == "authorization" and isinstance(value, str)), "")


async def _end(method: str, upstream: Upstream, context: Context, error: grpc.aio.AioRpcError) -> NoReturn:
    """End the client's call as the upstream ended its own."""
    trailers = tuple(error.trailing_metadata() or ())
    code = error.code()
    ours = unreachable(upstream, error)
    if ours is not None:
        raise ours from None
    log.info("call failed upstream", extra={"method": method, "upstream": upstream.name, "status": code.name})
    await context.abort(code, error.details() or "", trailers)
    raise AssertionError("abort raises")
