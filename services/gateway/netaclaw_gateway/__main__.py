"""Runs the gateway: `python -m netaclaw_gateway`."""

from __future__ import annotations

import os
import sys

from netaclaw_chassis import lifecycle
from netaclaw_chassis.settings import read
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings


def main() -> int:
    """Read settings, serve until SIGINT or SIGTERM; the process's exit code."""
    return lifecycle.run("gateway", lambda: open_app(read(Settings, os.environ)))


if __name__ == "__main__":
    sys.exit(main())
