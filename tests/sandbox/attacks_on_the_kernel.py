"""New namespaces, mounts, kernel interfaces, and more of the machine than is due."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys

from netaclaw_runner.sandbox import kernel
from tests.sandbox.attack import Context, NotOut, attack, by_name, in_a_fork

_MOST_FORKS = 300
_MIB = 1024 * 1024


@attack
def enter_a_new_user_namespace(_context: Context) -> None:
    in_a_fork(lambda: kernel.unshare(kernel.NEWUSER))


@attack
def clone_into_a_new_user_namespace(_context: Context) -> None:
    pid = by_name("clone", kernel.NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attack
def mount_something(context: Context) -> None:
    def mount() -> None:
        target = context["outside"] if os.path.isdir(context["outside"]) else "/workspace"
        kernel.mount("none", target, "tmpfs", 0)
        by_name("umount2", target.encode(), 2)

    in_a_fork(mount)


@attack
def change_the_root(_context: Context) -> None:
    in_a_fork(lambda: os.chroot("/"))


@attack
def load_a_bpf_program(_context: Context) -> object:
    return by_name("bpf", 0, bytes(128), 128)


@attack
def open_performance_counters(_context: Context) -> object:
    return by_name("perf_event_open", bytes(128), 0, -1, -1, 0)


@attack
def read_the_keyring(_context: Context) -> object:
    return by_name("keyctl", 0, -3, 1, 0, 0)


@attack
def make_a_file_in_memory(_context: Context) -> None:
    os.close(os.memfd_create("balloon"))


@attack
def make_shared_memory(_context: Context) -> object:
    return by_name("shmget", 0, 4096, 0o1600)


@attack
def become_root(_context: Context) -> object:
    if os.geteuid() == 0:
        return "is root"
    in_a_fork(lambda: os.setuid(0))
    return "became root"


@attack
def regain_a_capability(_context: Context) -> object:
    header, room = struct.pack("=Ii", 0x2008_0522, 0), ctypes.create_string_buffer(24)
    kernel.syscall(125 if kernel.machine() == "x86_64" else 90, header, room)
    if not any(room.raw):
        raise NotOut("none held")
    return room.raw.hex()


@attack
def start_a_program(_context: Context) -> object:
    return subprocess.run(["/bin/sh", "-c", "echo hi"], capture_output=True, check=True, timeout=20).stdout


@attack
def fork_without_end(context: Context) -> object:
    """Only where a limit was verified: by then the report names it, and a limit of this process is set."""
    if not any(name.startswith("process_limit") for name in context["in_force"]):
        return "not tried: no limit in force"
    assert resource.getrlimit(resource.RLIMIT_NPROC)[0] <= 4096
    held, release = os.pipe()
    children: list[int] = []
    refused = None
    while len(children) < _MOST_FORKS and refused is None:
        try:
            pid = os.fork()
        except OSError as error:
            refused = error
            break
        if pid == 0:
            os.close(release)
            os.read(held, 1)
            os._exit(0)
        children.append(pid)
    os.close(release)
    os.close(held)
    for pid in children:
        os.waitpid(pid, 0)
    if refused is not None:
        raise NotOut(f"stopped at {len(children)}")
    return f"{len(children)} children"


@attack
def blow_up_one_process(_context: Context) -> None:
    """Mapped and never touched: costs the machine nothing."""
    space = mmap.mmap(-1, 8192 * _MIB)
    space.close()


@attack
def blow_up_several_processes(context: Context) -> None:
    """Two processes that together map more than one may. Their memory is not touched."""
    share = context["address_space"] * 6 // 10
    answers, told = os.pipe()
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            word = b"n"
            with contextlib.suppress(BaseException):
                mmap.mmap(-1, share)
                word = b"y"
            os.write(told, word)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    if os.read(answers, 2) != b"yy":
        raise NotOut("refused")


@attack
def write_a_huge_file(context: Context) -> None:
    """Sparse."""
    fd = os.open("huge", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=context["workspace_fd"])
    try:
        os.pwrite(fd, b"x", context["file_size"] + 1)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink("huge", dir_fd=context["workspace_fd"])


@attack
def open_files_without_end(context: Context) -> None:
    fds = []
    try:
        for _ in range(2048):
            fds.append(os.dup(context["workspace_fd"]))
    finally:
        for fd in fds:
            os.close(fd)


@attack
def import_a_service_library(_context: Context) -> object:
    found = [name for name in ("grpc", "asyncio", "aiohttp", "ssl", "asyncpg") if name in sys.modules]
    if not found:
        raise NotOut("none loaded")
    return found
