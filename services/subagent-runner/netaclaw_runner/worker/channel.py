"""The worker's end of its socket: blocking, one writer, nothing but the protocol."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from collections import deque

from google.protobuf.message import Message

from netaclaw_runner import protocol
from netaclaw_runner.protocol import Line, Noise, Overlong, Splitter

CHANNEL_FD = 3
_READ_BYTES = 64 * 1024


class ChannelClosed(Exception):
    """The runner has closed the channel, or is gone."""


class WorkerChannel:
    """Lines from and to the runner, on a descriptor that no library knows of."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._splitter = Splitter()
        self._lines: deque[Line] = deque()
        self._writing = threading.Lock()
        self.run_id = ""
        """Set by the first line; lines of other runs are ignored from then on."""

    def fileno(self) -> int:
        """To wait for it beside others. Lines that were read already do not make it readable."""
        return self._fd

    def send(self, message: Message) -> None:
        """Write one line whole. Raises ChannelClosed."""
        rest = memoryview(protocol.encode(self.run_id, message))
        with self._writing:
            while rest:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except OSError as error:
                    raise _closed(error) from error

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message. None after `timeout` seconds without one; None as timeout waits for ever.

        Raises ChannelClosed at end of file.
        """
        while not self._lines:
            if not select.select([self._fd], [], [], timeout)[0]:
                return None
            try:
                data = os.read(self._fd, _READ_BYTES)
            except OSError as error:
                raise _closed(error) from error
            if not data:
                raise ChannelClosed("end of file")
            for item in self._splitter.feed(data):
                self._take(item)
        return self._lines.popleft().message

    def _take(self, item: bytes | Overlong) -> None:
        if isinstance(item, Overlong):
            complain("a line over the cap was ignored")
            return
        try:
            line = protocol.decode(item, protocol.DOWN)
        except Noise as noise:
            complain(f"noise from the runner was ignored: {noise}")
            return
        if self.run_id and line.run_id != self.run_id:
            complain(f"a {line.type} line of another run was ignored")
            return
        self.run_id = line.run_id
        self._lines.append(line)


def complain(text: str) -> None:
    """A word for the child's log, by way of stderr."""
    sys.stderr.write(f"worker: {text}\n")


def _closed(error: OSError) -> Exception:
    # A closed peer with unread data gives ECONNRESET where one expects end of file.
    return ChannelClosed(str(error)) if error.errno in (errno.ECONNRESET, errno.EPIPE) else error
