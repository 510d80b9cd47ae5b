"""Opening paths that cannot leave a directory: openat2 where the kernel has it, a walk without links elsewhere."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Sequence

_OPENAT2 = 437
"""Its number on x86_64 and aarch64, as on every architecture since Linux 5.6."""
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_TRIES = 16
"""openat2 answers EAGAIN when a rename raced with its resolution."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _load_syscall() -> ctypes._NamedFuncPointer | None:
    if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(_OpenHow),
        ctypes.c_size_t,
    )
    return syscall


_syscall = _load_syscall()


def has_openat2(root_fd: int) -> bool:
    """True when the kernel offers openat2 here; old kernels and system call filters answer ENOSYS or EPERM."""
    if _syscall is None:
        return False
    try:
        os.close(open_by_kernel(root_fd, ["."], os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    return True


def open_by_kernel(root_fd: int, names: Sequence[str], flags: int, *, links: bool = True) -> int:
    """Open `names` joined beneath the root and return the descriptor, close-on-exec.

    Links are followed as long as they stay beneath the root, or not at all without `links`; magic links never. Raises
    OSError: EXDEV for a path that leads out, ELOOP for a refused link.
    """
    assert _syscall is not None, "has_openat2 decides"
    path = os.fsencode("/".join(names))
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=0, resolve=resolve)
    for _ in range(_TRIES):
        fd: int = _syscall(_OPENAT2, root_fd, path, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EXDEV, "the path kept changing while it was opened")


def open_by_walk(root_fd: int, names: Sequence[str], flags: int) -> int:
    """The same without openat2: component by component, following no link at all.

    Raises OSError: ELOOP or ENOTDIR where a link stands in the path. `names` must hold no "..".
    """
    assert ".." not in names, "the workspace refuses it before"
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root_fd)
    try:
        for name in names[:-1]:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        return os.open(names[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)
