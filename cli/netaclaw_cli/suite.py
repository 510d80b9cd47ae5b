"""The whole suite as child processes: started in order, watched over, stopped in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from netaclaw_chassis.ids import new_id
from netaclaw_chassis.link import PLAIN, LinkSettings, load
from netaclaw_chassis.settings import SettingsError, read
from netaclaw_cli import child as children
from netaclaw_cli import local_server
from netaclaw_cli.access import Access
from netaclaw_cli.child import Child, ServiceFailed
from netaclaw_cli.local_model import LocalModel
from netaclaw_cli.logs import keep_bounded
from netaclaw_cli.topology import ENVOY, GATEWAY, SERVICES, STORE, Service, environment, wanted_ports

STOP_S = 3.4
"""All services together; what is left then is killed, and with Postgres to end, too, everything is gone in 5 s."""
_SLOTS_S = {"envoy": 0.3, "gateway": 0.7, "orchestrator": 1.2, "runner": 0.6}
"""How long a service may stop before the next one is asked to, too; the store has the rest."""
_POSTMASTER_TIMEOUT_S = 5.0

LOCAL_MODEL_URL = "NETACLAW_LOCAL_MODEL_URL"
MAX_DEATHS = 5
DEATHS_WITHIN_S = 60.0
_FIRST_PAUSE_S = 0.2
_LOG_CHECK_S = 15.0

_STOP_POSTMASTER = """
import pathlib, sys
from netaclaw_store.embedded import stop_postmaster
stop_postmaster(pathlib.Path(sys.argv[1]))
"""
"""Run by a process of its own: the command line imports no service."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """How to run the suite."""

    data_dir: Path
    workspaces: Mapping[str, Path] = field(default_factory=dict)
    base_port: int = 0
    """Port of the gateway, followed by those of the others; 0: any free ones."""
    logs_to_files: bool = True
    """To <data_dir>/logs/<service>.log; otherwise to stderr."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    metrics_port: int = 0
    """Port at which the first service answers Prometheus, followed by those of the others; 0: none does."""
    throw_away: bool = False
    """The data need not survive a power cut."""


class Suite:
    """An async context: the suite runs inside it, and nothing of it is left after it.

    Entering raises ServiceFailed. A service that dies is started again on the same ports; after MAX_DEATHS deaths
    within DEATHS_WITHIN_S `failed` says why, and the caller is to leave.
    """

    def __init__(
        self,
        options: SuiteOptions,
        report: Callable[[str], None] = lambda line: None,
        services: Sequence[Service] = SERVICES,
    ) -> None:
        self._options = options
        self._report = report
        self._services = services
        self._run_dir = options.data_dir / "run-suite"
        self._addresses: dict[tuple[str, str], str] = {}
        self._ports: dict[str, dict[str, int]] = {}
        self._children: dict[str, Child] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: int | None = None
        self._store_failed = False
        self._local: LocalModel | None = None
        self._service_token = options.environ.get("NETACLAW_SERVICE_TOKEN") or secrets.token_urlsafe(32)
        self._orchestrator_id = options.environ.get("NETACLAW_ORCHESTRATOR_ID") or new_id()
        self._link_settings, self._link = LinkSettings(), PLAIN
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def address(self) -> str:
        """host:port of the gateway."""
        return self._addresses[GATEWAY, "public"]

    @property
    def local_model_pid(self) -> int | None:
        """Process id of the local model; None while it does not run."""
        return self._local.pid if self._local is not None else None

    @property
    def web_address(self) -> str:
        """host:port of the gateway's gRPC-Web."""
        return self._addresses[GATEWAY, "web"]

    @property
    def envoy_address(self) -> str:
        """host:port of Envoy, where the suite has one."""
        return self._addresses[ENVOY, "public"]

    def pid(self, service: str) -> int:
        """Process id of a service."""
        return self._children[service].pid

    def ports(self, service: str) -> Mapping[str, str]:
        """What a service announced."""
        return self._children[service].ports

    async def __aenter__(self) -> Self:
        try:
            self._prepare()
            await self._offer_local_model()
            for service in self._services:
                self._ports[service.name] = wanted_ports(service, self._options.base_port)
                await self._start(service)
            self._tasks = [asyncio.create_task(self._keep(service)) for service in self._services]
            self._tasks.append(asyncio.create_task(self._watch_logs()))
            if (STORE, "internal") in self._addresses:
                internal = self._addresses[STORE, "internal"]
                Access.of(internal, self._service_token, self._link_settings).write(self._options.data_dir)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop everything in reverse order; answers when nothing is left. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        deadline = time.monotonic() + STOP_S
        running = [child for child in reversed(self._children.values()) if child.exit_code is None]
        for child in running:
            child.terminate()
            slot = min(_SLOTS_S.get(child.service.name, STOP_S), deadline - time.monotonic())
            await _gone([child], slot)
        await _gone(running, deadline - time.monotonic())
        await self._cut([child for child in running if child.exit_code is None])
        if self._local is not None:
            await self._local.__aexit__(None, None, None)
            self._local = None
        if self._lock is not None:
            Access.remove(self._options.data_dir)
            os.close(self._lock)
            self._lock = None

    def kill(self) -> None:
        """End every service at once; `stop` is still to be called."""
        for child in self._children.values():
            child.kill_group()

    async def _cut(self, left: list[Child]) -> None:
        for child in left:
            self._report(f"{child.service.name} does not stop and is killed")
            child.kill_group()
            await child.wait()
        store = self._children.get(STORE)
        if self._store_failed or (store is not None and store.exit_code):  # it may have left its Postgres
            await self._stop_postmaster()
            self._store_failed = False

    async def _stop_postmaster(self) -> None:
        if self._options.environ.get("NETACLAW_DATABASE_URL"):
            return
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _STOP_POSTMASTER, str(self._options.data_dir)),
            env=self._options.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            await asyncio.wait_for(process.wait(), _POSTMASTER_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            self._report(f"the embedded Postgres in {self._options.data_dir} may still be running")

    def _prepare(self) -> None:
        data_dir = self._options.data_dir
        try:
            self._link_settings = read(LinkSettings, self._options.environ)
            self._link = load(self._link_settings)
        except SettingsError as error:
            raise ServiceFailed(str(error)) from None
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._run_dir.mkdir(mode=0o700, exist_ok=True)
            if self._options.logs_to_files:
                (data_dir / "logs").mkdir(mode=0o700, exist_ok=True)
            self._lock = _locked(self._run_dir / "lock")
        except BlockingIOError:
            raise ServiceFailed(f"the data directory {data_dir} is in use by another suite") from None
        except OSError as error:
            raise ServiceFailed(f"the data directory {data_dir} is not writable: {error.strerror}") from None

    async def _offer_local_model(self) -> None:
        """Where it is installed it has an address; its process starts with the first call."""
        if not self._options.environ.get(LOCAL_MODEL_URL) and not local_server.missing(self._options.environ):
            self._local = await LocalModel(self._options.environ).__aenter__()

    async def _start(self, service: Service) -> None:
        own = {
            "NETACLAW_DATA_DIR": str(self._options.data_dir),
            "NETACLAW_SERVICE_TOKEN": self._service_token,
            "NETACLAW_ORCHESTRATOR_ID": self._orchestrator_id,  # one that is started again ends the last one's leases
            "NETACLAW_WORKSPACES": ",".join(f"{name}={path}" for name, path in self._options.workspaces.items()),
        }
        if self._local is not None:
            own[LOCAL_MODEL_URL] = self._local.url
        if self._options.metrics_port:
            place = [each.name for each in self._services].index(service.name)
            own["NETACLAW_METRICS_PORT"] = str(self._options.metrics_port + place)
        if self._options.throw_away:
            own["NETACLAW_EMBEDDED_FSYNC"] = "0"
        made = environment(service, self._options.environ, own, self._ports[service.name], self._addresses)
        self._store_failed |= service.name == STORE  # until it serves
        child = await children.start(service, made, self._run_dir, self._log_of(service), self._link)
        self._store_failed &= service.name != STORE
        self._children[service.name] = child
        for name in service.ports:
            address = child.ports[name]
            self._addresses[service.name, name] = address
            self._ports[service.name][name] = int(address.rpartition(":")[2])

    def _log_of(self, service: Service) -> Path | None:
        return self._options.data_dir / "logs" / f"{service.name}.log" if self._options.logs_to_files else None

    async def _keep(self, service: Service) -> None:
        """Start a service again each time that it dies, until it dies too often."""
        deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        reason = await self._death_of(service)
        while True:
            deaths.append(time.monotonic())
            if len(deaths) == MAX_DEATHS and deaths[-1] - deaths[0] < DEATHS_WITHIN_S:
                if not self.failed.done():
                    self.failed.set_result(reason)
                return
            self._report(f"{reason}; starting it again")
            await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (len(deaths) - 1))
            try:
                await self._start(service)
            except ServiceFailed as error:
                reason = str(error)
            except OSError as error:  # no process, no log file: as little as one that died at once
                reason = f"{service.name}: cannot be started: {error.strerror}"
            else:
                reason = await self._death_of(service)

    async def _death_of(self, service: Service) -> str:
        child = self._children[service.name]
        await child.wait()
        child.kill_group()
        return f"{service.name}: {child.last_words()}"

    async def _watch_logs(self) -> None:
        while self._options.logs_to_files:
            for service in self._services:
                log = self._log_of(service)
                if log is not None:
                    await asyncio.to_thread(keep_bounded, log)
            await asyncio.sleep(_LOG_CHECK_S)


def _locked(path: Path) -> int:
    """A descriptor that holds the file's lock. Raises BlockingIOError where somebody else has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


async def _gone(group: list[Child], within_s: float) -> None:
    """Wait for the end of all of them, but not longer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, within_s)):
            await asyncio.gather(*(child.wait() for child in group))
