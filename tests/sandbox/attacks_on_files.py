"""Reading, writing and looking outside the workspace."""

from __future__ import annotations

import contextlib
import ctypes
import os

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.workspace import Workspace
from tests.sandbox.attack import Context, NotOut, attack, by_name, read

_SWAPS = 1500


@attack
def read_by_path(context: Context) -> object:
    return read(context["secret"])


@attack
def read_by_link(context: Context) -> object:
    return read("link", context["workspace_fd"])


@attack
def read_above_the_workspace(context: Context) -> object:
    return read("../outside/secret", context["workspace_fd"])


@attack
def read_far_above_the_workspace(context: Context) -> object:
    return read("../" * 40 + context["secret"].lstrip("/"), context["workspace_fd"])


@attack
def read_by_own_root_in_proc(context: Context) -> object:
    return read("/proc/self/root" + context["secret"])


@attack
def read_by_cwd_of_the_parent(context: Context) -> object:
    return read(f"/proc/{context['parent']}/cwd/outside/secret")


@attack
def read_the_shadow_file(_context: Context) -> object:
    return read("/etc/shadow")


@attack
def list_outside(context: Context) -> object:
    return os.listdir(context["outside"])


@attack
def read_during_a_swap(context: Context) -> object:
    """The workspace's own reader, while somebody exchanges a folder for a link that leads out."""
    with Workspace.open(context["workspace_fd"]) as workspace:
        for _ in range(_SWAPS):
            with contextlib.suppress(ToolError), workspace.open_file("swapped/secret") as file:
                if b"topsecret" in file.read():
                    return "read the other file"
    raise NotOut("never")


@attack
def write_by_path(context: Context) -> None:
    _write(context["outside"] + "/new")


@attack
def write_in_tmp(context: Context) -> None:
    if context["shell"] and context["rooted"]:
        raise NotOut("its own /tmp")
    _write(f"/tmp/{context['mark']}")


@attack
def write_in_shared_memory(context: Context) -> None:
    _write(f"/dev/shm/{context['mark']}")


@attack
def write_in_the_workspace(context: Context) -> None:
    _write("new", context["workspace_fd"])


@attack
def link_to_outside_file(context: Context) -> None:
    os.link(context["secret"], "hard", dst_dir_fd=context["workspace_fd"], follow_symlinks=True)


def _write(path: str, dir_fd: int | None = None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=dir_fd)
    os.write(fd, b"x")
    os.close(fd)
    with contextlib.suppress(OSError):
        os.unlink(path, dir_fd=dir_fd)


@attack
def truncate_outside(context: Context) -> None:
    os.truncate(context["victim"], 0)


@attack
def stat_outside(context: Context) -> object:
    return os.stat(context["secret"]).st_size


@attack
def chmod_outside(context: Context) -> None:
    os.chmod(context["victim"], 0o600)


@attack
def chmod_outside_by_new_call(context: Context) -> None:
    by_name("fchmodat2", -100, context["victim"].encode(), 0o600, 0)


@attack
def touch_outside(context: Context) -> None:
    os.utime(context["victim"], (1, 1))


@attack
def chmod_in_the_workspace(context: Context) -> None:
    fd = os.open("file", os.O_RDONLY, dir_fd=context["workspace_fd"])
    try:
        os.fchmod(fd, 0o640)
    finally:
        os.close(fd)


@attack
def watch_outside(context: Context) -> None:
    watcher = ctypes.CDLL(None, use_errno=True)
    fd = watcher.inotify_init1(0)
    if fd < 0 or watcher.inotify_add_watch(fd, context["outside"].encode(), 0xFFF) < 0:
        raise NotOut("refused")
