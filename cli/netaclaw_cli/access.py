"""How commands reach the inside of a running suite: a file in its data directory that only its user can read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from netaclaw_chassis.link import Link, LinkSettings, load
from netaclaw_chassis.settings import SettingsError
from netaclaw_cli.errors import CommandError

_PLACE = Path("run-suite") / "access.json"


@dataclass(frozen=True, slots=True)
class Access:
    """Written when the suite serves, removed when it stops."""

    store_internal: str
    """host:port of the store's internal services."""
    service_token: str
    link: Mapping[str, str | bool | float] = field(default_factory=dict)
    """How the services are reached: their LinkSettings, with whole paths."""

    @staticmethod
    def of(store_internal: str, service_token: str, link: LinkSettings) -> Access:
        """What reaches the store's internal port, from any directory."""
        made = asdict(link)
        for name in ("certificate", "key", "authority"):
            made[name] = made[name] and os.path.abspath(made[name])
        return Access(store_internal, service_token, made)

    def open_link(self) -> Link:
        """Raises CommandError where the files cannot be used."""
        try:
            return load(LinkSettings(**self.link))  # type: ignore[arg-type]  # as `of` wrote it
        except (SettingsError, TypeError) as error:
            raise CommandError(str(error)) from None

    def write(self, data_dir: Path) -> None:
        path = data_dir / _PLACE
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)

    @staticmethod
    def remove(data_dir: Path) -> None:
        (data_dir / _PLACE).unlink(missing_ok=True)

    @staticmethod
    def read(data_dir: Path) -> Access:
        """Raises CommandError when no suite runs on the data directory."""
        try:
            return Access(**json.loads((data_dir / _PLACE).read_text()))
        except (OSError, ValueError, TypeError):
            raise CommandError(f"no suite is running on {data_dir}: start one with `netaclaw up`") from None
