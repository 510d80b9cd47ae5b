"""A small TCP proxy on loopback whose connections a test can cut, or leave in silence."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_PIECE = 64 * 1024


class Proxy:
    """Passes bytes between whoever connects and host:port, until told otherwise. Use as an async context."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._flows: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._speaking = asyncio.Event()
        self._speaking.set()
        self.address = ""
        """host:port to connect to."""
        self.accepted = 0
        """Connections so far."""
        self.pieces = 0
        """Reads that brought bytes so far, both directions together."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for flow in list(self._flows):
            flow.cancel()
        await asyncio.gather(*self._flows, return_exceptions=True)

    def cut(self) -> None:
        """End every connection at once, without a goodbye; new ones are accepted."""
        for writer in list(self._writers):
            writer.transport.abort()

    def hush(self) -> None:
        """Pass nothing on, in both directions, and end nothing."""
        self._speaking.clear()

    def speak(self) -> None:
        """Pass everything on again, what was held back first."""
        self._speaking.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            onward_reader, onward_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward_writer}
        for source, sink in ((reader, onward_writer), (onward_reader, writer)):
            flow = asyncio.create_task(self._pass(source, sink))
            self._flows.add(flow)
            flow.add_done_callback(self._flows.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(_PIECE):
                    self.pieces += 1
                    await self._speaking.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            self._writers.discard(sink)
            sink.transport.abort() if sink.transport.is_closing() else sink.close()
