"""Reads the settings and runs the orchestrator until a signal."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager

from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_chassis import lifecycle
from netaclaw_chassis.settings import read
from netaclaw_orchestrator.app import open_app
from netaclaw_orchestrator.settings import Settings


def _open() -> AbstractAsyncContextManager[lifecycle.Ports]:
    return open_app(read(Settings, os.environ), ModelCatalogue(ModelSettings.from_environ(os.environ)))


if __name__ == "__main__":
    sys.exit(lifecycle.run("orchestrator", _open))
