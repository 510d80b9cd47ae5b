"""The runner's end of a worker's socket, and the drain of its stderr."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from netaclaw_runner.protocol import Overlong, Splitter

_READ_BYTES = 64 * 1024
_LAST_READS = 16
_LINE_BYTES = 64
"""What a line takes besides its text: many empty ones fill memory, too."""


class Channel(asyncio.Protocol):
    """Lines from and to one worker. A reset connection counts as end of file.

    Reading pauses while more than `unread_bytes` wait to be received, so a fast worker waits instead of filling memory.
    """

    def __init__(self, *, line_bytes: int, unread_bytes: int, unsent_bytes: int) -> None:
        self._splitter = Splitter(line_bytes)
        self._unread_bytes = unread_bytes
        self._unsent_bytes = unsent_bytes
        self._lines: deque[bytes | Overlong] = deque()
        self._waiting = 0
        self._arrived = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._closed = False
        self.truncated = b""
        """What came after the last newline, once the channel is at its end."""

    @classmethod
    async def open(cls, sock: socket.socket, *, line_bytes: int, unread_bytes: int, unsent_bytes: int) -> Channel:
        """Takes ownership of the socket."""
        loop = asyncio.get_running_loop()
        channel = cls(line_bytes=line_bytes, unread_bytes=unread_bytes, unsent_bytes=unsent_bytes)
        await loop.create_unix_connection(lambda: channel, sock=sock)
        return channel

    @property
    def closed(self) -> bool:
        """Whether the other end has closed, or this one."""
        return self._closed

    async def receive(self) -> bytes | Overlong | None:
        """The next line without its newline; None at the end."""
        while not self._lines:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        line = self._lines.popleft()
        self._waiting -= _size(line)
        if self._paused and self._waiting <= self._unread_bytes and self._transport and not self._closed:
            self._paused = False
            self._transport.resume_reading()
        return line

    def send(self, line: bytes) -> bool:
        """Queue a line. False when the worker has read too little for too long, or is gone."""
        if self._transport is None or self._closed or self._transport.is_closing():
            return False
        if self._transport.get_write_buffer_size() + len(line) > self._unsent_bytes:
            return False
        self._transport.write(line)
        return True

    def close(self) -> None:
        """Cut. What is queued is dropped. Idempotent."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without being a subclass

    def data_received(self, data: bytes) -> None:
        lines = self._splitter.feed(data)
        if not lines:
            return
        self._lines.extend(lines)
        self._waiting += sum(_size(line) for line in lines)
        self._arrived.set()
        if self._waiting > self._unread_bytes and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return True  # the worker may still read; close() ends it

    def connection_lost(self, _error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._closed:
            self._closed = True
            self.truncated = self._splitter.rest()
        self._arrived.set()


class StderrDrain:
    """Reads a worker's stderr as fast as it comes, so that a chatty worker never blocks."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        """Takes ownership of the descriptor."""
        self._fd = fd
        self._sink = sink
        self._open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def close(self) -> None:
        """Take what is there and close; does not wait for others that hold the pipe. Idempotent."""
        if self._open:
            with contextlib.suppress(OSError):
                for _ in range(_LAST_READS):
                    data = os.read(self._fd, _READ_BYTES)
                    if not data:
                        break
                    self._sink(data)
            self._end()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._sink(data)
        else:
            self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)


def _size(line: bytes | Overlong) -> int:
    return _LINE_BYTES + (len(line) if isinstance(line, bytes) else 0)
