"""A worker that heeds neither the cooperative line nor SIGTERM, nor do its children, in sessions of their own.

The entry of a zygote's workers; see bench/cancel.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from netaclaw_runner.worker.channel import WorkerChannel
from netaclaw_runner.worker.standing import run_start

CHILDREN = 3


def main(options: Mapping[str, Any]) -> int:
    """Say run_start and never end. Options as the real worker's."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel = WorkerChannel(options["channel"])
    channel.receive()
    for _ in range(CHILDREN):
        if os.fork() == 0:
            os.setsid()
            while True:
                signal.pause()
    channel.send(run_start())
    while True:
        channel.receive()
