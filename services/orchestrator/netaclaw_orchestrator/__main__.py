"""Reads the settings and runs the orchestrator until a signal."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager

from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_chassis import lifecycle
from netaclaw_chassis.settings import SettingsError, read
from netaclaw_orchestrator.app import open_app
from netaclaw_orchestrator.settings import Settings


def _open() -> AbstractAsyncContextManager[lifecycle.Ports]:
    settings = read(Settings, os.environ)
    try:
        models = ModelSettings.from_environ(os.environ)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return open_app(settings, ModelCatalogue(models))


if __name__ == "__main__":
    sys.exit(lifecycle.run("orchestrator", _open))
