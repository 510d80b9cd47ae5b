"""The filter's tables for both architectures, run step by step against numbers of calls."""

from __future__ import annotations

import errno
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from netaclaw_runner.sandbox import seccomp
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.sandbox.syscalls import _BOTH, AUDIT, LAST_KNOWN, Architecture, architecture_of, number

ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
OPTIONS = [LaunchOptions(writable=writable, shell=shell) for writable in (False, True) for shell in (False, True)]

FREE: dict[str, tuple[int, int]] = {
    # calls that every worker needs, by number, from the kernel's own tables: (x86_64, aarch64)
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "mmap": (9, 222),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "getpid": (39, 172),
    "exit_group": (231, 94),
    "openat": (257, 56),
    "openat2": (437, 437),
    "getrandom": (318, 278),
    "renameat": (264, 38),
    "unlinkat": (263, 35),
    "prctl": (157, 167),
    "futex": (202, 98),
    "wait4": (61, 260),
    "kill": (62, 129),
    "pipe2": (293, 59),
    "fsync": (74, 82),
    "getdents64": (217, 61),
    "landlock_restrict_self": (446, 446),
    "seccomp": (317, 277),
}


def _bpf() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sandbox_bpf", Path(__file__).with_name("bpf.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bpf = _bpf()
EPERM, ENOSYS = bpf.ERRNO | errno.EPERM, bpf.ERRNO | errno.ENOSYS


@pytest.fixture(params=[(options, architecture) for options in OPTIONS for architecture in ARCHITECTURES], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[LaunchOptions, Architecture, bytes]:
    options, architecture = request.param
    return options, architecture, seccomp.program(options.writable, options.shell, architecture)


Case = tuple[LaunchOptions, Architecture, bytes]


def answer(case: Case, call: int, *arguments: int) -> int:
    _, architecture, program = case
    result: int = bpf.run(program, number=call, architecture=AUDIT[architecture], arguments=arguments)
    return result


def of(case: Case, name: str) -> int:
    found = number(name, case[1])
    assert found is not None
    return found


def test_the_kernel_would_take_the_program(case: Case) -> None:
    assert bpf.is_sound(case[2])


def test_what_is_on_the_list_is_denied_and_all_else_is_allowed(case: Case) -> None:
    options, architecture, _ = case
    denied = {number(name, architecture) for name in seccomp.denied(options)} - {None}
    judged = {number(condition.name, architecture) for condition in seccomp.conditions(options)}
    judged.add(number("clone3", architecture))
    for call in range(LAST_KNOWN + 1):
        if call not in judged:
            assert answer(case, call) == (EPERM if call in denied else bpf.ALLOW), call


def test_calls_that_every_worker_needs_are_allowed(case: Case) -> None:
    column = ARCHITECTURES.index(case[1])
    assert all(answer(case, numbers[column]) == bpf.ALLOW for numbers in FREE.values())


def test_calls_newer_than_the_table_and_those_of_x32_are_unknown(case: Case) -> None:
    for call in (LAST_KNOWN + 1, 1000, 0x40000000, 0x40000000 + 59, 0x7FFFFFFF, 0xFFFFFFFF):
        assert answer(case, call) == ENOSYS


def test_calls_of_another_architecture_kill(case: Case) -> None:
    _, architecture, program = case
    for other in {0x40000003, 0x40000028, *AUDIT.values()} - {AUDIT[architecture]}:  # also i386 and 32-bit ARM
        assert bpf.run(program, number=0, architecture=other) == bpf.KILL


def test_clone3_is_unknown_so_that_flags_can_be_seen(case: Case) -> None:
    assert answer(case, of(case, "clone3")) == ENOSYS


def test_clone_makes_threads_always_processes_with_a_shell_and_namespaces_never(case: Case) -> None:
    clone, thread, fork = of(case, "clone"), 0x003D0F00, 0x01200011
    assert answer(case, clone, thread) == bpf.ALLOW
    assert answer(case, clone, fork) == (bpf.ALLOW if case[0].shell else EPERM)
    for namespace in (0x80, 0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(case, clone, 17 | namespace) == EPERM


def test_socket_pairs_are_streams(case: Case) -> None:
    pair = of(case, "socketpair")
    for kind, verdict in ((1, bpf.ALLOW), (5, bpf.ALLOW), (1 | 0o2000000, bpf.ALLOW), (2, EPERM), (3, EPERM)):
        assert answer(case, pair, 1, kind) == verdict
    assert answer(case, pair, 1, 2 | 0o2000000) == EPERM


def test_terminals_are_not_typed_into_and_flags_not_set_where_nothing_is_written(case: Case) -> None:
    ioctl = of(case, "ioctl")
    assert answer(case, ioctl, 0, 0x5412) == EPERM
    assert answer(case, ioctl, 0, 0x5413) == bpf.ALLOW
    assert answer(case, ioctl, 0, 0x40086602) == (bpf.ALLOW if case[0].writable else EPERM)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_programs_start_only_with_a_shell(architecture: Architecture) -> None:
    for options in OPTIONS:
        assert ("execve" in seccomp.denied(options)) != options.shell
        one = options, architecture, seccomp.program(options.writable, options.shell, architecture)
        assert answer(one, of(one, "execveat")) == (bpf.ALLOW if options.shell else EPERM)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_permissions_change_by_path_only_for_a_writing_shell(architecture: Architecture) -> None:
    for options in OPTIONS:
        one = options, architecture, seccomp.program(options.writable, options.shell, architecture)
        both = options.writable and options.shell
        assert answer(one, of(one, "fchmodat")) == (bpf.ALLOW if both else EPERM)
        assert answer(one, of(one, "fchmod")) == (bpf.ALLOW if options.writable else EPERM)


@pytest.mark.parametrize("column", [0, 1])
def test_no_number_stands_for_two_calls(column: int) -> None:
    numbers = [pair[column] for pair in _BOTH.values() if pair[column] is not None]
    assert len(numbers) == len(set(numbers))


def test_from_424_on_numbers_are_the_same_everywhere() -> None:
    for name, (first, second) in _BOTH.items():
        if (first or 0) >= 424 or (second or 0) >= 424:
            assert first == second, name


def test_other_machines_have_no_filter() -> None:
    assert [architecture_of(name) for name in ("x86_64", "aarch64", "riscv64", "")] == ["x86_64", "aarch64", None, None]
