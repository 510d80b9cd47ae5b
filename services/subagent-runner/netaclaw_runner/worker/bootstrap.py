"""A worker's first steps: its descriptors, its ties to the runner, and what the first line makes of it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from netaclaw.subagent.v1.envelope_pb2 import HostStart, SubagentTaskEnvelope
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.worker.channel import CHANNEL_FD, ChannelClosed, WorkerChannel, complain
from netaclaw_runner.worker.host import run_host
from netaclaw_runner.worker.offspring import Offspring
from netaclaw_runner.worker.stopping import Stopped, heed_sigterm, uninterrupted
from netaclaw_runner.worker.task import run_task

WORKSPACE_FD = 4

EXIT_CHANNEL_CLOSED = 3
EXIT_STOPPED = 4
EXIT_ORPHANED = 5

_PR_SET_PDEATHSIG = 1
_FREE_FD = 10


def main(options: Mapping[str, Any]) -> int:
    """Be a worker. Options: channel and workspace (descriptors; workspace may be null), parent (the runner's pid).

    Optional: children (a descriptor of /proc/thread-self/children, for where a sandbox hides it).
    """
    if not die_with(options["parent"]):
        return EXIT_ORPHANED
    workspace_fd = place_descriptors(options["channel"], options["workspace"])
    heed_sigterm()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides; a terminal's Ctrl-C reaches the runner itself
    workspace = None if workspace_fd is None else Workspace(workspace_fd)
    return serve(WorkerChannel(CHANNEL_FD), workspace, options.get("children"))


def serve(channel: WorkerChannel, workspace: Workspace | None, children: int | None = None) -> int:
    """Do what the first line asks, to its end. Returns the exit code."""
    offspring = Offspring.of_this_process(children)
    try:
        first = channel.receive()
        if isinstance(first, SubagentTaskEnvelope):
            run_task(channel, first, workspace, offspring)
        elif isinstance(first, HostStart):
            run_host(channel, first, workspace, offspring)
        else:
            complain("the first line was neither task nor host_start")
            return 2
    except ChannelClosed:
        return EXIT_CHANNEL_CLOSED
    except Stopped:
        return EXIT_STOPPED
    finally:
        with suppress(Stopped), uninterrupted():
            offspring.end()  # whatever way led here, nothing that was started stays
    return 0


def die_with(parent: int) -> bool:
    """Ask the kernel to kill this process when its runner dies. False when the runner is dead already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def place_descriptors(channel: int, workspace: int | None) -> int | None:
    """Move the channel to 3 and the workspace to 4, closed on exec, so that no program started later inherits them."""
    channel = _move_up(channel)
    workspace = None if workspace is None else _move_up(workspace)
    _move_to(channel, CHANNEL_FD)
    if workspace is None:
        return None
    _move_to(workspace, WORKSPACE_FD)
    return WORKSPACE_FD


def _move_up(fd: int) -> int:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FREE_FD)
    os.close(fd)
    return copy


def _move_to(fd: int, target: int) -> None:
    os.dup2(fd, target, inheritable=False)
    os.close(fd)
