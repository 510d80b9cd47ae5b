"""How commands reach the inside of a running suite: a file in its data directory that only its user can read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from netaclaw_cli.errors import CommandError

_PLACE = Path("run-suite") / "access.json"


@dataclass(frozen=True, slots=True)
class Access:
    """Written when the suite serves, removed when it stops."""

    store_internal: str
    """host:port of the store's internal services."""
    service_token: str

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
