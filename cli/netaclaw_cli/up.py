"""`netaclaw up`: the suite in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

from netaclaw_cli import places
from netaclaw_cli.suite import Suite, SuiteOptions


async def run(arguments: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM (0), or until a service cannot be kept running (1)."""
    options = SuiteOptions(
        data_dir=places.data_dir(arguments.data_dir, os.environ),
        workspaces=places.workspaces(arguments.workspace, os.environ),
        base_port=arguments.port,
        logs_to_files=arguments.quiet,
    )
    suite = Suite(options, report=_report)
    stop = _signals(suite)
    entering = asyncio.ensure_future(suite.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([entering, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        await asyncio.wait([entering])
        return 0
    entering.result()
    try:
        web = f"http://{suite.web_address}"
        where = f"{suite.address} and, for browsers, on {web} (data in {options.data_dir})"
        print(f"netaclaw serves on {where}; Ctrl-C stops it", flush=True)
        ends: list[asyncio.Future[Any]] = [stopping, suite.failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await suite.stop()
    if suite.failed.done():
        _report(f"stopped: {suite.failed.result()}")
        return 1
    return 0


def _signals(suite: Suite) -> asyncio.Event:
    """The first signal asks to stop; a second one kills."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            suite.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _report(line: str) -> None:
    sys.stderr.write(f"netaclaw: {line}\n")
