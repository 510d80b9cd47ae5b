"""What an operator can set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from netaclaw_chassis.link import LinkSettings
from netaclaw_chassis.settings import SettingsError, group, var

MAX_PORT = 65535
DEFAULT_WORKSPACE = "default"
"""Names the owner's own directory."""


def _default_data_dir() -> Path:
    return Path("~/.local/share/netaclaw").expanduser()


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of the store, read once from the environment."""

    data_dir: Path = field(default_factory=_default_data_dir, metadata={"env": "NETACLAW_DATA_DIR"})
    """Where the embedded server keeps its data."""
    database_url: str = var("NETACLAW_DATABASE_URL", "")
    """postgresql://… of any Postgres 15+; empty: the embedded one."""
    host: str = var("NETACLAW_STORE_HOST", "127.0.0.1")
    port: int = var("NETACLAW_STORE_PORT", 7401)
    """Port of the public services; 0: a free one."""
    internal_port: int = var("NETACLAW_STORE_INTERNAL_PORT", 7402)
    """Port of the journal and the keys; 0: a free one."""
    service_token: str = var("NETACLAW_SERVICE_TOKEN", "")
    """What callers must show; empty: nothing, for loopback alone."""
    link: LinkSettings = group(LinkSettings)
    workspaces: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"env": "NETACLAW_WORKSPACES"}
    )
    """name=path of the shared workspaces; the store needs the names only."""
    lease_seconds: float = var("NETACLAW_LEASE_SECONDS", 10.0)
    """How long an instance lives after its last heartbeat."""
    embedded_fsync: bool = var("NETACLAW_EMBEDDED_FSYNC", True)
    """False makes the embedded server forget what a power cut interrupts: for throw-away data only."""
    notice_poll_seconds: float = var("NETACLAW_NOTICE_POLL_SECONDS", 15.0)
    """How long a notice can be late when the database's own notification was lost."""
    event_retention_days: float = var("NETACLAW_EVENT_RETENTION_DAYS", 30.0)
    """How long durable events can be followed again; 0: for ever. Entries and snapshots are not touched by it."""
    event_retention_count: int = var("NETACLAW_EVENT_RETENTION_COUNT", 1_000_000)
    """How many of its newest events each session keeps; 0: all."""
    event_retention_interval_seconds: float = var("NETACLAW_EVENT_RETENTION_INTERVAL_SECONDS", 3600.0)
    """How often old events are looked for."""

    def __post_init__(self) -> None:
        for name, port in (("NETACLAW_STORE_PORT", self.port), ("NETACLAW_STORE_INTERNAL_PORT", self.internal_port)):
            if not 0 <= port <= MAX_PORT:
                raise SettingsError(f"{name} is not a port: 0 to {MAX_PORT}")
        if not 0.1 <= self.lease_seconds <= 3600:
            raise SettingsError("NETACLAW_LEASE_SECONDS is not between 0.1 and 3600")
        if not 0.1 <= self.notice_poll_seconds <= 600:
            raise SettingsError("NETACLAW_NOTICE_POLL_SECONDS is not between 0.1 and 600")
        if not 0 <= self.event_retention_days <= 36_500:
            raise SettingsError("NETACLAW_EVENT_RETENTION_DAYS is not between 0 and 36500")
        if self.event_retention_count < 0:
            raise SettingsError("NETACLAW_EVENT_RETENTION_COUNT is negative")
        if not 1 <= self.event_retention_interval_seconds <= 86_400:
            raise SettingsError("NETACLAW_EVENT_RETENTION_INTERVAL_SECONDS is not between 1 and 86400")
        if self.database_url and not self.database_url.startswith(("postgres://", "postgresql://")):
            raise SettingsError("NETACLAW_DATABASE_URL does not begin with postgresql://")
