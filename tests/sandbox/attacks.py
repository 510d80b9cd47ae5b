"""Ways out of a worker. Each runs inside one and raises OSError when it is stopped; what returns has got out.

Nothing here harms the machine where it succeeds: mappings are not touched, files are sparse, processes are counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.syscalls import architecture_of, number

Context = Mapping[str, Any]
Attack = Callable[[Context], object]

ATTACKS: dict[str, Attack] = {}

_SWAPS = 1500
_MOST_FORKS = 300
_MIB = 1024 * 1024


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
    ATTACKS[function.__name__] = function
    return function


def _call(name: str, *arguments: int | bytes | None) -> int:
    architecture = architecture_of(kernel.machine())
    assert architecture is not None
    found = number(name, architecture)
    if found is None:
        raise NotOut(f"no {name} here")
    return kernel.syscall(found, *arguments)


def _in_a_fork(action: Callable[[], object]) -> None:
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


@attack
def use_an_inherited_descriptor(context: Context) -> object:
    allowed = {0, 1, 2, 3, context["workspace_fd"]}
    found = []
    for fd in range(256):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            found.append(fd)
    if set(found) <= allowed:
        raise NotOut(f"only {found}")
    return found


# --- files ---------------------------------------------------------------------------------------------------------


def _read(path: str, dir_fd: int | None = None) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        data = os.read(fd, 4096)
    finally:
        os.close(fd)
    if not data:
        raise NotOut("empty")
    return repr(data[:20])


@attack
def read_by_path(context: Context) -> object:
    return _read(context["secret"])


@attack
def read_by_link(context: Context) -> object:
    return _read("link", context["workspace_fd"])


@attack
def read_above_the_workspace(context: Context) -> object:
    return _read("../outside/secret", context["workspace_fd"])


@attack
def read_far_above_the_workspace(context: Context) -> object:
    return _read("../" * 40 + context["secret"].lstrip("/"), context["workspace_fd"])


@attack
def read_by_own_root_in_proc(context: Context) -> object:
    return _read("/proc/self/root" + context["secret"])


@attack
def read_by_cwd_of_the_parent(context: Context) -> object:
    return _read(f"/proc/{context['parent']}/cwd/outside/secret")


@attack
def read_the_shadow_file(_context: Context) -> object:
    return _read("/etc/shadow")


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
    _call("fchmodat2", -100, context["victim"].encode(), 0o600, 0)


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


# --- network and sockets -------------------------------------------------------------------------------------------


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as sock:
        sock.settimeout(2)
        sock.connect(address)
        sock.send(b"x")


@attack
def connect_by_tcp(context: Context) -> None:
    _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", context["tcp"]))


@attack
def send_by_udp(context: Context) -> None:
    _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", context["udp"]))


@attack
def connect_to_a_socket_by_path(context: Context) -> None:
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, context["unix_stream"])


@attack
def connect_to_an_abstract_socket(context: Context) -> None:
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + context["abstract"])


@attack
def point_a_pair_at_a_path(context: Context) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.sendto(b"x", context["unix_datagram"])


@attack
def ask_netlink(_context: Context) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.bind((0, 0))


@attack
def set_up_io_uring(_context: Context) -> object:
    return _call("io_uring_setup", 4, bytes(256))


# --- other processes -----------------------------------------------------------------------------------------------


@attack
def read_the_environment_of_the_parent(context: Context) -> object:
    return _read(f"/proc/{context['parent']}/environ")


@attack
def open_the_memory_of_the_parent(context: Context) -> None:
    os.close(os.open(f"/proc/{context['parent']}/mem", os.O_RDONLY))


@attack
def read_the_memory_of_the_parent(context: Context) -> object:
    room = ctypes.create_string_buffer(8)
    local = struct.pack("=QQ", ctypes.addressof(room), 8)
    remote = struct.pack("=QQ", context["address"], 8)
    return _call("process_vm_readv", context["parent"], local, 1, remote, 1, 0)


@attack
def trace_the_parent(context: Context) -> None:
    _in_a_fork(lambda: _call("ptrace", 0x4206, context["parent"], 0, 0))


@attack
def signal_the_parent(context: Context) -> None:
    os.kill(context["parent"], 0)


@attack
def signal_the_zygote(context: Context) -> None:
    os.kill(context["zygote"], 0)


@attack
def take_a_descriptor_of_the_parent(context: Context) -> object:
    held = os.pidfd_open(context["parent"])
    try:
        return _call("pidfd_getfd", held, 2, 0)
    finally:
        os.close(held)


@attack
def find_the_canary(_context: Context) -> object:
    found = [name for name, value in os.environ.items() if "canary" in value]
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        found += ["/proc/self/environ"] if b"canary" in file.read() else []
    if not found:
        raise NotOut("nowhere")
    return found


# --- the kernel ----------------------------------------------------------------------------------------------------


@attack
def enter_a_new_user_namespace(_context: Context) -> None:
    _in_a_fork(lambda: kernel.unshare(kernel.NEWUSER))


@attack
def clone_into_a_new_user_namespace(_context: Context) -> None:
    pid = _call("clone", kernel.NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attack
def mount_something(context: Context) -> None:
    def mount() -> None:
        target = context["outside"] if os.path.isdir(context["outside"]) else "/workspace"
        kernel.mount("none", target, "tmpfs", 0)
        _call("umount2", target.encode(), 2)

    _in_a_fork(mount)


@attack
def change_the_root(_context: Context) -> None:
    _in_a_fork(lambda: os.chroot("/"))


@attack
def load_a_bpf_program(_context: Context) -> object:
    return _call("bpf", 0, bytes(128), 128)


@attack
def open_performance_counters(_context: Context) -> object:
    return _call("perf_event_open", bytes(128), 0, -1, -1, 0)


@attack
def read_the_keyring(_context: Context) -> object:
    return _call("keyctl", 0, -3, 1, 0, 0)


@attack
def make_a_file_in_memory(_context: Context) -> None:
    os.close(os.memfd_create("balloon"))


@attack
def make_shared_memory(_context: Context) -> object:
    return _call("shmget", 0, 4096, 0o1600)


@attack
def become_root(_context: Context) -> object:
    if os.geteuid() == 0:
        return "is root"
    _in_a_fork(lambda: os.setuid(0))
    return "became root"


@attack
def regain_a_capability(_context: Context) -> object:
    header, room = struct.pack("=Ii", 0x2008_0522, 0), ctypes.create_string_buffer(24)
    kernel.syscall(125 if kernel.machine() == "x86_64" else 90, header, room)
    if not any(room.raw):
        raise NotOut("none held")
    return room.raw.hex()


# --- resources -----------------------------------------------------------------------------------------------------


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
