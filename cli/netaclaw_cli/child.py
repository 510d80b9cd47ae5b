"""One service as a child process: started, announced, healthy, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import PLAIN, Link
from netaclaw_cli.topology import Service

_POLL_S = 0.01
_HEALTH_TIMEOUT_S = 10.0
_TAIL_BYTES = 16 * 1024

_LAUNCH = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: kept across exec
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.executable, [sys.executable, "-P", "-m", *sys.argv[2:]])
"""
"""Makes sure that a service ends when the command line is killed. Runs before the service in the same process."""


class ServiceFailed(Exception):
    """A service did not start, or keeps dying; the message is one line for the operator."""


class Child:
    """A running service. Its process leads a group of its own: a Ctrl-C in the terminal reaches it through us only."""

    def __init__(self, service: Service, process: asyncio.subprocess.Process, log: Path | None) -> None:
        self.service = service
        self._process = process
        self._log = log
        self.ports: Mapping[str, str] = {}
        """What it announced: name to host:port."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        return await self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill_group(self) -> None:
        """End it and what it left in its process group, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Why it ended: its own line on stderr where there is one."""
        own = f"netaclaw-{self.service.name}: "
        lines = [] if self._log is None else _tail(self._log)
        said = [line for line in lines if line.startswith(own)]
        if said:
            return said[-1].removeprefix(own)
        plain = [line for line in lines if line and not line.startswith("{")]
        code = self.exit_code
        ended = "did not answer in time" if code is None else f"ended with code {code}"
        return f"{ended}: {plain[-1]}" if plain else ended


async def start(
    service: Service, environment: Mapping[str, str], run_dir: Path, log: Path | None, link: Link = PLAIN
) -> Child:
    """Start a service and wait until it has announced its ports and says that it serves, which is asked over `link`.

    Its stderr goes to the end of `log`, or to ours. Raises ServiceFailed, with nothing left running.
    """
    announcement = run_dir / f"{service.name}.ports"
    announcement.unlink(missing_ok=True)
    child = await _spawn(service, dict(environment, NETACLAW_ANNOUNCE=str(announcement)), log)
    try:
        async with asyncio.timeout(service.start_timeout_s):
            child.ports = await _announced(child, announcement)
            for name, address in child.ports.items():
                if name in service.http:
                    await _open(child, address)
                else:
                    await _healthy(address, PLAIN if name in service.outer else link)
    except BaseException as error:
        child.kill_group()
        await child.wait()
        if isinstance(error, TimeoutError | grpc.aio.AioRpcError | _Ended):
            raise ServiceFailed(f"{service.name}: {child.last_words()}") from error
        raise
    return child


class _Ended(Exception):
    pass


async def _spawn(service: Service, environment: Mapping[str, str], log: Path | None) -> Child:
    stderr: IO[bytes] | None = None
    if log is not None:
        stderr = log.open("ab")
        os.set_inheritable(stderr.fileno(), False)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-c", _LAUNCH, str(os.getpid()), service.module),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
    finally:
        if stderr is not None:
            stderr.close()
    return Child(service, process, log)


async def _announced(child: Child, announcement: Path) -> Mapping[str, str]:
    while (ports := _read_ports(announcement)) is None:
        if child.exit_code is not None:
            raise _Ended
        await asyncio.sleep(_POLL_S)
    return ports


def _read_ports(announcement: Path) -> Mapping[str, str] | None:
    """What was announced, or None; a reader sees the whole file or nothing."""
    try:
        ports: Mapping[str, str] = json.loads(announcement.read_text())
    except FileNotFoundError:
        return None
    return ports


async def _open(child: Child, address: str) -> None:
    """Wait until something listens."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            if child.exit_code is not None:
                raise _Ended from None
            await asyncio.sleep(_POLL_S)
        else:
            writer.close()
            return


async def _healthy(address: str, link: Link) -> None:
    async with connect(address, link=link) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=_HEALTH_TIMEOUT_S)


def _tail(log: Path) -> list[str]:
    """Nothing where somebody has taken the log away."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
