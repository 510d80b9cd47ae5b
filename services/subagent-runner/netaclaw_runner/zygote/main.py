"""The zygote: one single-threaded process per runner that has imported all a worker needs, and forks workers.

It holds no key, no network and no connection but the one to its runner. Workers are its children: it reaps them and
reports their ends. It ends with its runner, and all its workers with it.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.identity import IdMaps
from netaclaw_runner.sandbox.namespaces import make_empty_network
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings
from netaclaw_runner.zygote import process_tree, wire
from netaclaw_runner.zygote.border import Border, Orphaned, take_stand
from netaclaw_runner.zygote.child import Birth, Entry, live
from netaclaw_runner.zygote.rehearsal import rehearse
from netaclaw_runner.zygote.wire import Record

EXIT_ORPHANED = 5

_LEISURE_MS = 2
"""After so long without an event a child is made in advance, for fork and first steps are half of a launch."""
_MORE_LEISURE_MS = 25
"""The same while one stands ready: what was launched a moment ago needs the processors more."""
READY = 8
"""So many children stand ready for a delegation to several workers at once."""


def main(options: Mapping[str, Any]) -> int:
    """Be a zygote. Options: control (descriptor), parent (the runner's pid), entry ("module:function"), settings."""
    control = socket.socket(fileno=options["control"])
    control.set_inheritable(False)
    try:
        border, namespace = take_stand(options["parent"], control.fileno())
    except Orphaned:
        return EXIT_ORPHANED
    module, _, name = str(options["entry"]).partition(":")
    entry: Entry = getattr(importlib.import_module(module), name)
    settings = SandboxSettings.from_json(options["settings"])
    rehearse()
    Zygote(control, border, namespace, entry, settings).serve()
    return 0


@dataclass(frozen=True, slots=True)
class Unborn:
    """A child that waits for its order."""

    pid: int
    orders: socket.socket


class Zygote:
    """Serves launches until its runner closes the socket."""

    def __init__(
        self, control: socket.socket, border: Border, namespace: int | None, entry: Entry, settings: SandboxSettings
    ) -> None:
        self._control = control
        self._border = border
        self._namespace = namespace
        self._entry = entry
        self._settings = settings
        self._self = os.pidfd_open(os.getpid())
        self._id_maps = IdMaps(settings.worker_uid) if border == "own" and os.geteuid() == 0 else None
        self._network = _empty_network()
        self._ready: list[Unborn] = []
        self._workers: set[int] = set()
        self._leaving: set[int] = set()
        self._stopping = False

    def serve(self) -> None:
        """Fork on request and report ends, until the runner is gone."""
        woken = self._listen_to_children()
        gc.collect()
        gc.freeze()  # so that a worker's collector leaves the shared pages alone
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        waiting.register(woken, select.POLLIN)
        failed = False
        try:
            self._send(Record("redy", value=wire.BORDERS.index(self._border)))
            while not self._stopping:
                events = waiting.poll(None if failed else self._leisure_ms)  # not tried again before the next event
                failed = not events and not self._make_ready()
                for fd, _ in events:
                    if fd == woken:
                        with suppress(BlockingIOError):
                            os.read(woken, 4096)
                        self._reap()
                    elif not self._serve_one():
                        return
        except (BrokenPipeError, ConnectionResetError):
            pass  # the runner is gone
        finally:
            self._end_workers()

    @property
    def _leisure_ms(self) -> int | None:
        """How long nothing may happen before a child is made in advance; None: for ever."""
        if len(self._ready) >= READY:
            return None
        return _MORE_LEISURE_MS if self._ready else _LEISURE_MS

    def _make_ready(self) -> bool:
        """Make a child in advance. False when that fails, such as at the machine's limit of processes."""
        try:
            self._ready.append(self._make_child(at_leisure=True))
        except OSError:
            return False
        return True

    def _listen_to_children(self) -> int:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the runner itself
        signal.signal(signal.SIGTERM, self._stop)
        return read

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        # From the keeper's death. Where a pid namespace stands there is no keeper, and the runner's end is SIGKILL.
        self._stopping = self._border == "none"

    def _serve_one(self) -> bool:
        """One launch. False at the end of the runner's requests."""
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 1, wire.MOST_DESCRIPTORS)
        except ConnectionResetError:
            return False
        if not data:
            return False
        try:
            options, with_workspace = wire.unpack_options(data)
            if len(fds) != 2 + with_workspace:
                raise OSError(errno.EBADF, "descriptors were lost")
            child = self._launch(data, options, fds)
        except (OSError, IndexError) as error:
            self._send(Record("fail", 0, getattr(error, "errno", None) or errno.EINVAL))
        else:
            pidfd = os.pidfd_open(child.pid)  # it is not reaped before we say so
            socket.send_fds(self._control, [Record("strt", child.pid).pack()], [pidfd])
            os.close(pidfd)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _launch(self, request: bytes, options: LaunchOptions, fds: list[int]) -> Unborn:
        """Give a child its order: the one that stands ready, or a new one."""
        more: list[int] = []
        if len(fds) > 2 and self._id_maps is not None and options.sandbox != "off":
            id_map = self._id_maps.map_for(fds[2])
            more = [] if id_map is None else [id_map]
        while self._ready:
            child = self._ready.pop(0)
            if _order(child, request, [*fds, *more]):
                break
        else:
            child = self._make_child(at_leisure=False)
            if not _order(child, request, [*fds, *more]):
                raise OSError(errno.EPIPE, "a new child has ended")
        self._workers.add(child.pid)
        return child

    def _make_child(self, *, at_leisure: bool) -> Unborn:
        ours, theirs = socket.socketpair()
        pid = self._fork_into_namespace()
        if pid == 0:
            self._control.detach()  # its number will be another's
            live(
                Birth(
                    settings=self._settings,
                    entry=self._entry,
                    orders=theirs.detach(),
                    zygote=self._self,
                    network=self._network,
                    pid_namespace=self._namespace is not None,
                    at_leisure=at_leisure,
                )
            )
        theirs.close()
        return Unborn(pid, ours)

    def _fork_into_namespace(self) -> int:
        if self._namespace is None:
            return os.fork()
        kernel.unshare(kernel.NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:  # the child is where it should be; this process must come back, or its next unshare fails
                kernel.setns(self._namespace, kernel.NEWPID)
        return pid

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            for unborn in [each for each in self._ready if each.pid == pid]:
                unborn.orders.close()
                self._ready.remove(unborn)
            if pid in self._workers:
                self._workers.discard(pid)
                if self._border == "none":
                    self._leaving.add(pid)
                self._send(Record("exit", pid, status))
        if self._border == "none":
            self._end_leftovers()

    def _end_leftovers(self) -> None:
        """A child that is no worker is what a dead worker left behind: while a worker lives, it inherits them."""
        known = self._workers | {unborn.pid for unborn in self._ready}
        strangers = [pid for pid in process_tree.children(os.getpid()) if pid not in known]
        for pid in strangers:
            process_tree.signal_below(pid, signal.SIGKILL)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not strangers:
            for pid in self._leaving:
                self._send(Record("gone", pid))
            self._leaving.clear()

    def _end_workers(self) -> None:
        signal.set_wakeup_fd(-1)
        if self._border == "none":
            process_tree.end_everything_below()
            return
        pids = [*self._workers, *(unborn.pid for unborn in self._ready)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)

    def _send(self, record: Record) -> None:
        self._control.sendall(record.pack())


def _order(child: Unborn, request: bytes, fds: list[int]) -> bool:
    """Give a child its order. False when it has ended."""
    with child.orders, suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(child.orders, [request], fds)
        return True
    return False


def _empty_network() -> int | None:
    try:
        return make_empty_network()
    except OSError:
        return None
