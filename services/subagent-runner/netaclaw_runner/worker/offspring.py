"""Everything that a worker has started: ended as a whole, also what has moved into sessions of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_OWN_CHILDREN = "/proc/thread-self/children"
_LIST_BYTES = 64 * 1024
_PATIENCE_S = 2.0
_PAUSE_S = 0.001


class Offspring:
    """As the first process of a pid namespace, or as a subreaper with a list of its children, a worker reaches all.

    Where it is neither (a system without either, or a sandbox that hides the list) it sees what is left and cannot end
    it. One command runs at a time, so all that is there belongs to it.
    """

    def __init__(self, *, first: bool, children: int | None) -> None:
        """`first`: of a pid namespace. `children`: the kernel's list of this thread's children, opened."""
        self._first = first
        self._children = children

    @classmethod
    def of_this_process(cls, children: int | None = None) -> Offspring:
        """Orphans fall to this process from now on. `children`: the list, opened before a sandbox hid it."""
        first = os.getpid() == 1
        if not first and sys.platform == "linux":
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            if children is None:
                with contextlib.suppress(OSError):
                    children = os.open(_OWN_CHILDREN, os.O_RDONLY | os.O_CLOEXEC)
        return cls(first=first, children=children)

    @property
    def reaches_all(self) -> bool:
        """Whether processes that have left their group are within reach, too."""
        return self._first or self._children is not None

    def left(self) -> bool:
        """Whether anything that was started is still there. Reaps what has ended."""
        while True:
            try:
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    return True
            except ChildProcessError:
                return False

    def end(self) -> bool:
        """Kill and reap all of it. False when something is out of reach."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.left():
            if time.monotonic() > deadline or not self.reaches_all:
                return False
            for target in [-1] if self._first else self._listed():  # -1: all in the namespace but this process
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(target, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        return True

    def _listed(self) -> list[int]:
        """Children that are not reaped, so that their numbers cannot be another's. Orphans come up here."""
        if self._children is None:
            return []
        return [int(number) for number in os.pread(self._children, _LIST_BYTES, 0).split()]
