"""The bridge for browsers: gRPC-Web calls passed on as bytes, without knowing their methods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.link import MAX_MESSAGE_BYTES
from netaclaw_chassis.observation import Observation
from netaclaw_gateway import health
from netaclaw_gateway.grpcweb import frames
from netaclaw_gateway.grpcweb.metadata import Header, from_headers, timeout_of
from netaclaw_gateway.grpcweb.reply import ClientGone, Reply, Send
from netaclaw_gateway.health import Health
from netaclaw_gateway.identity import Gate
from netaclaw_gateway.onward import onward_metadata, onward_timeout
from netaclaw_gateway.origins import OriginPolicy, preflight, shared_with
from netaclaw_gateway.upstreams import Routes, Upstream, shutting_down, unreachable

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Any]]
Pages = Callable[[Any, Receive, Send], Awaitable[None]]
Call = grpc.aio.UnaryStreamCall[bytes, bytes]

BODY_WITHIN_S = 30.0
"""A request's body arrives within this time, or the call ends."""
_TEXT, _BINARY = b"application/grpc-web-text", b"application/grpc-web"
_NAMING = frozenset({b"netaclaw-request-id", b"traceparent", b"tracestate"})
_CLOSE: Header = (b"connection", b"close")


class WebBridge:
    """An ASGI app: POST of gRPC-Web, binary and text, to every method of the routed services.

    Host and Origin are checked first; a refused request is answered 403 and starts nothing. A body of another type is
    415. From then on every end is a gRPC status: HTTP 200, and a trailer frame in the body. The deadline passes on as
    the upstream call's own; a client that goes away cancels it; a message above 4 MiB is MESSAGE_TOO_LARGE. Requests
    that are no calls go to `pages`, if given.
    """

    def __init__(
        self, routes: Routes, gate: Gate, origins: OriginPolicy, whole: Health, pages: Pages | None = None
    ) -> None:
        self._health = whole
        self._routes = routes
        self._gate = gate
        self._origins = origins
        self._pages = pages
        self._calls: set[Call] = set()
        self._draining = False

    def drain(self) -> None:
        """Take no more calls, and end those that are open with SHUTTING_DOWN: clients watch again elsewhere."""
        self._draining = True
        for call in self._calls:
            call.cancel()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        method: str = scope["method"]
        origin = headers.get(b"origin")
        refusal = self._origins.refusal(method, headers)
        if scope["path"] == health.PATH and method in ("GET", "HEAD"):  # for load balancers, which call by address
            status, report = (503, b"{}\n") if self._draining else await self._health.answer()
            await _answer(send, status, report.decode().strip(), [(b"cache-control", b"no-store")])
        elif refusal is not None:
            await _answer(send, 403, refusal)
        elif method == "OPTIONS":
            await _answer(send, 204, "", preflight(origin) if origin else [(b"allow", b"POST, OPTIONS")])
        elif method != "POST":
            of_a_service = scope["path"].lstrip("/").partition("/")[0] in self._routes.names
            if self._pages is None or method not in ("GET", "HEAD") or of_a_service:
                await _answer(send, 405, "calls are made with POST", [(b"allow", b"POST, OPTIONS")])
            else:
                await self._pages(scope, receive, send)
        elif not _is_call(headers.get(b"content-type", b"")):
            await _answer(send, 415, "the content type is not application/grpc-web or -text", shared_with(origin))
        else:
            await self._serve(scope, headers, receive, send)

    async def _serve(self, scope: Any, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        text = headers[b"content-type"].lstrip().lower().startswith(_TEXT)
        reply = Reply(send, shared_with(headers.get(b"origin")), text=_wants_text(headers, otherwise=text))
        started = time.monotonic()
        method: str = scope["path"]
        seen = Observation(method, _seen_first(scope["headers"]))
        try:
            if self._draining:
                raise shutting_down()
            received = from_headers(scope["headers"])
            timeout = timeout_of(headers[b"grpc-timeout"]) if b"grpc-timeout" in headers else None
            upstream = self._routes.find(method)
            credential = headers.get(b"authorization", b"").decode("latin-1")
            caller = await self._gate.admit(credential, (scope.get("client") or ("",))[0])
            message = await _message(receive, text=text)
            start: Any = upstream.channel.unary_stream(method)
            left = onward_timeout(None if timeout is None else timeout - (time.monotonic() - started))
            call: Call = start(message, timeout=left, metadata=onward_metadata(received, caller.metadata()))
            seen.end(await self._pass_on(upstream, call, receive, reply))
        except ClientGone:
            seen.end("CANCELLED")
        except NetaclawError as error:
            seen.end(error.code.name, reason=error.reason_name)
            await _fail(reply, error)
        except Exception:
            log.exception("unexpected error", extra={"method": method[:200]})
            seen.end("INTERNAL")
            await _fail(reply, _masked())
        finally:
            seen.end("CANCELLED")

    async def _pass_on(self, upstream: Upstream, call: Call, receive: Receive, reply: Reply) -> str:
        """Pass on an upstream's answer to its end; the status's name."""
        self._calls.add(call)
        leaving = asyncio.create_task(_cancel_when_gone(receive, call))
        try:
            await reply.start(tuple(await call.initial_metadata()))
            while (message := await call.read()) is not grpc.aio.EOF:
                await reply.message(message)  # type: ignore[arg-type]  # EOF's type is not told apart by its stub
            await reply.end(0, "", tuple(await call.trailing_metadata()))
            return "OK"
        except grpc.aio.AioRpcError as error:
            ours = unreachable(upstream, error)
            if ours is not None:
                raise ours from None
            await reply.end(error.code().value[0], error.details() or "", tuple(error.trailing_metadata() or ()))
            return error.code().name
        except asyncio.CancelledError:
            if leaving.done():  # the client is gone, and its call's own end is raised here
                return "CANCELLED"
            if self._draining:
                raise shutting_down() from None
            raise
        finally:
            self._calls.discard(call)
            leaving.cancel()
            call.cancel()  # no effect on an ended call


async def _fail(reply: Reply, error: NetaclawError) -> None:
    with contextlib.suppress(ClientGone):
        await reply.fail(error)


async def _cancel_when_gone(receive: Receive, call: Call) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


async def _message(receive: Receive, *, text: bool) -> bytes:
    """The one message of a request. Raises InvalidRequest, MESSAGE_TOO_LARGE, or ClientGone."""
    limit = MAX_MESSAGE_BYTES + frames.PREFIX_BYTES
    if text:
        limit = limit // 3 * 4 + 8
    pieces: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ClientGone
                pieces.append(event.get("body", b""))
                size += len(pieces[-1])
                more = event.get("more_body", False)
                if size > limit:
                    raise _too_large()
    except TimeoutError:
        raise NetaclawError(
            Reason.REASON_LIMIT_REACHED,
            f"the request's body took longer than {BODY_WITHIN_S:.0f} s",
            metadata={"limit": "body_seconds"},
        ) from None
    body = b"".join(pieces)
    message = frames.message_of(frames.decode_text(body) if text else body)
    if len(message) > MAX_MESSAGE_BYTES:
        raise _too_large()
    return message


def _seen_first(headers: list[Header]) -> list[tuple[str, str]]:
    """What names a request in logs and traces, before anything of it is judged."""
    return [(name.decode(), value.decode("latin-1")) for name, value in headers if name in _NAMING]


def _too_large() -> NetaclawError:
    return NetaclawError(
        Reason.REASON_MESSAGE_TOO_LARGE,
        f"the message is larger than {MAX_MESSAGE_BYTES} bytes",
        metadata={"limit": "message_bytes"},
    )


def _masked() -> NetaclawError:
    call = calls.current()
    request_id = call.request_id if call else ""
    words = f"internal error; quote request {request_id}"
    return NetaclawError(Reason.REASON_INTERNAL, words, metadata={"request_id": request_id})


def _is_call(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in (_BINARY, _BINARY + b"+proto", _TEXT, _TEXT + b"+proto")


def _wants_text(headers: dict[bytes, bytes], *, otherwise: bool) -> bool:
    """The answer's mode is the one that is accepted; where none is named, the request's own."""
    accepted = headers.get(b"accept", b"").lower()
    return accepted.startswith(_TEXT) if accepted.startswith(_BINARY) else otherwise


async def _answer(send: Send, status: int, words: str, headers: list[Header] | None = None) -> None:
    """A short answer that is no call. The connection ends where a body may still be on its way."""
    body = f"{words}\n".encode() if words else b""
    closing = [_CLOSE] if status >= 400 else []
    lines = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), *(headers or []), *closing]
    await send({"type": "http.response.start", "status": status, "headers": lines if body else lines[2:]})
    await send({"type": "http.response.body", "body": body})
