"""Runs the runner: `python -m netaclaw_runner`."""

from __future__ import annotations

import os
import sys

from netaclaw_chassis import lifecycle
from netaclaw_chassis.settings import SettingsError
from netaclaw_runner import settings
from netaclaw_runner.app import open_app


def main() -> int:
    """Read the settings and serve until SIGINT or SIGTERM; returns the exit code."""
    try:
        configured = settings.read(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"netaclaw-runner: {error}\n")
        return 1
    return lifecycle.run("runner", lambda: open_app(configured))


if __name__ == "__main__":
    sys.exit(main())
