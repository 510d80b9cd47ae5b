"""The system call filter: what no worker may ask of the kernel, as classic BPF made by hand.

A list of denials, not of permissions: workers may run any program of the machine where policy allows a shell. Calls
newer than our table are answered like an older kernel would.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.sandbox.syscalls import AUDIT, LAST_KNOWN, Architecture, architecture_of, number

_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_BITS, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_JUMP_ALWAYS = 0x05
_GROUP = 12
_ALLOW, _ERRNO, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16

_CLONE_THREAD = 0x0001_0000
_CLONE_NAMESPACES = 0x7E02_0080
_STREAM, _SEQPACKET, _TYPE_MASK = 1, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FLAGS, _SET_FLAGS_32, _SET_XATTR, _SET_VERSION = 0x40086602, 0x40046602, 0x401C5820, 0x40087602

_ALWAYS = (
    # another process's memory, descriptors and registers
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp"),
    *("perf_event_open", "move_pages", "migrate_pages", "userfaultfd"),
    # network, and sockets of other programs: no socket is made, and none that exists is pointed elsewhere
    *("socket", "connect", "bind", "listen", "accept", "accept4"),
    # ways around this filter, or around the accounting of memory
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "memfd_create", "memfd_secret"),
    *("shmget", "shmat", "msgget", "semget", "mq_open", "mbind", "set_mempolicy"),
    # namespaces, mounts and roots
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("open_tree", "open_tree_attr", "move_mount", "mount_setattr", "statmount", "listmount"),
    *("name_to_handle_at", "open_by_handle_at"),
    # what goes on in files that may not be read
    *("inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark", "lookup_dcookie"),
    # the kernel and the machine
    *("bpf", "add_key", "request_key", "keyctl", "init_module", "finit_module", "delete_module", "kexec_load"),
    *("kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "personality"),
    *("uselib", "iopl", "ioperm", "vhangup", "sethostname", "setdomainname", "settimeofday", "clock_settime"),
    *("clock_adjtime", "adjtimex"),
)
_PROGRAMS = ("execve", "execveat", "fork", "vfork")
_METADATA_BY_PATH = (
    *("chmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat", "futimesat"),
    *("setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat"),
)
_OWNERS = ("chown", "fchown", "lchown", "fchownat")
_METADATA_BY_DESCRIPTOR = ("fchmod", "fsetxattr", "fremovexattr")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Allow a call only when an argument, masked, is one of these values."""

    name: str
    argument: int
    mask: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """Deny a call when an argument is one of these values."""

    name: str
    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bits:
    """Deny a call when an argument has any of these bits, or, with `needed`, when it has none."""

    name: str
    argument: int
    mask: int
    needed: bool = False


Condition = OneOf | NoneOf | Bits


def denied(options: LaunchOptions) -> tuple[str, ...]:
    """The calls that are denied whatever their arguments."""
    names = list(_ALWAYS)
    if not options.shell:
        names += _PROGRAMS
    if not options.writable:
        names += _METADATA_BY_DESCRIPTOR
    if not (options.writable and options.shell):
        # Paths would reach beyond the workspace. Our own tools use descriptors; programs need the paths.
        names += [*_METADATA_BY_PATH, *_OWNERS]
    return tuple(names)


def conditions(options: LaunchOptions) -> tuple[Condition, ...]:
    """The calls that are judged by an argument."""
    # A datagram socket of a pair can be pointed at any socket's path; streams cannot.
    pair = OneOf("socketpair", 1, _TYPE_MASK, (_STREAM, _SEQPACKET))
    clone = Bits("clone", 0, _CLONE_NAMESPACES) if options.shell else Bits("clone", 0, _CLONE_THREAD, needed=True)
    flags = () if options.writable else (_SET_FLAGS, _SET_FLAGS_32, _SET_XATTR, _SET_VERSION)
    return (pair, clone, NoneOf("ioctl", 1, (_TIOCSTI, _TIOCLINUX, *flags)))


@cache
def program(writable: bool, shell: bool, architecture: Architecture) -> bytes:
    """The filter for one architecture. Calls of any other architecture kill the process."""
    options = LaunchOptions(writable=writable, shell=shell)
    code = [
        _step(_LOAD, _OFFSET_ARCHITECTURE),
        _step(_JUMP_EQUAL, AUDIT[architecture], yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _OFFSET_NUMBER),
        # Also every call of the x32 ABI, whose numbers begin at 0x40000000.
        _step(_JUMP_GREATER, LAST_KNOWN, no=1),
        _refuse(errno.ENOSYS),
        # Its flags lie in memory; the C library falls back to clone.
        *_deny(["clone3"], errno.ENOSYS, architecture),
    ]
    for condition in conditions(options):
        code += _judge(condition, architecture)
    return b"".join([*code, *_deny(denied(options), errno.EPERM, architecture), _step(_RETURN, _ALLOW)])


def restrict(options: LaunchOptions) -> None:
    """Filter this thread and all it starts. Raises OSError. Needs no_new_privs."""
    architecture = architecture_of(kernel.machine())
    if architecture is None:
        raise OSError(errno.EOPNOTSUPP, "no filter for this architecture")
    kernel.set_seccomp(program(options.writable, options.shell, architecture))


def prepare() -> None:
    """Make the filters once, in the process that forks the workers."""
    architecture = architecture_of(kernel.machine())
    if architecture is not None:
        for writable in (False, True):
            for shell in (False, True):
                program(writable, shell, architecture)


def deny_only(names: Iterable[str], architecture: Architecture) -> bytes:
    """A filter that denies these calls and allows all others."""
    start = [_step(_LOAD, _OFFSET_NUMBER), *_deny(names, errno.EPERM, architecture)]
    return b"".join([*start, _step(_RETURN, _ALLOW)])


def _deny(names: Iterable[str], error: int, architecture: Architecture) -> list[bytes]:
    """Deny calls. Of the others some are allowed at once, some go on behind: nothing that judges may follow.

    In groups by number, so that a call passes a dozen steps and not all: the kernel walks a new filter once for every
    number there is, which took longer than all other layers.
    """
    numbers = sorted(found for name in names if (found := number(name, architecture)) is not None)
    groups = [numbers[start : start + _GROUP] for start in range(0, len(numbers), _GROUP)]
    code: list[bytes] = []
    for count, group in enumerate(groups, start=1):
        tests = [_step(_JUMP_EQUAL, each, yes=len(group) - place) for place, each in enumerate(group)]
        last = count == len(groups)
        body = [*tests, _step(_JUMP_ALWAYS, 1) if last else _step(_RETURN, _ALLOW), _refuse(error)]
        code += [_step(_JUMP_GREATER, group[-1], yes=len(body)), *body]
    return code


def _judge(condition: Condition, architecture: Architecture) -> list[bytes]:
    """A block that returns for its own call and is jumped over for all others."""
    call = number(condition.name, architecture)
    assert call is not None, "the calls with conditions exist everywhere"
    body = [_step(_LOAD, _OFFSET_ARGUMENTS + 8 * condition.argument), *_verdict(condition)]
    return [_step(_JUMP_EQUAL, call, no=len(body)), *body]


def _verdict(condition: Condition) -> Sequence[bytes]:
    allow, refuse = _step(_RETURN, _ALLOW), _refuse(errno.EPERM)
    if isinstance(condition, Bits):
        test = _step(_JUMP_BITS, condition.mask, no=1)
        return [test, allow, refuse] if condition.needed else [test, refuse, allow]
    found, otherwise = (allow, refuse) if isinstance(condition, OneOf) else (refuse, allow)
    mask = [_step(_AND, condition.mask)] if isinstance(condition, OneOf) else []
    tests = [step for value in condition.values for step in (_step(_JUMP_EQUAL, value, no=1), found)]
    return [*mask, *tests, otherwise]


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
