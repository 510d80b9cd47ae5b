"""What every served call goes through: identity, one log line, and errors as status with details."""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls
from netaclaw_chassis.errors import InvalidRequest, NetaclawError, abort
from netaclaw_chassis.observation import Observation

log = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"
Context = grpc.aio.ServicerContext[Any, Any]
Reader: TypeAlias = "Callable[[Context], Awaitable[Any]]"

REQUEST_WITHIN_S = 30.0
"""A single request arrives whole within this time, or its call ends: a call costs its server something."""
_QUIET = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_OPEN = "/grpc.health.v1.Health/"
_REMEMBERED_METHODS = 256


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Sets the call's identity, logs its end, and translates errors.

    A NetaclawError becomes its status; an unknown exception is logged with its traceback and masked as INTERNAL with
    the request id; a request that is missing or cannot be parsed is INVALID_ARGUMENT. No message content is ever
    logged. With a service token, calls that do not show it are refused.
    """

    def __init__(self, service_token: str = "") -> None:
        self._token = service_token
        # Bounded: behind a handler that takes any method, clients choose the names.
        self._observed = functools.lru_cache(_REMEMBERED_METHODS)(_observed)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if self._token and not method.startswith(_OPEN) and not self._shown(handler_call_details):
            return _REFUSAL
        if handler is None or method.startswith(_QUIET):
            return handler
        return self._observed(method, handler)

    def _shown(self, details: grpc.HandlerCallDetails) -> bool:
        metadata: Iterable[tuple[str, str | bytes]] = details.invocation_metadata or ()
        shown = next((value for key, value in metadata if key == calls.SERVICE_KEY), "")
        raw = shown.encode() if isinstance(shown, str) else shown
        return hmac.compare_digest(raw, self._token.encode())


async def _refuse(requests: AsyncIterator[bytes], context: Context) -> None:
    await abort(context, NetaclawError(Reason.REASON_UNAUTHENTICATED, "only services of the suite may call here"))


_REFUSAL: Handler = grpc.stream_stream_rpc_method_handler(_refuse)
"""Serves calls of every shape: it waits for no message, and an end without one looks the same in all of them."""


def _observed(method: str, handler: Handler) -> Handler:
    """The handler with everything around it that a call goes through."""
    read = None if handler.request_streaming else _reader(handler.request_deserializer)
    parse = handler.request_deserializer if handler.request_streaming else None
    if handler.response_streaming:
        inner = handler.unary_stream or handler.stream_stream
        return grpc.stream_stream_rpc_method_handler(
            _streaming(method, inner, read), parse, handler.response_serializer
        )
    inner = handler.unary_unary or handler.stream_unary
    return grpc.stream_unary_rpc_method_handler(_answering(method, inner, read), parse, handler.response_serializer)


def _reader(parse: Callable[[bytes], Any] | None) -> Reader:
    """Reads the one request of a call. Raises InvalidRequest for none, and for one that cannot be parsed; LIMIT_REACHED
    when it takes too long.

    grpc's own handlers of single requests leave a call without a whole message unanswered, for as long as its client
    stays.
    """

    async def read(context: Context) -> Any:
        raw: Any = None
        try:
            async with asyncio.timeout(REQUEST_WITHIN_S):
                raw = await context.read()
        except TimeoutError:
            raise NetaclawError(
                Reason.REASON_LIMIT_REACHED,
                f"the request took longer than {REQUEST_WITHIN_S:.0f} s",
                metadata={"limit": "request_seconds"},
            ) from None
        if raw is grpc.aio.EOF:
            raise InvalidRequest([("(message)", "is missing, or broke off")])
        try:
            return raw if parse is None else parse(raw)
        except DecodeError:
            raise InvalidRequest([("(message)", "is not of the method's type")]) from None

    return read


def _answering(method: str, inner: Any, read: Reader | None) -> Any:
    async def answer(requests: Any, context: Context) -> Any:
        seen = Observation(method, context.invocation_metadata() or ())
        try:
            response = await inner(requests if read is None else await read(context), context)
        except BaseException as error:
            await _fail(method, seen, context, error)
        seen.end("OK")
        return response

    return answer


def _streaming(method: str, inner: Any, read: Reader | None) -> Any:
    async def stream(requests: Any, context: Context) -> AsyncIterator[Any]:
        seen = Observation(method, context.invocation_metadata() or ())
        responses = None
        try:
            responses = inner(requests if read is None else await read(context), context)
            async for response in responses:
                yield response
            seen.end("OK")
        except GeneratorExit:
            raise
        except BaseException as error:
            await _fail(method, seen, context, error)
        finally:
            seen.end("CANCELLED")  # unless it ended before: its reader has left
            if responses is not None:
                await responses.aclose()

    return stream


async def _fail(method: str, seen: Observation, context: Context, error: BaseException) -> None:
    if isinstance(error, NetaclawError):
        seen.end(error.code.name, reason=error.reason_name)
        await abort(context, error)
    if isinstance(error, asyncio.CancelledError):
        seen.end("CANCELLED")
        raise error
    if isinstance(error, grpc.aio.AbortError) or not isinstance(error, Exception):
        seen.end("ABORTED")
        raise error
    request_id = seen.call.request_id
    log.error("unexpected error", exc_info=error, extra={"method": method, "request_id": request_id})
    seen.end("INTERNAL")
    masked = NetaclawError(
        Reason.REASON_INTERNAL, f"internal error; quote request {request_id}", metadata={"request_id": request_id}
    )
    await abort(context, masked)
