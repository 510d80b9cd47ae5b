"""A runner of its own for benchmarks, as a process: `python -m bench.runner MODEL_URL WORKSPACE [ENTRY]`.

Prints one JSON line with its address. ENTRY ("module:function") is what its workers run instead of the real worker.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from netaclaw_chassis.lifecycle import new_event_loop
from netaclaw_runner.app import open_app
from netaclaw_runner.settings import read
from netaclaw_runner.zygote.launcher import WORKER, ZygoteLauncher

ROOT = Path(__file__).parents[1]


async def main(model_url: str, workspace: str, entry: str = WORKER) -> None:
    launcher = ZygoteLauncher(entry=entry, paths=[str(ROOT)])
    await launcher.start()
    with tempfile.TemporaryDirectory(prefix="netaclaw-bench-") as data:
        settings = read(
            {
                "NETACLAW_RUNNER_PORT": "0",
                "NETACLAW_DATA_DIR": data,
                "NETACLAW_WORKSPACES": f"bench={workspace}",
                "NETACLAW_OPENAI_BASE_URL": model_url,
            }
        )
        async with open_app(settings, launcher=launcher) as ports:
            print(json.dumps({"address": ports["internal"]}), flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
