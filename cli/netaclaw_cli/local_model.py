"""The local model on demand: an address that costs nothing until somebody connects to it.

The first connection starts the server's process, further ones share it, and it ends when nobody has been connected for
a while. What passes is bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from netaclaw_cli import local_server

START_S = 120.0
IDLE_S = 600.0
_PIECE_BYTES = 64 * 1024
_STOP_S = 2.0
_FAILED = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    b'{"error":{"type":"local_model_failed","message":"the local model could not be started"}}'
)


class LocalModel:
    """An async context in which `url` answers as an OpenAI-compatible server. Nothing runs after it."""

    def __init__(self, environ: Mapping[str, str], *, idle_s: float = IDLE_S) -> None:
        self._environ = environ
        self._idle_s = idle_s
        self._server: asyncio.Server | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._address = ("", 0)
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
        self.url = ""

    @property
    def pid(self) -> int | None:
        """The server's process; None while there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._idle is not None:
            self._idle.cancel()
        if self._resting is not None:
            await self._resting
        await self._stop()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of both sides has left, or the suite is stopping
        finally:
            writer.close()
            self._tasks.discard(task)
            if not self._tasks:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._rest)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await self._started():
            writer.write(_FAILED)
            await writer.drain()
            return
        server_reader, server_writer = await asyncio.open_connection(*self._address)
        try:
            # When either side closes, so does the other: a cancelled call has to stop the model.
            ways = [
                asyncio.create_task(_pump(reader, server_writer)),
                asyncio.create_task(_pump(server_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            server_writer.close()

    async def _started(self) -> bool:
        async with self._starting:
            if self.pid is not None:
                return True
            command = (sys.executable, "-P", "-m", local_server.__name__)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            try:
                async with asyncio.timeout(START_S):
                    said = json.loads(await self._process.stdout.readline())
            except (TimeoutError, ValueError):
                await self._end()
                return False
            parts = urlsplit(said["url"])
            self._address = (str(parts.hostname), int(parts.port or 0))
            return True

    def _rest(self) -> None:
        self._idle = None
        self._resting = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        async with self._starting:
            if not self._tasks:  # else somebody has come meanwhile
                await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # its sign to end
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self._process = None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()
