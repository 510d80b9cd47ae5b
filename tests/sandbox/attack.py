"""Ways out of a worker. Each runs inside one and raises OSError when it is stopped; what returns has got out.

Nothing here harms the machine where it succeeds: mappings are not touched, files are sparse, processes are counted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netaclaw_agent.tool import ToolError
from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.syscalls import architecture_of, number

Context = Mapping[str, Any]
Attack = Callable[[Context], object]

ATTACKS: dict[str, Attack] = {}


class NotOut(OSError):
    """It was not refused, but it led nowhere."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attack went."""

    name: str
    out: bool
    detail: str


def run(name: str, context: Context) -> Outcome:
    """Try one attack."""
    try:
        detail = ATTACKS[name](context)
    except (OSError, ToolError, MemoryError) as error:
        return Outcome(name, False, f"{type(error).__name__}: {error}"[:200])
    return Outcome(name, True, str(detail)[:200])


def attack(function: Attack) -> Attack:
    """Make a function one of the attacks, under its own name."""
    ATTACKS[function.__name__] = function
    return function


def by_name(name: str, *arguments: int | bytes | None) -> int:
    """A system call that the C library may lack."""
    architecture = architecture_of(kernel.machine())
    assert architecture is not None
    found = number(name, architecture)
    if found is None:
        raise NotOut(f"no {name} here")
    return kernel.syscall(found, *arguments)


def in_a_fork(action: Callable[[], object]) -> None:
    """Where a success would change this process. Without the right to fork, here and now."""
    try:
        pid = os.fork()
    except OSError:
        action()
        return
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            action()
            code = 0
        os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise NotOut("refused in a fork")


def read(path: str, dir_fd: int | None = None) -> str:
    """The beginning of a file that is not empty."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        data = os.read(fd, 4096)
    finally:
        os.close(fd)
    if not data:
        raise NotOut("empty")
    return repr(data[:20])
