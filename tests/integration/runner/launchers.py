"""The launchers that tests of whole runs are run with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from netaclaw_runner.launcher import ExecLauncher, Launcher, LaunchError
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.zygote.launcher import ZygoteLauncher

LAUNCHERS = ["exec", "zygote"]


@asynccontextmanager
async def open_launcher(kind: str) -> AsyncIterator[Launcher]:
    """A launcher by name; its workers may write and run commands. Skips the test where it cannot be had."""
    if kind == "exec":
        yield ExecLauncher()
        return
    launcher = ZygoteLauncher(default=LaunchOptions(writable=True, shell=True))
    try:
        await launcher.start()
    except LaunchError as error:
        pytest.skip(f"no zygote on this machine: {error}")
    try:
        yield launcher
    finally:
        await launcher.close()
