"""Processes below a process, by way of /proc, and their end. For where no pid namespace does it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def descendants(root: int) -> list[int]:
    """The processes below one, itself not counted; new sessions do not hide them. A snapshot."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """A process's children, of all its threads."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(number) for number in file.read().split()]
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}") and not os.path.exists("/proc/thread-self/children"):
            return _children_by_parent(pid)  # a kernel without these lists
    except (ProcessLookupError, PermissionError):
        pass
    return found


def parent(pid: int) -> int:
    """A process's parent; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def signal_below(root: int, number: int) -> None:
    """Signal the processes below one. A number that another process got meanwhile is not signalled."""
    below = descendants(root)
    family = {root, *below}
    for pid in below:
        with suppress(OSError):
            fd = os.pidfd_open(pid)
            try:
                if parent(pid) in family:
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)


def end_everything_below() -> None:
    """Kill and reap all processes below this one, which must be a child subreaper. Returns when none is left."""
    while True:
        for pid in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children_by_parent(pid: int) -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if parent(number) == pid]
