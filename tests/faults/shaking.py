"""Faults: a service is killed or falls silent, the road to it is cut or falls silent, at a random point of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.proxy import Proxy
from tests.scenarios.suites import RunningSuite

SERVICES = ("store", "runner", "orchestrator", "gateway")
MAX_EVENTS = 60
"""About as many as a delegated turn has; a fault that comes later comes at the turn's end."""
SILENCE_S = (0.3, 2.5)
"""From far below the lease of a second to well above it."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and after how many events."""

    what: str
    service: str
    after: int
    silence_s: float

    def __str__(self) -> str:
        target = self.service if self.what in ("kill", "stop") else "the road"
        return f"{self.what} {target} after {self.after} events"


class Dice:
    """Random faults; each service is hit as often as the others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._next: list[str] = []

    def fault(self) -> Fault:
        if not self._next:
            self._next = self.random.sample(SERVICES, len(SERVICES))
        what = self.random.choices(("kill", "stop", "cut", "hush"), (5, 2, 2, 1))[0]
        service = self._next.pop() if what in ("kill", "stop") else ""
        return Fault(what, service, self.random.randint(0, MAX_EVENTS), self.random.uniform(*SILENCE_S))


def strike(fault: Fault, suite: RunningSuite, road: Proxy) -> Callable[[], None]:
    """Let it happen. Returns what ends it, to be called at the latest before the suite stops."""
    if fault.what == "kill":
        assert suite.processes is not None
        _signal(suite.processes.pid(fault.service), signal.SIGKILL)
        return lambda: None
    if fault.what == "cut":
        road.cut()
        return lambda: None
    if fault.what == "hush":
        road.hush()
        over = road.speak
    else:
        assert suite.processes is not None
        pid = suite.processes.pid(fault.service)
        _signal(pid, signal.SIGSTOP)
        over = functools.partial(_signal, pid, signal.SIGCONT)
    asyncio.get_running_loop().call_later(fault.silence_s, over)
    return over


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it is dead of the fault before, and not yet started again
        os.kill(pid, number)
