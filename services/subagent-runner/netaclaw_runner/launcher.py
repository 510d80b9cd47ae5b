"""How workers come into being and how they are made to go.

A launcher is all that a later, stronger isolation replaces: the rest of the runner sees a process id, a socket, a
stderr pipe, and a handle that confirms the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import google.protobuf

import netaclaw
import netaclaw_agent
import netaclaw_runner
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.zygote import process_tree

MINIMAL_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}
"""Everything that a worker's environment holds. Nothing of the runner's own is passed on."""

BOOT = """\
import json, sys
options = json.loads(sys.argv[1])
sys.path.extend(options["paths"])
from netaclaw_runner.worker.bootstrap import main
sys.exit(main(options))
"""

_EXIT_POLL_S = 0.01
_GROUP_POLL_S = 0.005
_GROUP_GONE_S = 1.0
_MOST_ROUNDS = 100
_QUIET_ROUNDS = 2


class LaunchError(Exception):
    """A worker could not be started."""


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """Which protections a worker gets, by name."""

    in_force: Sequence[str]
    missing: Sequence[str]


class WorkerHandle(Protocol):
    """One worker's process tree."""

    @property
    def pid(self) -> int:
        """Its process id on this machine."""
        ...

    @property
    def channel(self) -> socket.socket:
        """Our end of its socket; whoever takes it closes it."""
        ...

    @property
    def stderr_fd(self) -> int:
        """Our end of its stderr and stdout; whoever takes it closes it."""
        ...

    @property
    def sandbox(self) -> SandboxReport:
        """What is in force for this very worker."""
        ...

    async def exited(self) -> int:
        """Wait for the worker's own exit. The exit code, or the negative number of the signal that ended it.

        May be called often and by many; cancelling a waiter changes nothing.
        """
        ...

    def signal_tree(self, number: int) -> None:
        """Signal the worker and all processes of its tree. No error when they are gone."""
        ...

    async def finish(self) -> bool:
        """After the exit: kill what is left of the tree, reap, and confirm. False when something would not go."""
        ...


class Launcher(Protocol):
    """Starts workers."""

    @property
    def predictable(self) -> bool:
        """Whether its workers are ours: what they ask the model first follows from their task."""
        ...

    @property
    def sandbox(self) -> SandboxReport:
        """What workers of this launcher get; what each one got is in its handle."""
        ...

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> WorkerHandle:
        """Start one worker, in its own session, on an optional workspace directory. Raises LaunchError.

        The descriptor stays the caller's. Without options: best effort, read-only, no programs. A launcher that cannot
        confine says so in its report.
        """
        ...


class ExecLauncher:
    """Starts each worker as a fresh interpreter without site-packages of its own, in a process group of its own."""

    def __init__(self, boot: str = BOOT) -> None:
        """`boot` is the program text that the interpreter runs, with the options as JSON in its first argument."""
        self._boot = boot
        self.predictable = boot == BOOT
        self._paths = import_paths()

    @property
    def sandbox(self) -> SandboxReport:
        in_force = ["process", "process_group", "minimal_env", "no_inherited_fds"]
        if sys.platform == "linux":
            in_force.append("pdeathsig")
        missing = ["uid", "pid_namespace", "net_namespace", "ipc_namespace", "rlimits", "landlock", "seccomp"]
        return SandboxReport(in_force, missing)

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> WorkerHandle:
        # Called on the event loop's own thread on purpose: the worker dies with the thread that started it.
        ours, theirs = socket.socketpair()
        stderr_read, stderr_write = os.pipe()
        given = {"paths": self._paths, "channel": theirs.fileno(), "workspace": workspace_fd, "parent": os.getpid()}
        kept = [theirs.fileno()] + ([] if workspace_fd is None else [workspace_fd])
        try:
            process = self._spawn(given, kept, stderr_write)
        except OSError as error:
            ours.close()
            os.close(stderr_read)
            raise LaunchError(f"a worker could not be started: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(stderr_write)
        return GroupHandle(process, ours, stderr_read, self.sandbox)

    def _spawn(self, options: Mapping[str, object], kept: Sequence[int], output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # our own interpreter and text
            [sys.executable, "-I", "-S", "-c", self._boot, json.dumps(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=MINIMAL_ENVIRONMENT,
            cwd="/",
            close_fds=True,
            pass_fds=kept,
            start_new_session=True,
        )


class GroupHandle:
    """A child of this process that leads a process group."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: socket.socket, stderr_fd: int, sandbox: SandboxReport
    ) -> None:
        self._process = process
        self._channel = channel
        self._stderr_fd = stderr_fd
        self._exit = asyncio.get_running_loop().create_task(_wait(process))
        self._finished = False
        self._below: list[int] = []
        self._sandbox = sandbox

    @property
    def sandbox(self) -> SandboxReport:
        return self._sandbox

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def channel(self) -> socket.socket:
        return self._channel

    @property
    def stderr_fd(self) -> int:
        return self._stderr_fd

    async def exited(self) -> int:
        return await asyncio.shield(self._exit)

    def signal_tree(self, number: int) -> None:
        # Until finish() reaps it, the leader's pid, and so the group's number, cannot be another's.
        if not self._finished:
            if sys.platform == "linux":  # commands lead sessions of their own
                if number == signal.SIGKILL:
                    self._below += _kill_below(self._process.pid)
                else:
                    process_tree.signal_below(self._process.pid, number)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def finish(self) -> bool:
        await self.exited()
        self.signal_tree(signal.SIGKILL)
        self._finished = True
        self._process.wait()  # it has exited: this only reaps
        try:
            return await self._group_gone()
        finally:
            for fd in self._below:
                os.close(fd)

    async def _group_gone(self) -> bool:
        """Look until nothing of the group, and nothing that was killed beside it, runs.

        Orphans that fell to this process are reaped on the way.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _GROUP_GONE_S
        while _runs_group(self._process.pid) or _any_runs(self._below):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(_GROUP_POLL_S)
        return True


def _kill_below(pid: int) -> list[int]:
    """SIGKILL the processes below a worker. Returns a pidfd for each, the caller's to close.

    Until no further one comes up: orphans fall to the worker, which stands still meanwhile, and would fall out of reach
    with its end.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    seen: set[int] = set()
    fds: list[int] = []
    quiet = 0
    for _ in range(_MOST_ROUNDS):
        fresh = set(process_tree.descendants(pid)) - seen
        quiet = 0 if fresh else quiet + 1
        if quiet == _QUIET_ROUNDS:
            break
        seen |= fresh
        for each in fresh:
            with contextlib.suppress(OSError):
                fds.append(os.pidfd_open(each))
        process_tree.signal_below(pid, signal.SIGKILL)
    return fds


def _runs_group(group: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:  # as process 1, or as a subreaper, we inherit them
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Zombies that a careless process 1 leaves lying about still count for killpg.
    return any(_is_running_in(group, stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _any_runs(fds: Sequence[int]) -> bool:
    ended = select.poll()
    for fd in fds:
        ended.register(fd, select.POLLIN)
    return len(ended.poll(0)) < len(fds)


def _is_running_in(group: int, stat: Path) -> bool:
    try:
        state, _parent, found, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return False
    return int(found) == group and state != "Z"


async def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a child's exit; where the system has pidfds, without reaping it."""
    if sys.platform != "linux":
        while (code := process.poll()) is None:  # noqa: ASYNC110  # nothing here tells us
            await asyncio.sleep(_EXIT_POLL_S)
        return code
    loop = asyncio.get_running_loop()
    fd = os.pidfd_open(process.pid)
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return _exit_code(process.pid)


def _exit_code(pid: int) -> int:
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None  # it has exited
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def import_paths() -> list[str]:
    """Where a worker finds what it imports, by name: no .pth file is read, no other package is looked for."""
    places = [
        Path(netaclaw_runner.__file__).parents[1],
        Path(netaclaw_agent.__file__).parents[1],
        Path(netaclaw.__file__).parents[1],
        Path(google.protobuf.__file__).parents[2],
    ]
    return list(dict.fromkeys(str(place.resolve()) for place in places))
