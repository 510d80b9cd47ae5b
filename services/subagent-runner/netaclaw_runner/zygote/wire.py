"""What a runner and its zygote say to each other over a stream socket.

Down, per launch: one byte that holds the options, with the descriptors [channel, stderr] or [channel, stderr,
workspace]. Up: records of fixed size. Replies to launches come in the order of the launches, "started" with a pidfd.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from netaclaw_runner.sandbox.options import MODES, LaunchOptions

RECORD = struct.Struct("<4sii")
MOST_DESCRIPTORS = 4

Kind = Literal["redy", "strt", "fail", "exit", "gone"]
"""redy (border), strt (process), fail (errno, of a launch), exit (process, wait status), gone (process)."""

_WRITABLE, _SHELL, _WORKSPACE, _MODE_SHIFT = 1, 2, 4, 3

BORDERS = ("own", "user", "none")
"""Where pid namespaces come from: the zygote's own right, its user namespace, nowhere."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `process` is the zygote's number for a worker, which may not be the runner's."""

    kind: str
    process: int = 0
    value: int = 0

    def pack(self) -> bytes:
        return RECORD.pack(self.kind.encode(), self.process, self.value)

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        kind, process, value = RECORD.unpack(data)
        return cls(kind.decode("ascii", "replace"), process, value)


def pack_options(options: LaunchOptions, *, workspace: bool) -> bytes:
    """A launch's byte."""
    value = MODES.index(options.sandbox) << _MODE_SHIFT
    value |= (_WRITABLE if options.writable else 0) | (_SHELL if options.shell else 0)
    return bytes([value | (_WORKSPACE if workspace else 0)])


def unpack_options(data: bytes) -> tuple[LaunchOptions, bool]:
    """The options, and whether a workspace comes with them. Raises IndexError for a byte that we do not send."""
    value = data[0]
    options = LaunchOptions(MODES[value >> _MODE_SHIFT], bool(value & _WRITABLE), bool(value & _SHELL))
    return options, bool(value & _WORKSPACE)
