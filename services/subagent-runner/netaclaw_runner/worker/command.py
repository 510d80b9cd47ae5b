"""One shell command: started in a session of its own, listened to, and ended with all that it has started."""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.kept_output import KeptOutput
from netaclaw_agent.tools.shell import KEPT_BYTES, CommandEnd
from netaclaw_runner.worker.attention import Attention
from netaclaw_runner.worker.offspring import Offspring
from netaclaw_runner.worker.stopping import uninterrupted

Say = Callable[[str], None]
"""Passes a stretch of output on while the command runs."""

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp", "TERM": "dumb"}  # noqa: S108  # see below
"""All that a command's environment holds. In a sandbox /tmp is the worker's own."""
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")

MAX_SAID_BYTES = 256 * 1024
"""Most output that is passed on live; all of it counts for the result, which keeps beginning and end."""
BATCH_S = 0.05
BATCH_BYTES = 16 * 1024
DRAIN_S = 0.05
"""How long output is still read when the command has ended but something else holds its pipe."""
GRACE_S = 0.1
"""From SIGTERM to SIGKILL, for a command that is stopped. Shorter than the runner's own patience with a worker."""

_DECODER = codecs.getincrementaldecoder("utf-8")
_READ_BYTES = 64 * 1024
_LAST_READS = 16
_POLL_S = 0.02
"""Between two looks at a command's exit where the system cannot tell us."""


def run_command(
    command: str,
    folder: int,
    *,
    timeout_s: float,
    attention: Attention,
    say: Say,
    offspring: Offspring,
) -> CommandEnd:
    """Run a command line in a folder, given by its descriptor, until it ends or its time is over.

    On return, and when it raises Stopped or ChannelClosed, nothing of the command is alive, unless `out_of_reach` says
    otherwise. Raises ToolError when it cannot be started. The worker's current directory becomes the folder.
    """
    attention.attend()
    running: _Running | None = None
    in_time = True
    try:
        with uninterrupted():
            running = _Running(_start(command, folder), _Output(say), time.monotonic() + timeout_s)
        in_time = running.until_exit(attention)
    finally:
        if running is not None:
            with uninterrupted():
                clean, left = running.end(offspring)
    return CommandEnd(
        output=running.output.close(),
        exit_code=running.exit_code,
        stopped_after_s=0 if in_time else round(timeout_s),
        left_running=left and in_time,
        out_of_reach=not clean,
    )


@dataclass(slots=True)
class _Output:
    """What the command writes: kept for the result, and passed on in batches. The first one goes out at once."""

    say: Say
    due: float = 0.0
    """When the next batch may go out."""
    _kept: KeptOutput = field(default_factory=lambda: KeptOutput(KEPT_BYTES))
    _decoder: codecs.IncrementalDecoder = field(default_factory=lambda: _DECODER("replace"))
    _batch: list[str] = field(default_factory=list)
    _batch_size: int = 0
    _said: int = 0

    @property
    def waiting(self) -> bool:
        """Whether something waits to be passed on."""
        return bool(self._batch)

    def take(self, data: bytes, *, final: bool = False) -> None:
        """More bytes."""
        text = self._decoder.decode(data, final).replace("\0", "\ufffd")  # no store holds a NUL in its text
        if not text:
            return
        self._kept.add(text)
        if self._said < MAX_SAID_BYTES:
            self._batch.append(text)
            self._batch_size += len(text)
        if self._batch_size >= BATCH_BYTES or time.monotonic() >= self.due:
            self.flush()

    def flush(self) -> None:
        """Pass on what waits."""
        if not self._batch:
            return
        text = "".join(self._batch)
        self._batch, self._batch_size = [], 0
        self._said += len(text.encode())
        if self._said >= MAX_SAID_BYTES:
            text += "\n[… there is more output; the end of it will be in the result …]\n"
        self.due = time.monotonic() + BATCH_S
        self.say(text)

    def close(self) -> str:
        """Pass on the rest. Returns what is kept."""
        self.take(b"", final=True)
        self.flush()
        return self._kept.text()


class _Running:
    """Waits for output, the exit, the runner's words and the clock at once."""

    def __init__(self, process: subprocess.Popen[bytes], output: _Output, deadline: float) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe: IO[bytes] = process.stdout
        self._deadline = deadline
        self._selector = selectors.DefaultSelector()
        self._exit_fd = _watch(process.pid)
        self.exited = False
        """The command has ended by itself."""
        self._open = True
        self.output = output
        os.set_blocking(self._pipe.fileno(), False)
        self._selector.register(self._pipe, selectors.EVENT_READ, self._read)
        if self._exit_fd is not None:
            self._selector.register(self._exit_fd, selectors.EVENT_READ, self._note_exit)

    def until_exit(self, attention: Attention) -> bool:
        """False when the time is over before the command has ended."""
        self._selector.register(attention, selectors.EVENT_READ, attention.attend)
        while not self._has_exited():
            left = self._deadline - time.monotonic()
            if left <= 0:
                return False
            self._wait(left if self._exit_fd is not None else min(left, _POLL_S))
        # What it left behind may hold the pipe for ever: its own output is in the pipe already.
        self._selector.unregister(attention)
        end = time.monotonic() + DRAIN_S
        while self._open and (left := end - time.monotonic()) > 0:
            self._wait(left)
        return True

    @property
    def exit_code(self) -> int:
        """Once it was ended; below 0 the number of a signal."""
        assert self._process.returncode is not None
        return self._process.returncode

    def end(self, offspring: Offspring) -> tuple[bool, bool]:
        """End the command with all that it has started. Whether nothing is left, and whether there was something."""
        process = self._process
        if not self.exited:
            _signal_group(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        if process.returncode is None and not (self.exited and offspring.reaches_all):
            _signal_group(process, signal.SIGKILL)
        process.wait()
        left = offspring.left()
        clean = offspring.end()
        self._close()
        return clean, left

    def _close(self) -> None:
        for _ in range(_LAST_READS):  # what is in the pipe
            if not self._open or not self._read():
                break
        self._selector.close()
        self._pipe.close()
        if self._exit_fd is not None:
            os.close(self._exit_fd)

    def _has_exited(self) -> bool:
        if self._exit_fd is None:
            self.exited = self._process.poll() is not None
        return self.exited

    def _note_exit(self) -> None:
        self.exited = True
        assert self._exit_fd is not None
        self._selector.unregister(self._exit_fd)

    def _wait(self, seconds: float) -> None:
        if self.output.waiting:
            seconds = min(seconds, max(0.0, self.output.due - time.monotonic()))
        for key, _ in self._selector.select(seconds):
            key.data()
        if self.output.waiting and time.monotonic() >= self.output.due:
            self.output.flush()

    def _read(self) -> bool:
        """Read once. False when there is nothing now, or at the end."""
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self.output.take(data)
        else:
            self._selector.unregister(self._pipe)
            self._open = False
        return bool(data)


def _start(command: str, folder: int) -> subprocess.Popen[bytes]:
    shell = next((path for path in SHELLS if os.access(path, os.X_OK)), "")
    if not shell:
        raise ToolError("there is no shell on this machine")
    try:
        # Not by path: in a sandbox there may be none that leads here.
        os.fchdir(folder)
        return subprocess.Popen(  # noqa: S603  # the command is what policy allows to run
            [shell, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror}") from error


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Only while its leader is not reaped: until then the number is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _watch(pid: int) -> int | None:
    """A descriptor that is readable when the process has ended; None where there is no such thing."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:
        return None
