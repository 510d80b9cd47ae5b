"""Processes that benchmarks measure, and that end with them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.topology import SERVICES
from netaclaw_store import embedded

ROOT = Path(__file__).parents[1]
WORKSPACE = ROOT / "protos"
"""What the agents see: the same on every machine, whatever is installed or built beside it."""


@asynccontextmanager
async def started(module: str, *arguments: str) -> AsyncIterator[dict[str, str]]:
    """Run `python -m module`; yields what its first line says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, its waited-for children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Bench:
    """A running suite with a quick model, and the floor beside it."""

    gateway: str
    model_url: str
    bare: str
    """First hop of the bare chain."""
    pids: Mapping[str, int]
    """Of the services, by name."""

    @property
    def orchestrator_pid(self) -> int:
        return self.pids["orchestrator"]


@asynccontextmanager
async def suite_and_floor(**environ: str) -> AsyncIterator[Bench]:
    """The suite as four processes and the bare chain as three, on one embedded Postgres."""
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netaclaw-bench-")))
        postgres = await embedded.start(data)
        stack.push_async_callback(postgres.stop)
        url = postgres.url
        model = await stack.enter_async_context(started("bench.model_server"))
        settings = {
            **os.environ,
            "NETACLAW_DATABASE_URL": url,
            "NETACLAW_OPENAI_BASE_URL": model["base_url"],
            "NETACLAW_LOG_LEVEL": "WARNING",
            **environ,
        }
        options = SuiteOptions(data_dir=data, workspaces={"repo": WORKSPACE}, environ=settings)
        suite = await stack.enter_async_context(Suite(options))
        address = url
        for _ in range(3):
            address = (await stack.enter_async_context(started("bench.bare", address)))["address"]
        pids = {service.name: suite.pid(service.name) for service in SERVICES}
        yield Bench(suite.address, model["base_url"], address, pids)
