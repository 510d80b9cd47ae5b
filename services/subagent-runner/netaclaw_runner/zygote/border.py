"""Where a zygote stands, so that no process of a worker outlives it.

own: the zygote may make pid namespaces; each worker is the first process of one. user: the zygote lives in a pid
namespace of its own user namespace, and may make them there. none: workers are plain children; a keeper above the
zygote inherits what they leave behind, and ends it.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Literal, NoReturn

from netaclaw_runner.sandbox import kernel, namespaces
from netaclaw_runner.zygote import process_tree

Border = Literal["own", "user", "none"]


class Orphaned(Exception):
    """The runner died before it could be watched."""


def take_stand(runner: int, control: int) -> tuple[Border, int | None]:
    """Decide and arrange the border. Returns in the zygote only, with its pid namespace's descriptor.

    A process above it stays behind, where one is needed, and ends with the zygote. Raises Orphaned.
    """
    if _may_make_pid_namespaces():
        _die_with(runner)
        return "own", _own_namespace()
    if not _may_make_user_namespaces():
        _become_keeper_of_a_fork(control)
        return "none", None
    _enter_user_and_pid_namespace()
    _die_with(runner)
    _wait_for_a_fork()
    return "user", _own_namespace()


def _own_namespace() -> int:
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def _may_make_pid_namespaces() -> bool:
    try:
        own = _own_namespace()
    except OSError:
        return False
    try:
        kernel.unshare(kernel.NEWPID)
        kernel.setns(own, kernel.NEWPID)  # else the next child would be the first of that one
    except OSError:
        return False
    finally:
        os.close(own)
    return True


def _may_make_user_namespaces() -> bool:
    """Tried in a fork, for there is no way back from half of it."""
    pid = os.fork()
    if pid == 0:
        try:
            _enter_user_and_pid_namespace()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _die_with(parent: int) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise Orphaned


def _enter_user_and_pid_namespace() -> None:
    process = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        namespaces.enter_user(process, kernel.NEWPID)
    finally:
        os.close(process)


def _wait_for_a_fork() -> None:
    """Go on as the first process of the new pid namespace; the one outside waits for its end."""
    outside = os.pidfd_open(os.getpid())
    pid = os.fork()
    if pid:
        os.closerange(0, outside)
        _end_as(os.waitpid(pid, 0)[1])
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if _is_over(outside):  # a parent outside the namespace has no number here
        raise Orphaned
    os.close(outside)


def _become_keeper_of_a_fork(control: int) -> None:
    """Go on as a child of a keeper, which ends all when the runner or the child is gone."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        _keep(pid, control)
    # Told, not killed, when its keeper is killed: then it ends its workers' trees itself.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != keeper:
        raise Orphaned


def _keep(zygote: int, control: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a group's SIGTERM is the runner's to handle
    watched = select.poll()
    watched.register(control, select.POLLRDHUP)
    watched.register(os.pidfd_open(zygote), select.POLLIN)
    watched.poll()
    try:
        process_tree.end_everything_below()
    finally:
        os._exit(0)


def _is_over(process: int) -> bool:
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(0))


def _end_as(status: int) -> NoReturn:
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
