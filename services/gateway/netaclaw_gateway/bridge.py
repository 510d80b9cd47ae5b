"""The bridge: public calls passed on as bytes, without knowing their methods."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls
from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError
from netaclaw_chassis.ids import new_id

log = logging.getLogger(__name__)

LOCAL_OWNER = "local"
"""Who calls over loopback without a credential."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # quoted: these are generic for type checkers only
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Metadata = tuple[tuple[str, str | bytes], ...]

_OWN_PREFIX = "netaclaw-"
_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "host", "authorization", "cookie"})
"""Belong to the client's connection, or are credentials, which end here."""
_HOP_PREFIXES = (_OWN_PREFIX, "grpc-", ":")
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SANE_HINT = re.compile(r"[A-Za-z0-9-]{1,64}")
_REMEMBERED_METHODS = 256
_HEADERS_WAIT_S = 0.005


@dataclass(frozen=True, slots=True)
class Upstream:
    """A service behind the gateway. The channel is owned by whoever made it."""

    name: str
    channel: grpc.aio.Channel


class Bridge(grpc.GenericRpcHandler):
    """Serves every method of the routed services, and refuses all others with METHOD_NOT_PUBLIC.

    One unary-to-stream handler serves both kinds of public RPC: on the wire a unary answer is a stream of one. Passed
    on unchanged: messages, deadline, cancellation (both ways), headers (before the first message), trailers with
    grpc-status-details-bin, status code and words. An upstream that cannot be reached answers SERVICE_UNAVAILABLE.
    """

    def __init__(self, routes: Mapping[str, Upstream]) -> None:
        self._routes = dict(routes)
        # Bounded: clients choose the names of methods.
        self._handler = functools.lru_cache(_REMEMBERED_METHODS)(self._make_handler)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        return self._handler(handler_call_details.method)

    def _make_handler(self, method: str) -> Handler:
        service = method.lstrip("/").partition("/")[0]
        upstream = self._routes.get(service)
        if upstream is None:
            return grpc.unary_stream_rpc_method_handler(functools.partial(_refuse, method))
        return grpc.unary_stream_rpc_method_handler(_passing_on(method, upstream))


async def _refuse(method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
    raise NetaclawError(
        Reason.REASON_METHOD_NOT_PUBLIC,
        "the method does not exist or is not public",
        metadata={"method": method[:200]},
    )
    yield b""  # unreachable; makes this a stream


def _passing_on(method: str, upstream: Upstream) -> Any:
    start: Any = upstream.channel.unary_stream(method)

    async def pass_on(request: bytes, context: Context) -> AsyncIterator[bytes]:
        metadata = onward_metadata(context.invocation_metadata() or ())
        call = start(request, timeout=context.time_remaining(), metadata=metadata)
        headers = _Headers(call, context)
        try:
            message = await call.read()
            await headers.before_first(message)
            while message is not grpc.aio.EOF:
                yield message
                message = await call.read()
            context.set_trailing_metadata(tuple(await call.trailing_metadata()))
        except grpc.aio.AioRpcError as error:
            await headers.settled()
            await _end(method, upstream, context, error)
        finally:
            headers.close()
            call.cancel()  # the client may be gone, or the generator closed at its yield; no effect on an ended call

    return pass_on


class _Headers:
    """An upstream's headers on their way to the client: with the first message where both are there, which saves a
    write, and by themselves when the stream stays silent for longer than _HEADERS_WAIT_S."""

    def __init__(self, call: Any, context: Context) -> None:
        self._call = call
        self._context = context
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_HEADERS_WAIT_S, self._on_silence)

    async def before_first(self, message: object) -> None:
        """Make sure that headers which are not empty are sent before the message, or before the end."""
        self._timer.cancel()
        if self._sending is not None:
            await self._sending
            return
        headers = await self._call.initial_metadata()
        if headers:
            await self._context.send_initial_metadata(tuple(headers))

    async def settled(self) -> None:
        """Wait for headers that are on their way: the status must not be sent beside them."""
        self._timer.cancel()
        if self._sending is not None:
            await self._sending

    def close(self) -> None:
        self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    def _on_silence(self) -> None:
        self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            headers = await self._call.initial_metadata()
            await self._context.send_initial_metadata(tuple(headers))
        except grpc.aio.AioRpcError:
            return  # the call's own end says why


def onward_metadata(received: Iterable[tuple[str, str | bytes]]) -> Metadata:
    """What an upstream gets: identity set here and never believed, a request id, the balancer's hint, the rest."""
    request_id = ""
    onward: list[tuple[str, str | bytes]] = [(calls.OWNER_KEY, LOCAL_OWNER)]
    for key, value in received:
        if key == calls.REQUEST_KEY:
            request_id = value if isinstance(value, str) and _SANE_REQUEST_ID.fullmatch(value) else ""
        elif key == calls.SESSION_KEY:
            if isinstance(value, str) and _SANE_HINT.fullmatch(value):
                onward.append((key, value))
        elif key not in _HOP_KEYS and not key.startswith(_HOP_PREFIXES):
            onward.append((key, value))
    current = calls.current()
    onward.append((calls.REQUEST_KEY, request_id or _own_request_id(current)))
    return tuple(onward)


def _own_request_id(call: calls.Call | None) -> str:
    """The id under which this call is logged here, so that one id finds it in every log."""
    if call is not None and _SANE_REQUEST_ID.fullmatch(call.request_id):
        return call.request_id
    return new_id()


async def _end(method: str, upstream: Upstream, context: Context, error: grpc.aio.AioRpcError) -> NoReturn:
    """End the client's call as the upstream ended its own."""
    trailers = tuple(error.trailing_metadata() or ())
    code = error.code()
    from_service = any(key == STATUS_DETAILS_KEY for key, _ in trailers)
    if code is grpc.StatusCode.UNAVAILABLE and not from_service:
        # The transport's own words name internal addresses.
        raise NetaclawError(
            Reason.REASON_SERVICE_UNAVAILABLE,
            f"the {upstream.name} cannot be reached; try again",
            metadata={"service": upstream.name},
        ) from None
    log.info("call failed upstream", extra={"method": method, "upstream": upstream.name, "status": code.name})
    await context.abort(code, error.details() or "", trailers)
    raise AssertionError("abort raises")
