"""System calls that Python 3.11 does not offer, by way of the C library. Linux only; imports anywhere.

Nothing here knows a policy. Every function raises OSError when the kernel says no.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

NEWNS = 0x0002_0000
NEWIPC = 0x0800_0000
NEWUSER = 0x1000_0000
NEWPID = 0x2000_0000
NEWNET = 0x4000_0000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_IDMAP = 0x10_0000

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 0x1
_OPEN_TREE_CLOEXEC = 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 0x4

# Numbers of calls that the C library may lack. From 424 on they are the same on every architecture.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x2008_0522
_MOST_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def machine() -> str:
    """The architecture as the kernel names it: x86_64, aarch64, …"""
    return os.uname().machine


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Call by number."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "not Linux")
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *values), f"system call {number}")


def prctl(option: int, *values: int) -> None:
    padded = [*values, 0, 0, 0, 0][:4]
    _checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)), f"prctl {option}")


def set_seccomp(program: bytes) -> None:
    """Install a classic BPF program as this thread's filter."""
    text = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    whole = Program(len(program) // 8, ctypes.addressof(text))
    _checked(_libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(whole), 0, 0), "seccomp")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _checked(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount on {target}")


def move_mount(source: str, target: str) -> None:
    mount(source, target, None, MS_MOVE)


def clone_tree(fd: int) -> int:
    """A detached copy of the mounts beneath an open directory of this mount namespace."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return syscall(_OPEN_TREE, fd, b"", flags)


def attach_tree(tree: int, target: str) -> None:
    """Mount a detached tree."""
    syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)


def set_mount_attributes(
    tree: int, attributes: int, *, user_namespace: int | None = None, recursive: bool = True
) -> None:
    """Add attributes to an open mount, and to those beneath it. Those that it has stay."""
    if user_namespace is not None:
        attributes |= MOUNT_ATTR_IDMAP
    wish = struct.pack("=4Q", attributes, 0, 0, user_namespace or 0)
    syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0), wish, len(wish))


def drop_capabilities() -> None:
    """Give up every capability, and the possibility of regaining one by starting a program."""
    for number in range(_MOST_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError as error:
            # EINVAL: past the last one that this kernel knows. EPERM: no capability to drop them with; then there is
            # none to inherit either, and no_new_privs keeps a program from getting one.
            if error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            break
    number = _CAPSET.get(machine(), -1)
    syscall(number, struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), struct.pack("=6I", *[0] * 6))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)
