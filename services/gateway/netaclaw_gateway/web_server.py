"""The HTTP/1.1 port: uvicorn inside our own event loop, with times after which slow connections end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from netaclaw_chassis.server import PortInUse

HEADERS_WITHIN_S = 10.0
"""From a connection's opening, or a request's first byte, to the end of its headers."""
IDLE_CLOSES_S = 75.0
"""A connection without a request is closed after this time."""
UNREAD_ENDS_S = 60.0
"""A client that takes no byte of what is waiting for it for this long is cut; the kernel counts."""
MAX_CONNECTIONS = 4096
_BACKLOG = 1024
_STOP_S = 2.0


class WebServer:
    """One port. `start` binds and serves; `stop` takes no new request, gives running ones a moment, then cuts."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        self._host = host
        self._wanted_port = port
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_PatientButNotForever,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=int(IDLE_CLOSES_S),
                timeout_graceful_shutdown=1,
            )
        )
        self._serving: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """host:port, once started."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    async def start(self) -> None:
        """Bind and serve. Raises PortInUse."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self._wanted_port), family=family, backlog=_BACKLOG)
        except OSError as error:
            why = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise PortInUse(f"cannot listen on {self._host}:{self._wanted_port}: {why}") from error
        listener.setblocking(False)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; asyncio's own loop leaves it off
        _find_dead_peers(listener)
        self.port = listener.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise OSError("the web server ended while it started")
            await asyncio.sleep(0.005)  # uvicorn has no event for this

    async def stop(self) -> None:
        """End; idempotent."""
        if self._serving is None:
            return
        self._server.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._serving), _STOP_S)
        if not self._serving.done():
            self._serving.cancel()
            await asyncio.wait([self._serving])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Begin to stop, at once."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Waits to be ended. The library's own looks ten times a second, and keeps headers of which none are sent."""
        await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As the library's, which waits a moment for connections also where there are none."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for each in (*self.servers, *(sockets or ())):
            each.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process's life cycle."""
        yield


class _PatientButNotForever(HttpToolsProtocol):
    """Ends connections that open a request and do not finish its headers in time."""

    _headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        self._headers_came()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        self._headers_came()
        self._headers_due = self.loop.call_later(HEADERS_WITHIN_S, self._give_up)

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def _find_dead_peers(listener: socket.socket) -> None:
    """Accepted connections inherit these; systems without one of them do without."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(UNREAD_ENDS_S * 1000)),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
