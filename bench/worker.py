"""Starting workers, and what they weigh."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, alternate, median_figure
from netaclaw.subagent.v1.envelope_pb2 import HostStart
from netaclaw_runner import protocol
from netaclaw_runner.launcher import WorkerHandle
from netaclaw_runner.zygote.launcher import ZygoteLauncher

COUNT = 40
BURST = 50
BURSTS = 7
ALIVE = 10
BARE = (sys.executable, "-I", "-S", "-c", "pass")
PLAIN = (sys.executable, "-c", "import asyncio, json, sys; print(flush=True); sys.stdin.read()")


async def start() -> Sequence[Figure]:
    """worker.start: from launch, fully confined, to the first line. Floor: a bare interpreter, exec to exit."""
    launcher = ZygoteLauncher()
    await launcher.start()

    async def worker() -> float:
        began = time.perf_counter()
        handle = await _started(launcher)
        took = time.perf_counter() - began
        await _end(handle)
        return took * 1000

    async def bare() -> float:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*BARE)
        await process.wait()
        return (time.perf_counter() - began) * 1000

    values, floors = await alternate(COUNT, worker, bare)
    await launcher.close()
    return [median_figure("worker.start", "ms", values, floors, limit=0.6)]


async def burst() -> Sequence[Figure]:
    """worker.burst50: 50 workers at once, to the last one's first line. Floor: 50 bare interpreters at once."""
    launcher = ZygoteLauncher()
    await launcher.start()

    async def workers() -> float:
        began = time.perf_counter()
        handles = await asyncio.gather(*(_started(launcher) for _ in range(BURST)))
        took = time.perf_counter() - began
        await asyncio.gather(*(_end(handle) for handle in handles))
        return took * 1000

    async def bare() -> float:
        began = time.perf_counter()
        processes = await asyncio.gather(*(asyncio.create_subprocess_exec(*BARE) for _ in range(BURST)))
        await asyncio.gather(*(process.wait() for process in processes))
        return (time.perf_counter() - began) * 1000

    values, floors = await alternate(BURSTS, workers, bare, warm_up=1)
    await launcher.close()
    return [median_figure("worker.burst50", "ms", values, floors, limit=0.5)]


async def memory() -> Sequence[Figure]:
    """worker.pss: of one of ten workers alive. Floor: a plain interpreter that imports asyncio and json."""
    launcher = ZygoteLauncher()
    await launcher.start()

    async def worker() -> float:
        handles = [await _started(launcher) for _ in range(ALIVE)]
        size = sum(_pss_kib(handle.pid) for handle in handles) / ALIVE
        for handle in handles:
            await _end(handle)
        return size

    async def plain() -> float:
        process = await asyncio.create_subprocess_exec(*PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        size = _pss_kib(process.pid)
        process.kill()
        await process.wait()
        return size

    values, floors = await alternate(5, worker, plain, warm_up=1)
    await launcher.close()
    return [median_figure("worker.pss", "KiB", values, floors, limit=0.4)]


async def _started(launcher: ZygoteLauncher) -> WorkerHandle:
    """A worker that has said its first line of the protocol."""
    loop = asyncio.get_running_loop()
    handle = await launcher.launch(None)
    handle.channel.setblocking(False)
    await loop.sock_sendall(handle.channel, protocol.encode("bench", HostStart(protocol_version=1)))
    if not await loop.sock_recv(handle.channel, 65536):
        raise RuntimeError("the worker ended before its first line")
    return handle


async def _end(handle: WorkerHandle) -> None:
    handle.signal_tree(signal.SIGKILL)
    handle.channel.close()
    os.close(handle.stderr_fd)
    await handle.exited()
    await handle.finish()


def _pss_kib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    raise RuntimeError("the kernel tells no PSS")
