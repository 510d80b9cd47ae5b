"""What a worker says of itself."""

from __future__ import annotations

import os

from netaclaw.subagent.v1.envelope_pb2 import RunStart
from netaclaw_runner.protocol import PROTOCOL_VERSION


def run_start() -> RunStart:
    """The first line up."""
    return RunStart(protocol_version=PROTOCOL_VERSION, pid=os.getpid())
