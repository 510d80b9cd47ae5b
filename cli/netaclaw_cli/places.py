"""Where things are: data directory, address, workspaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from netaclaw_cli.errors import CommandError
from netaclaw_cli.topology import BASE_PORT

DEFAULT_DATA_DIR = "~/.local/share/netaclaw"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def data_dir(given: str | None, environ: Mapping[str, str]) -> Path:
    """The suite's data directory: the option, else NETACLAW_DATA_DIR, else the user's own."""
    return Path(given or environ.get("NETACLAW_DATA_DIR") or DEFAULT_DATA_DIR).expanduser().absolute()


def gateway_address(given: str | None, environ: Mapping[str, str]) -> str:
    """host:port to talk to: the option, else NETACLAW_ADDRESS, else the fixed one. Raises CommandError."""
    address = given or environ.get("NETACLAW_ADDRESS") or f"127.0.0.1:{BASE_PORT}"
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise CommandError(f"{address} is not an address of the form host:port")
    return address


def workspaces(given: Iterable[str], environ: Mapping[str, str]) -> dict[str, Path]:
    """Workspaces by name, from NETACLAW_WORKSPACES and then from NAME=PATH options. Raises CommandError."""
    found: dict[str, Path] = {}
    for item in [*filter(None, environ.get("NETACLAW_WORKSPACES", "").split(",")), *given]:
        name, separator, text = item.partition("=")
        if not separator or not _NAME.fullmatch(name):
            raise CommandError(f"{item} is not a workspace of the form NAME=PATH")
        path = Path(text).expanduser().absolute()
        if not path.is_dir():
            raise CommandError(f"workspace {name}: {path} is not a directory")
        if "," in str(path):
            raise CommandError(f"workspace {name}: a path with a comma cannot be passed on to the services")
        found[name] = path
    return found
