"""Resource limits of a worker's processes."""

from __future__ import annotations

import resource

from netaclaw_runner.sandbox.options import LaunchOptions, ResourceLimits

_SHARED_PROCESSES = 4096


def restrict(limits: ResourceLimits, options: LaunchOptions, *, own_count: bool) -> None:
    """Set hard limits. Raises OSError.

    `own_count`: the worker's processes are counted apart from all others of its user id. Otherwise the limit on them
    is no more than a brake, for it would be shared with whatever else runs under this id.
    """
    space = limits.shell_address_space if options.shell else limits.address_space
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, space),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, limits.processes if own_count else _SHARED_PROCESSES),
    ):
        _lower(kind, value)


def _lower(kind: int, value: int) -> None:
    """Never above the limit in force: an ordinary user may not raise it, and nobody should here."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
