"""Other processes: by network and sockets, by their memory, by signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from typing import Any

from tests.sandbox.attack import Context, NotOut, attack, by_name, in_a_fork, read


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
    return by_name("io_uring_setup", 4, bytes(256))


@attack
def read_the_environment_of_the_parent(context: Context) -> object:
    return read(f"/proc/{context['parent']}/environ")


@attack
def open_the_memory_of_the_parent(context: Context) -> None:
    os.close(os.open(f"/proc/{context['parent']}/mem", os.O_RDONLY))


@attack
def read_the_memory_of_the_parent(context: Context) -> object:
    room = ctypes.create_string_buffer(8)
    local = struct.pack("=QQ", ctypes.addressof(room), 8)
    remote = struct.pack("=QQ", context["address"], 8)
    return by_name("process_vm_readv", context["parent"], local, 1, remote, 1, 0)


@attack
def trace_the_parent(context: Context) -> None:
    in_a_fork(lambda: by_name("ptrace", 0x4206, context["parent"], 0, 0))


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
        return by_name("pidfd_getfd", held, 2, 0)
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
