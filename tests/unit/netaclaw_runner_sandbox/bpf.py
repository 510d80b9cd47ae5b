"""An interpreter for the classic BPF that system call filters are made of."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERRNO = 0x00050000

_INSTRUCTION = struct.Struct("=HBBI")
_MOST_STEPS = 4096


def run(program: bytes, *, number: int, architecture: int, arguments: Sequence[int] = ()) -> int:
    """What the filter answers to one call. Raises AssertionError for a program that the kernel would refuse."""
    data = struct.pack("=iIQ6Q", _signed(number), architecture, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    steps = [_INSTRUCTION.unpack_from(program, at) for at in range(0, len(program), _INSTRUCTION.size)]
    assert 0 < len(steps) <= _MOST_STEPS
    at, value = 0, 0
    for _ in range(len(steps)):
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:  # load a word of the call's data
            (value,) = struct.unpack_from("=I", data, k)
        elif code == 0x54:  # and
            value &= k
        elif code == 0x05:  # jump
            at += k
        elif code == 0x06:  # return
            assert isinstance(k, int)
            return k
        else:
            at += yes if _holds(code, value, k) else no
    raise AssertionError("the program does not end")


def is_sound(program: bytes) -> bool:
    """All jumps stay inside and go forward, and the last step returns: what the kernel checks."""
    steps = [_INSTRUCTION.unpack_from(program, at) for at in range(0, len(program), _INSTRUCTION.size)]
    for at, (code, yes, no, k) in enumerate(steps):
        far = k if code == 0x05 else max(yes, no)
        if code != 0x06 and at + 1 + far >= len(steps):
            return False
    return bool(steps[-1][0] == 0x06)


def _holds(code: int, value: int, k: int) -> bool:
    tests = {0x15: value == k, 0x25: value > k, 0x35: value >= k, 0x45: bool(value & k)}
    return tests[code]


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
