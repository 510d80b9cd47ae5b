"""User, network and IPC namespaces of a worker."""

from __future__ import annotations

import os

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
