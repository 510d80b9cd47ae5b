"""What an operator can set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from netaclaw_agent.compaction import THRESHOLD
from netaclaw_agent.models.catalogue import ModelSettings
from netaclaw_chassis import settings
from netaclaw_chassis.link import LinkSettings
from netaclaw_chassis.settings import SettingsError, group, var
from netaclaw_runner.places import PlaceLimits

MAX_PORT = 65535
ATTACH_GRACE_S = 5.0
"""A run without a caller is held for the lease time and so much more."""


def _default_data_dir() -> Path:
    return Path("~/.local/share/netaclaw").expanduser()


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Settings of the runner, read once from the environment."""

    host: str = var("NETACLAW_RUNNER_HOST", "127.0.0.1")
    port: int = var("NETACLAW_RUNNER_PORT", 7403)
    """0: a free one."""
    service_token: str = var("NETACLAW_SERVICE_TOKEN", "")
    """What callers must show; empty: nothing, for loopback alone."""
    link: LinkSettings = group(LinkSettings)
    max_workers: int = var("NETACLAW_RUNNER_MAX_WORKERS", 64)
    """Most runs at once; and, counted apart, most tool hosts."""
    max_waiting: int = var("NETACLAW_RUNNER_MAX_WAITING", 256)
    """Most runs that wait for a place, owners and sessions taking turns; 0: a run beyond a limit is refused."""
    max_per_session: int = var("NETACLAW_RUNNER_MAX_PER_SESSION", 16)
    """Most runs of one session at once."""
    max_per_owner: int = var("NETACLAW_RUNNER_MAX_PER_OWNER", 32)
    """Most runs of one owner at once, over all sessions and all callers."""
    data_dir: Path = field(default_factory=_default_data_dir, metadata={"env": "NETACLAW_DATA_DIR"})
    """Holds the owners' own workspaces."""
    workspaces: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"env": "NETACLAW_WORKSPACES"}
    )
    """name=path of the shared workspaces."""
    lease_seconds: float = var("NETACLAW_LEASE_SECONDS", 10.0)
    """How long a session's owner may be silent before another takes its place."""
    compaction_threshold: float = var("NETACLAW_COMPACTION_THRESHOLD", THRESHOLD)
    """Part of a model's window from which on a child's context is compacted; 0: only after an overflow."""
    models: ModelSettings = field(default_factory=ModelSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= MAX_PORT:
            raise SettingsError(f"NETACLAW_RUNNER_PORT is not a port: 0 to {MAX_PORT}")
        if not 1 <= self.max_workers <= 10_000:
            raise SettingsError("NETACLAW_RUNNER_MAX_WORKERS is not between 1 and 10000")
        for name in ("max_per_session", "max_per_owner"):
            if not 1 <= getattr(self, name) <= 10_000:
                raise SettingsError(f"NETACLAW_RUNNER_{name.upper()} is not between 1 and 10000")
        if not 0 <= self.max_waiting <= 10_000:
            raise SettingsError("NETACLAW_RUNNER_MAX_WAITING is not between 0 and 10000")
        if not 0.1 <= self.lease_seconds <= 3600:
            raise SettingsError("NETACLAW_LEASE_SECONDS is not between 0.1 and 3600")
        if not (self.compaction_threshold == 0 or 0.1 <= self.compaction_threshold <= 1):
            raise SettingsError("NETACLAW_COMPACTION_THRESHOLD is not 0 or between 0.1 and 1")
        for name, path in self.workspaces.items():
            if not Path(path).is_absolute():
                raise SettingsError(f"NETACLAW_WORKSPACES: the path of {name} is not absolute")

    @property
    def place_limits(self) -> PlaceLimits:
        """The limits on runs."""
        return PlaceLimits(self.max_workers, self.max_waiting, self.max_per_session, self.max_per_owner)


def read(environ: Mapping[str, str]) -> RunnerSettings:
    """Read all settings. Raises SettingsError that names the variable, never its value."""
    try:
        models = ModelSettings.from_environ(environ)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return replace(settings.read(RunnerSettings, environ), models=models)
