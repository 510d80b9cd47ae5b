"""Which user a worker is, and how a workspace of another user stays usable to it."""

from __future__ import annotations

import errno
import os
import signal
import stat

from netaclaw_runner.sandbox import kernel

_HIGHEST_MAPPED = 1 << 31


def choose(workspace: int | None, worker_uid: int, *, mapped: bool, writable: bool) -> tuple[int, int]:
    """User and group id for a worker of a root runner.

    `mapped`: the workspace's owner looks like the worker's user. Where that cannot be had, the owner itself is the
    next choice, so that what is written belongs to it. A workspace of root is read as `worker_uid` when it is open to
    all, and otherwise leaves root itself, which holds no capability but owns root's files.
    """
    if workspace is None or mapped:
        return worker_uid, worker_uid
    owner = os.fstat(workspace)
    if owner.st_uid != 0:
        return owner.st_uid, owner.st_gid or worker_uid
    open_to_all = owner.st_mode & (stat.S_IROTH | stat.S_IXOTH) == stat.S_IROTH | stat.S_IXOTH
    return (worker_uid, worker_uid) if open_to_all and not writable else (0, 0)


def become(uid: int, gid: int) -> None:
    """Give up root for good. Raises OSError."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


class IdMaps:
    """User namespaces that serve as maps of mounts: a workspace's owner on disk looks like the worker's user.

    Made by root before it forks workers, one per owner, and kept.
    """

    def __init__(self, worker_uid: int, most: int = 64) -> None:
        self._worker_uid = worker_uid
        self._most = most
        self._found: dict[tuple[int, int], int | None] = {}

    def map_for(self, workspace: int) -> int | None:
        """A namespace's descriptor, ours to keep; None where no map is needed or can be had."""
        owner = os.fstat(workspace)
        key = owner.st_uid, owner.st_gid
        if key not in self._found and len(self._found) < self._most:
            self._found[key] = self._make(*key)
        return self._found.get(key)

    def _make(self, uid: int, gid: int) -> int | None:
        try:
            return make_map(lines(uid, self._worker_uid), lines(gid, self._worker_uid))
        except OSError:
            return None


def lines(owner: int, worker: int) -> str:
    """A map that turns `owner` into `worker`, leaves out what was `worker`, and every other id as it is."""
    if owner == worker:
        return f"0 0 {_HIGHEST_MAPPED}"
    found, start = [f"{owner} {worker} 1"], 0
    for hole in sorted((owner, worker)):
        if hole > start:
            found.append(f"{start} {start} {hole - start}")
        start = hole + 1
    return "\n".join([*found, f"{start} {start} {_HIGHEST_MAPPED - start}"])


def make_map(users: str, groups: str) -> int:
    """A user namespace with these maps, held by its descriptor alone. Raises OSError."""
    ready, made = os.pipe()
    pid = os.fork()
    if pid == 0:
        _hold_namespace(made)
    try:
        os.close(made)
        if os.read(ready, 1) != b"y":
            raise OSError(errno.EPERM, "no user namespace")
        for name, text in (("uid_map", users), ("gid_map", groups)):
            fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _hold_namespace(made: int) -> None:
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.unshare(kernel.NEWUSER)
        os.write(made, b"y")
        signal.pause()
    finally:
        os._exit(1)
