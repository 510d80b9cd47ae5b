"""Runs the store: `python -m netaclaw_store`."""

from __future__ import annotations

import os
import sys

from netaclaw_chassis import lifecycle, settings
from netaclaw_store.app import open_app
from netaclaw_store.settings import StoreSettings


def main() -> int:
    """Read the settings and serve until SIGINT or SIGTERM; returns the exit code."""
    try:
        configured = settings.read(StoreSettings, os.environ)
    except settings.SettingsError as error:
        sys.stderr.write(f"netaclaw-store: {error}\n")
        return 1
    return lifecycle.run("store", lambda: open_app(configured))


if __name__ == "__main__":
    sys.exit(main())
