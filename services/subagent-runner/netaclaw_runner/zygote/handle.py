"""A worker of a zygote, as the runner holds it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from netaclaw_runner.launcher import SandboxReport
from netaclaw_runner.zygote import process_tree

_GONE_S = 2.0


class ZygoteHandle:
    """A WorkerHandle: signals by pidfd, the exit from the zygote's record, the end of the tree confirmed."""

    def __init__(self, pidfd: int, *, pid_namespace: bool) -> None:
        """Takes ownership of the descriptor."""
        loop = asyncio.get_running_loop()
        self._pidfd = pidfd
        self._pid = _pid_of(pidfd)
        self._pid_namespace = pid_namespace
        self._exit: asyncio.Future[int] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._channel: socket.socket | None = None
        self._stderr_fd = -1
        self.sandbox = SandboxReport((), ())
        """What is in force for this worker, as it said itself before it was given its task."""

    def confirm(self, channel: socket.socket, stderr_fd: int, sandbox: SandboxReport) -> None:
        """The worker stands: what its users need."""
        self._channel, self._stderr_fd, self.sandbox = channel, stderr_fd, sandbox

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def channel(self) -> socket.socket:
        assert self._channel is not None, "only confirmed workers are handed out"
        return self._channel

    @property
    def stderr_fd(self) -> int:
        return self._stderr_fd

    async def exited(self) -> int:
        return await asyncio.shield(self._exit)

    def signal_tree(self, number: int) -> None:
        if self._pidfd < 0:
            return
        # Where the worker is the first of its namespace, its end is the end of all. Elsewhere what is left of its
        # tree falls to the zygote, which ends it; those below are signalled all the same, to lose no time.
        below = not (self._pid_namespace and number == signal.SIGKILL) and not self._exit.done()
        if below and self._pid > 0:
            with contextlib.suppress(OSError):  # no file may be opened: then the worker alone
                process_tree.signal_below(self._pid, number)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    async def finish(self) -> bool:
        await self.exited()
        try:
            async with asyncio.timeout(_GONE_S):
                await asyncio.shield(self._gone)
        except TimeoutError:
            return False
        finally:
            self.release()
        return True

    def release(self) -> None:
        """Give up the descriptor; signals do nothing from now on. Idempotent."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def note_exit(self, status: int) -> None:
        """The zygote has reaped it. In a pid namespace nothing else of it is alive then."""
        self._settle(os.waitstatus_to_exitcode(status))
        if self._pid_namespace:
            self.note_gone()

    def note_gone(self) -> None:
        """Nothing of its tree is alive."""
        if not self._gone.done():
            self._gone.set_result(None)

    def note_zygote_gone(self) -> None:
        """The zygote has ended, and what stands around it has ended its workers' trees."""
        self._settle(-signal.SIGKILL)
        self.note_gone()

    def _settle(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)


def _pid_of(pidfd: int) -> int:
    """The number by which this process may know the other; -1 when it is gone already."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "Pid":
                return int(value)
    return -1
