"""Starting a worker."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence

from bench.figures import Figure, alternate, median_figure
from netaclaw_runner.launcher import ExecLauncher

COUNT = 40


async def start() -> Sequence[Figure]:
    """worker.start: from launch to the worker's first line. Floor: a bare interpreter from exec to exit."""
    launcher = ExecLauncher()

    async def worker() -> float:
        began = time.perf_counter()
        handle = await launcher.launch(None)
        handle.channel.setblocking(False)
        await asyncio.get_running_loop().sock_recv(handle.channel, 65536)
        took = time.perf_counter() - began
        handle.channel.close()
        os.close(handle.stderr_fd)
        await handle.exited()
        await handle.finish()
        return took * 1000

    async def bare() -> float:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "pass")
        await process.wait()
        return (time.perf_counter() - began) * 1000

    values, floors = await alternate(COUNT, worker, bare)
    return [median_figure("worker.start", "ms", values, floors)]
