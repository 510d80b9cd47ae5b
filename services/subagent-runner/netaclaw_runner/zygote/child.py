"""A forked child's way from the zygote's copy to a confined worker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.apply import Border, apply
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings

Entry = Callable[[Mapping[str, Any]], int]

EXIT_BROKEN = 70
EXIT_ORPHANED = 71
EXIT_REFUSED = 77

_CHANNEL, _WORKSPACE, _ZYGOTE, _ID_MAP, _NETWORK = 3, 4, 5, 6, 7
_FIRST_FREE = 8
_OUT_OF_THE_WAY = 64
_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class Birth:
    """What a child is born with: all that it does not inherit from the zygote as it stands."""

    options: LaunchOptions
    settings: SandboxSettings
    entry: Entry
    channel: int
    stderr: int
    workspace: int | None
    zygote: int
    """The zygote's pidfd."""
    id_map: int | None
    network: int | None
    """An empty network namespace."""
    pid_namespace: bool


def live(birth: Birth) -> NoReturn:
    """Be the worker and exit. Nothing of the zygote's stack is returned to."""
    code = EXIT_BROKEN
    try:
        code = _work(birth)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _work(birth: Birth) -> int:
    os.setsid()
    _reset_signals()
    _place_descriptors(birth)
    own = "pid_namespace" if birth.pid_namespace else "subreaper"
    children = None if birth.pid_namespace else _become_subreaper()
    border = Border(
        ("process", "session", "minimal_env", "no_inherited_fds", own),
        None if birth.id_map is None else _ID_MAP,
        None if birth.network is None else _NETWORK,
    )
    workspace = None if birth.workspace is None else _WORKSPACE
    confined = apply(birth.options, workspace, border, birth.settings)
    if _is_over(_ZYGOTE):
        return EXIT_ORPHANED  # it died before this process had asked to die with it
    for place, fd in ((_ZYGOTE, birth.zygote), (_ID_MAP, birth.id_map), (_NETWORK, birth.network)):
        if fd is not None:  # a free place may hold the workspace by now
            os.close(place)
    _write_all(_CHANNEL, confined.report.line(refused=confined.refused))
    if confined.refused:
        return EXIT_REFUSED
    return birth.entry(
        {
            "channel": _CHANNEL,
            "workspace": confined.workspace,
            "parent": os.getppid(),
            "children": children,
            "sandbox": {"in_force": confined.report.in_force, "missing": confined.report.missing},
        }
    )


def _become_subreaper() -> int | None:
    """What it leaves behind stays its own until it ends. Returns the list of it, soon out of reach by name."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    try:
        return os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _place_descriptors(birth: Birth) -> None:
    """Stdin reads nothing, stdout joins stderr, the rest has fixed places, and all else is closed."""
    places = {
        _CHANNEL: birth.channel,
        _WORKSPACE: birth.workspace,
        _ZYGOTE: birth.zygote,
        _ID_MAP: birth.id_map,
        _NETWORK: birth.network,
    }
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    wanted = [(0, null), (1, birth.stderr), (2, birth.stderr)]
    wanted += [(place, fd) for place, fd in places.items() if fd is not None]
    moved = [(place, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)) for place, fd in wanted]
    for place, fd in moved:
        os.dup2(fd, place, inheritable=place < _CHANNEL)
    for place, held in places.items():
        if held is None:
            with contextlib.suppress(OSError):
                os.close(place)
    os.closerange(_FIRST_FREE, _MOST)


def _is_over(process: int) -> bool:
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(0))


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
