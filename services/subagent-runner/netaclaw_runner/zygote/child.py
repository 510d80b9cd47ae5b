"""A forked child's way from the zygote's copy to a confined worker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.apply import Border, apply
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings
from netaclaw_runner.zygote import wire
from netaclaw_runner.zygote.rehearsal import limber_up

Entry = Callable[[Mapping[str, Any]], int]

EXIT_BROKEN = 70
EXIT_ORPHANED = 71
EXIT_REFUSED = 77

_CHANNEL, _WORKSPACE, _ZYGOTE, _ID_MAP, _NETWORK = 3, 4, 5, 6, 7
_ORDERS = _CHANNEL
"""Until the order comes, where the channel will be."""
_FIRST_FREE = 8
_OUT_OF_THE_WAY = 64
_MOST = 1 << 30


@dataclass(frozen=True, slots=True)
class Birth:
    """What a child is born with: all that it does not inherit from the zygote as it stands."""

    settings: SandboxSettings
    entry: Entry
    orders: int
    """A socket, on which its launch will come: the byte of options, and descriptors."""
    zygote: int
    """The zygote's pidfd."""
    network: int | None
    """An empty network namespace."""
    pid_namespace: bool
    at_leisure: bool
    """Born before it is needed: there is time to limber up."""


@dataclass(frozen=True, slots=True)
class _Order:
    options: LaunchOptions
    channel: int
    stderr: int
    workspace: int | None
    id_map: int | None


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
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    _place({_ORDERS: birth.orders, _ZYGOTE: birth.zygote, _NETWORK: birth.network})
    if birth.at_leisure:
        limber_up()
    order = _wait_for_order()
    if order is None:
        return EXIT_ORPHANED
    kept = {_ZYGOTE: _ZYGOTE, _NETWORK: None if birth.network is None else _NETWORK}
    _place(
        {_CHANNEL: order.channel, _WORKSPACE: order.workspace, _ID_MAP: order.id_map, **kept},
        output=order.stderr,
    )
    return _become_worker(birth, order)


def _wait_for_order() -> _Order | None:
    orders = socket.socket(fileno=_ORDERS)
    data, fds, _, _ = socket.recv_fds(orders, 1, wire.MOST_DESCRIPTORS)
    orders.detach()  # its number will be the channel's
    if not data:
        return None
    options, with_workspace = wire.unpack_options(data)
    channel, stderr, *rest = fds
    workspace = rest.pop(0) if with_workspace else None
    return _Order(options, channel, stderr, workspace, rest[0] if rest else None)


def _become_worker(birth: Birth, order: _Order) -> int:
    own = "pid_namespace" if birth.pid_namespace else "subreaper"
    children = None if birth.pid_namespace else _become_subreaper()
    border = Border(
        ("process", "session", "minimal_env", "no_inherited_fds", own),
        None if order.id_map is None else _ID_MAP,
        None if birth.network is None else _NETWORK,
    )
    workspace = None if order.workspace is None else _WORKSPACE
    confined = apply(order.options, workspace, border, birth.settings)
    if _is_over(_ZYGOTE):
        return EXIT_ORPHANED  # it died before this process had asked to die with it
    for place, held in ((_ZYGOTE, _ZYGOTE), (_ID_MAP, order.id_map), (_NETWORK, birth.network)):
        if held is not None:  # a free place may hold the workspace by now
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


def _place(places: Mapping[int, int | None], output: int | None = None) -> None:
    """Move descriptors to their places and close all others. `output` becomes stdout and stderr."""
    wanted = [(place, fd) for place, fd in places.items() if fd is not None]
    if output is not None:
        wanted += [(1, output), (2, output)]
    moved = [(place, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)) for place, fd in wanted]
    for place, fd in moved:
        os.dup2(fd, place, inheritable=place < _CHANNEL)
    for place in range(_CHANNEL, _FIRST_FREE):
        if places.get(place) is None:
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
