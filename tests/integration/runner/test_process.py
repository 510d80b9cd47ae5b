"""The runner as an operator starts it: a process of its own, with its own event loop and the scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_chassis.channel import connect
from tests.integration.runner.rig import Rig, alive, task_envelope
from tests.processes import gone

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED


@asynccontextmanager
async def _process(tmp_path: Path) -> AsyncIterator[tuple[Rig, asyncio.subprocess.Process]]:
    """`python -m netaclaw_runner` on a free port; stopped by SIGTERM."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "notes.txt").write_text("first line\nsecond line\n")
    environ = {
        "PATH": os.environ["PATH"],
        "NETACLAW_RUNNER_PORT": "0",
        "NETACLAW_DATA_DIR": str(tmp_path / "data"),
        "NETACLAW_WORKSPACES": f"docs={docs}",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "netaclaw_runner", env=environ, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    address = ""
    while not address:  # one log line names the ports
        line = json.loads(await process.stderr.readline())
        address = line.get("ports", {}).get("internal", "")
    draining = asyncio.create_task(process.stderr.read())
    async with connect(address) as channel:
        yield Rig(RunnerServiceStub(channel), tmp_path / "data", docs, address), process
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    await draining


async def test_a_task_runs_and_another_is_cancelled(tmp_path: Path) -> None:
    async with _process(tmp_path) as (rig, _):
        done = await rig.run(task_envelope("read notes.txt"))
        asking = await rig.start(task_envelope("write hello to out.txt"))
        await asking.until("proxy_tool_call")
        await asking.tell(cancel=pb.Cancel(reason="enough"))
        cancelled = await asking.finish()

    assert done.ended.state == COMPLETED
    assert "second line" in done.ended.final_output
    assert cancelled.state == CANCELLED


async def test_sigterm_ends_the_runner_and_all_its_workers_in_order(tmp_path: Path) -> None:
    async with _process(tmp_path) as (rig, process):
        run = await rig.start(task_envelope("write hello to out.txt"))
        worker = (await run.until("started")).started.pid
        await run.until("proxy_tool_call")
        process.send_signal(signal.SIGTERM)
        ended = await run.finish()

        assert ended.error == "the runner is stopping"
        assert not alive(worker)
        async with asyncio.timeout(5):
            await process.wait()


async def test_sigkill_of_the_runner_takes_its_workers_along(tmp_path: Path) -> None:
    async with _process(tmp_path) as (rig, process):
        run = await rig.start(task_envelope("write hello to out.txt"))
        worker = (await run.until("started")).started.pid
        await run.until("proxy_tool_call")
        process.kill()
        async with asyncio.timeout(10):
            await gone(worker)
        assert await process.wait() == -signal.SIGKILL
