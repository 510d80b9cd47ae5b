"""The answer to a proxy that asks, for each request, whether it may pass, and for whom: Envoy's ext_authz over HTTP."""

from __future__ import annotations

import logging
from typing import Any

from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError, printable
from netaclaw_gateway.grpcweb.metadata import Header, header_lines, percent_encoded
from netaclaw_gateway.grpcweb.reply import Send
from netaclaw_gateway.identity import Gate
from netaclaw_gateway.origins import OriginPolicy, shared_with
from netaclaw_gateway.upstreams import Routes

log = logging.getLogger(__name__)

_HTTP_OF = {16: 401, 7: 403, 8: 429, 12: 404, 14: 503}
"""HTTP statuses of refusals; the gRPC status beside them is what clients read."""


class Authz:
    """An ASGI app for the proxy alone: the request's own method, path and headers, without its body.

    200 lets it pass, with identity to set upstream in headers; everything else refuses, with the gRPC status that the
    client is to see. Host and Origin are judged as by the gateway's own web port.
    """

    def __init__(self, routes: Routes, gate: Gate, origins: OriginPolicy) -> None:
        self._routes = routes
        self._gate = gate
        self._origins = origins

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        refusal = self._origins.refusal(scope["method"], headers)
        if refusal is not None:
            await _answer(send, 403, [], f"{refusal}\n".encode())
            return
        try:
            self._routes.find(scope["path"])
            address = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip().decode("latin-1")
            caller = await self._gate.admit(headers.get(b"authorization", b"").decode("latin-1"), address)
        except NetaclawError as error:
            await _answer(send, _HTTP_OF.get(error.code.value[0], 403), _refusal_headers(error, headers.get(b"origin")))
            return
        await _answer(send, 200, list(header_lines(caller.metadata())))


def _refusal_headers(error: NetaclawError, origin: bytes | None) -> list[Header]:
    return [
        (b"grpc-status", b"%d" % error.code.value[0]),
        (b"grpc-message", percent_encoded(printable(str(error)))),
        *header_lines([(STATUS_DETAILS_KEY, error.details())]),
        *shared_with(origin),
    ]


async def _answer(send: Send, status: int, headers: list[Header], body: bytes = b"") -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
