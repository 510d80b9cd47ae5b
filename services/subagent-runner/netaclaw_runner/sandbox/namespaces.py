"""User, network and IPC namespaces of a worker."""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import NoReturn

from netaclaw_runner.sandbox import kernel

NAMES = {
    "net_namespace": kernel.NEWNET,
    "ipc_namespace": kernel.NEWIPC,
    "mount_namespace": kernel.NEWNS,
}


def enter_user(process: int, more: int) -> None:
    """Enter a user namespace in which we are who we were, and with it the namespaces of `more`. Raises OSError.

    `process`: this process's folder of /proc, which may be out of reach by name.
    """
    uid, gid = os.geteuid(), os.getegid()
    # After a change of user the maps would belong to root, and could not be written.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.unshare(kernel.NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=process)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def make_empty_network() -> int:
    """A network namespace with nothing in it, held by its descriptor alone. Raises OSError.

    Made once and entered by every worker, for one of its own costs each of them a millisecond. That workers could meet
    in it is prevented by other layers: its loopback device is down, and the filter denies sockets.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _send_network(theirs)
    theirs.close()
    try:
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    finally:
        ours.close()
        os.waitpid(pid, 0)
    if not fds:
        raise OSError(errno.EPERM, "no network namespace")
    os.set_inheritable(fds[0], False)
    return fds[0]


def _send_network(channel: socket.socket) -> NoReturn:
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.unshare(kernel.NEWNET)
        socket.send_fds(channel, [b"n"], [os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)])
    finally:
        os._exit(0)
