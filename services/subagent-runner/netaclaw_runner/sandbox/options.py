"""What a launch asks of the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

SandboxMode = Literal["required", "best_effort", "off"]
"""required: refuse when a layer is missing. best_effort: run and report. off: the process border only."""

MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """One worker's sandbox."""

    sandbox: SandboxMode = "best_effort"
    writable: bool = False
    """The worker may write beneath its workspace."""
    shell: bool = False
    """The worker may start processes: programs of the machine and of the workspace."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of each process of a worker, and of their number. Processor time is the runner's clocks' business."""

    address_space: int = 1024 * _MIB
    """Bytes that one process may map."""
    shell_address_space: int = 4096 * _MIB
    """The same where programs may be started: some reserve far more than they use."""
    file_size: int = 256 * _MIB
    """Bytes; longest file that may be written."""
    open_files: int = 256
    processes: int = 64
    """Processes and threads of one worker, itself included."""
    scratch: int = 64 * _MIB
    """Bytes of the private /tmp of a worker that may start programs; memory, gone with the worker."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the operator may set for all workers of a runner."""

    worker_uid: int = 65534
    """User and group id of workers when the runner is root."""
    limits: ResourceLimits = ResourceLimits()

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> SandboxSettings:
        limits, uid = value["limits"], value["worker_uid"]
        assert isinstance(limits, dict)
        assert isinstance(uid, int)
        return cls(uid, ResourceLimits(**limits))
