"""What this machine offers, found out by confining one worker that does nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from netaclaw_runner.launcher import ExecLauncher, LaunchError, SandboxReport, import_paths
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings
from netaclaw_runner.sandbox.report import Report, read_line
from netaclaw_runner.zygote.link import start_process
from netaclaw_runner.zygote.wire import pack_options

_SECONDS = 20.0


def probe(options: LaunchOptions | None = None, settings: SandboxSettings | None = None) -> SandboxReport:
    """What a worker without a workspace gets here. Takes about 0.2 s. Raises LaunchError.

    Blocks, and needs no event loop: for doctor. A runner knows by its launcher.
    """
    if sys.platform != "linux":
        return ExecLauncher().sandbox
    whole = {
        "paths": import_paths(),
        "entry": f"{__name__}:do_nothing",
        "settings": (settings or SandboxSettings()).to_json(),
    }
    process, control = start_process(whole)
    try:
        report = _report(control, pack_options(options or LaunchOptions(), workspace=False))
    except (OSError, ValueError) as error:
        raise LaunchError(f"no worker could be confined: {error}") from error
    finally:
        control.close()
        _wait(process)
    return SandboxReport(report.in_force, report.missing)


def do_nothing(_options: Mapping[str, Any]) -> int:
    """The whole task of a probing worker."""
    return 0


def _report(control: socket.socket, request: bytes) -> Report:
    control.settimeout(_SECONDS)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, open(os.devnull, "wb") as null:
            socket.send_fds(control, [request], [theirs.fileno(), null.fileno()])
        ours.settimeout(_SECONDS)
        with ours.makefile("rb") as line:
            return read_line(line.readline())[0]


def _wait(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when its control socket is closed."""
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
