"""Envoy as a service of the suite: `python -m netaclaw_cli.envoy_service` writes its configuration and becomes it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from netaclaw_chassis.settings import SettingsError, read
from netaclaw_cli import envoy
from netaclaw_cli.envoy import EnvoySettings
from netaclaw_cli.errors import CommandError


def main() -> None:
    """Replace this process by Envoy. What keeps it from that is one line on stderr, and exit code 1."""
    try:
        config, listen = prepare(os.environ)
        command = envoy.arguments(config)
    except (CommandError, SettingsError, OSError) as error:
        sys.stderr.write(f"netaclaw-envoy: {error}\n")
        sys.exit(1)
    announcement = os.environ.get("NETACLAW_ANNOUNCE")
    if announcement:
        partial = Path(announcement).with_suffix(".partial")
        partial.write_text(json.dumps({"public": listen}) + "\n")
        partial.replace(announcement)
    os.execv(command[0], command)  # noqa: S606  # a program of our own package, without a shell


def prepare(environ: Mapping[str, str]) -> tuple[Path, str]:
    """Write the configuration, readable by this user alone; its place, and the host:port that it listens on."""
    settings = read(EnvoySettings, environ)
    port = settings.port or _free_port(settings.host)
    options = settings.options(port)
    config = settings.data_dir / "run-suite" / "envoy.yaml"
    config.unlink(missing_ok=True)
    with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(envoy.configuration(options))
    return config, options.listen


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
