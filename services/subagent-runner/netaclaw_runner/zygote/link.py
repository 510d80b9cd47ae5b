"""The runner's end of one zygote process: start, launches, records, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from netaclaw_runner.launcher import MINIMAL_ENVIRONMENT, LaunchError
from netaclaw_runner.zygote import wire
from netaclaw_runner.zygote.handle import ZygoteHandle
from netaclaw_runner.zygote.wire import RECORD, Record

log = logging.getLogger(__name__)

BOOT = """\
import json, sys
options = json.loads(sys.argv[1])
sys.path.extend(options["paths"])
from netaclaw_runner.zygote.main import main
sys.exit(main(options))
"""

_START_S = 20.0
_END_S = 3.0


class ZygoteLink:
    """One zygote, from its start to its end. Used on the event loop's thread only."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._control = control
        self._unread = b""
        self._unclaimed: list[int] = []
        self._waiting: deque[asyncio.Future[ZygoteHandle]] = deque()
        self._workers: dict[int, ZygoteHandle] = {}
        self._ready: asyncio.Future[str] = loop.create_future()
        self._over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._border = ""
        loop.add_reader(control.fileno(), self._read)

    @classmethod
    async def start(cls, options: Mapping[str, object]) -> ZygoteLink:
        """Start a zygote and wait until it can fork. Raises LaunchError."""
        link = cls(*start_process(options))
        try:
            async with asyncio.timeout(_START_S):
                link._border = await link._ready
        except TimeoutError as error:
            raise LaunchError("the zygote did not start in time") from error
        finally:
            if not link._border:
                await link.close()
        return link

    @property
    def alive(self) -> bool:
        """Whether launches may be asked for."""
        return self._ending is None

    @property
    def pid(self) -> int:
        """Of the process that we started: the zygote, or the one that stands above it."""
        return self._process.pid

    @property
    def border(self) -> str:
        """Where it stands; empty before it is ready."""
        return self._border

    def launch(self, request: bytes, fds: Sequence[int]) -> asyncio.Future[ZygoteHandle]:
        """Ask for a worker. The descriptors stay the caller's. A future that is cancelled costs its worker its life."""
        answer: asyncio.Future[ZygoteHandle] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._control, [request], fds)
        except OSError as error:
            raise LaunchError(f"the zygote takes no launch: {error.strerror}") from error
        self._waiting.append(answer)  # replies come in the order of sending
        return answer

    async def close(self) -> None:
        """End the zygote and all its workers. Returns when they are gone. Idempotent."""
        self._end()
        await self._over.wait()

    def _read(self) -> None:
        """Take what has come. One record at a read: descriptors belong to the record that they come with."""
        try:
            data, fds, _, _ = socket.recv_fds(self._control, RECORD.size - len(self._unread), 1)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._end()
            return
        self._unclaimed += fds
        self._unread += data
        if len(self._unread) == RECORD.size:
            record, self._unread = Record.unpack(self._unread), b""
            self._take(record)

    def _take(self, record: Record) -> None:
        worker = self._workers.get(record.process)
        if record.kind == "redy":
            self._ready.set_result(wire.BORDERS[record.value])
        elif record.kind == "strt":
            self._take_started(record)
        elif record.kind == "fail":
            self._answer_failure(LaunchError(f"a worker could not be started: {os.strerror(record.value)}"))
        elif record.kind == "exit" and worker is not None:
            worker.note_exit(record.value)
            if self._border != "none":
                del self._workers[record.process]
        elif record.kind == "gone" and worker is not None:
            worker.note_gone()
            del self._workers[record.process]

    def _take_started(self, record: Record) -> None:
        if not self._unclaimed:
            # Such as at this process's own limit of open files. Without a pidfd the worker cannot be held.
            self._answer_failure(LaunchError("a worker's descriptor was lost"))
            return
        pidfd = self._unclaimed.pop()
        try:
            worker = ZygoteHandle(pidfd, pid_namespace=self._border != "none")
        except OSError as error:  # the same, a moment later; without its channel the worker ends by itself
            os.close(pidfd)
            self._answer_failure(LaunchError(f"a worker could not be started: {error.strerror}"))
            return
        self._workers[record.process] = worker
        answer = self._waiting.popleft()
        if answer.done():  # nobody waits any more
            worker.signal_tree(signal.SIGKILL)
            worker.release()
        else:
            answer.set_result(worker)

    def _answer_failure(self, error: LaunchError) -> None:
        answer = self._waiting.popleft()
        if not answer.done():
            answer.set_exception(error)

    def _end(self) -> None:
        if self._ending is None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._ending = asyncio.get_running_loop().create_task(self._see_to_the_end())

    async def _see_to_the_end(self) -> None:
        error = LaunchError("the zygote ended")
        unanswered: list[asyncio.Future[Any]] = [self._ready, *self._waiting]
        for answer in unanswered:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # may be nobody's any more
        code = await self._exit_code()
        for worker in self._workers.values():
            worker.note_zygote_gone()
        self._workers.clear()
        for fd in self._unclaimed:
            os.close(fd)
        log.info("zygote ended", extra={"pid": self.pid, "code": code})
        self._over.set()

    async def _exit_code(self) -> int:
        """Wait for its exit, which its end of file demands; a zygote that does not hear is killed."""
        fd = os.pidfd_open(self._process.pid)
        exited = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, exited.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await exited.wait()
            if not exited.is_set():
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                await exited.wait()
        finally:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        return self._process.wait()


def start_process(options: Mapping[str, object]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a zygote and return it with our end of its control socket, which does not block. Raises LaunchError.

    It dies with the thread that started it: a runner calls this on the event loop's own thread.
    """
    ours, theirs = socket.socketpair()
    whole = {**options, "control": theirs.fileno(), "parent": os.getpid()}
    try:
        process = subprocess.Popen(  # noqa: S603  # our own interpreter and text
            [sys.executable, "-I", "-S", "-c", BOOT, json.dumps(whole)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=MINIMAL_ENVIRONMENT,
            cwd="/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise LaunchError(f"the zygote could not be started: {error.strerror}") from error
    finally:
        theirs.close()
    ours.setblocking(False)
    return process, ours
