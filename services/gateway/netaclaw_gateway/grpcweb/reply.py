"""The HTTP answer to one gRPC-Web call."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError, printable
from netaclaw_gateway.grpcweb.frames import message_frame, trailer_frame
from netaclaw_gateway.grpcweb.metadata import Header, MetadataPair, header_lines

Send = Callable[[Any], Awaitable[None]]


class ClientGone(Exception):
    """The client closed the connection before its call was over."""


class Reply:
    """Headers once, messages, one trailer; each may raise ClientGone. `send` waits while the client's window is full,
    which bounds memory."""

    def __init__(self, send: Send, headers: Sequence[Header], *, text: bool) -> None:
        self._send = send
        self._headers = headers
        self._text = text
        self._started = False

    async def start(self, metadata: Iterable[MetadataPair] = ()) -> None:
        """Send the headers, alone, so that a silent stream is seen to be open."""
        kind = b"application/grpc-web-text+proto" if self._text else b"application/grpc-web+proto"
        headers = [(b"content-type", kind), *self._headers, *header_lines(metadata)]
        self._started = True
        await self._sent({"type": "http.response.start", "status": 200, "headers": headers})

    async def message(self, message: bytes) -> None:
        """Send one message."""
        await self._body(message_frame(message), more=True)

    async def end(self, status: int, words: str, trailers: Iterable[MetadataPair] = ()) -> None:
        """Send the trailer, after headers if none were sent: in the body every page may read the status."""
        if not self._started:
            await self.start()
        await self._body(trailer_frame(status, words, trailers), more=False)

    async def fail(self, error: NetaclawError) -> None:
        """End with an error of our own."""
        details = ((STATUS_DETAILS_KEY, error.details()),)
        await self.end(error.code.value[0], printable(str(error)), details)

    async def _body(self, frame: bytes, *, more: bool) -> None:
        body = base64.b64encode(frame) if self._text else frame
        await self._sent({"type": "http.response.body", "body": body, "more_body": more})

    async def _sent(self, event: Any) -> None:
        try:
            await self._send(event)
        except (RuntimeError, OSError) as error:  # the connection is closed, and the server was not told of it yet
            raise ClientGone from error
