"""Landlock: which files a worker may open, whatever its user id. Rules hold for the thread and all it starts."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress

from netaclaw_runner.sandbox import kernel

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_FIRST_VERSION = (1 << 13) - 1
_REFER = 1 << 13  # version 2
_TRUNCATE = 1 << 14  # version 3
_IOCTL_DEV = 1 << 15  # version 5
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_BIND_AND_CONNECT_TCP = 3  # version 4
_ABSTRACT_UNIX_AND_SIGNALS = 3  # version 6

READ = _READ_FILE | _READ_DIR
EXECUTE = _EXECUTE
EVERYTHING = (_FIRST_VERSION & ~_MAKE_CHAR & ~_MAKE_BLOCK) | _REFER | _TRUNCATE
"""All but making devices."""
DEVICE = _READ_FILE | _WRITE_FILE

SCOPE_VERSION = 6
"""From this version on, signals and abstract sockets cannot reach out of the worker either."""


def version() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    try:
        return kernel.syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(rules: Iterable[tuple[int | str, int]]) -> int:
    """Allow only what the rules say: a descriptor or path, and the access to it and all beneath it.

    TCP, and where the kernel can, signals and abstract sockets out of the worker, are denied altogether. Paths that
    do not exist are left out. Returns the version in force. Raises OSError. Needs no_new_privs.
    """
    have = version()
    if not have:
        raise OSError(errno.EOPNOTSUPP, "no Landlock")
    handled = _handled(have)
    attributes = [handled]
    if have >= 4:
        attributes.append(_BIND_AND_CONNECT_TCP)
    if have >= SCOPE_VERSION:
        attributes.append(_ABSTRACT_UNIX_AND_SIGNALS)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = kernel.syscall(_CREATE_RULESET, packed, len(packed), 0)
    try:
        for place, access in rules:
            _add(ruleset, place, access & handled)
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return have


def _handled(have: int) -> int:
    added = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))
    return _FIRST_VERSION | sum(bit for since, bit in added if have >= since)


def _add(ruleset: int, place: int | str, access: int) -> None:
    if isinstance(place, int):
        _add_open(ruleset, place, access)
        return
    with suppress(FileNotFoundError, PermissionError):
        fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            _add_open(ruleset, fd, access)
        finally:
            os.close(fd)


def _add_open(ruleset: int, fd: int, access: int) -> None:
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        access &= _OF_FILES
    kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
