"""The launchers that tests of whole runs are run with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from netaclaw_runner.launcher import ExecLauncher, Launcher, LaunchError, WorkerHandle
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.zygote.launcher import ZygoteLauncher

LAUNCHERS = ["exec", "zygote"]


class GatedLauncher(ExecLauncher):
    """Launches our own worker when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()
        self.broken = False
        self.pids: list[int] = []

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> WorkerHandle:
        self.asked.set()
        await self.opened.wait()
        if self.broken:
            raise LaunchError("no worker today")
        handle = await super().launch(workspace_fd, options=options)
        self.pids.append(handle.pid)
        return handle


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
