"""Two orchestrators, each on a store of its own, over one database and one runner."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from netaclaw.store.v1.journal_service_pb2 import GetOwnerRequest
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_chassis.calls import OWNER_KEY
from netaclaw_chassis.channel import connect
from netaclaw_chassis.settings import read
from netaclaw_cli import child
from netaclaw_cli.topology import ORCHESTRATOR, SERVICES
from netaclaw_client.client import Client
from netaclaw_gateway import app as gateway
from netaclaw_gateway.settings import Settings as GatewaySettings
from netaclaw_orchestrator import app as orchestrator
from netaclaw_orchestrator.settings import Settings as OrchestratorSettings
from netaclaw_runner import app as runner
from netaclaw_runner import settings as runner_settings
from netaclaw_store import app as store
from netaclaw_store.settings import StoreSettings
from tests.faults.proxy import Proxy
from tests.scenarios.suites import GATEWAY_PORTS, OWNER, SERVICE_TOKEN, WORKSPACE, RunningSuite


class Side:
    """One store, one orchestrator and one gateway of the pair."""

    def __init__(self, name: str, settings: Mapping[str, str], suite: RunningSuite, to_store: Proxy) -> None:
        self.name = name
        self.suite = suite
        self.to_store = to_store
        """The orchestrator's way to its store's journal."""
        self._settings = settings
        self._running = AsyncExitStack()
        self._child: child.Child | None = None

    @property
    def orchestrator(self) -> str:
        """Where this side's orchestrator is reached."""
        return self._settings["NETACLAW_ORCHESTRATOR_ADDRESS"]

    @property
    def runner(self) -> str:
        """Where the pair's runner is reached."""
        return self._settings["NETACLAW_RUNNER_ADDRESS"]

    def client(self) -> Client:
        """A client of this side's gateway."""
        return self.suite.client()

    async def open(self) -> str:
        """Start the orchestrator in this process; its address."""
        models = ModelCatalogue(ModelSettings.from_environ(self._settings))
        app = orchestrator.open_app(read(OrchestratorSettings, self._settings), models)
        return (await self._running.enter_async_context(app))["public"]

    async def close(self) -> None:
        """Stop the orchestrator in good order."""
        await self._running.aclose()
        if self._child is not None:
            self._child.kill_group()
            await self._child.wait()

    async def spawn(self, run_dir: Path) -> str:
        """Start the orchestrator as a process; its address."""
        service = next(each for each in SERVICES if each.name == ORCHESTRATOR)
        self._child = await child.start(service, self._settings, run_dir, run_dir / "log")
        return self._child.ports["public"]

    async def kill(self) -> None:
        """End the orchestrator's process at once."""
        assert self._child is not None
        self._child.kill_group()
        await self._child.wait()

    async def owner_of(self, session_id: str) -> str:
        """Which instance has a live lease on the session; empty when none has."""
        async with connect(self.suite.store_internal, SERVICE_TOKEN) as channel:
            request = GetOwnerRequest(owner_id=OWNER, session_id=session_id)
            found = await JournalServiceStub(channel).GetOwner(request, metadata=((OWNER_KEY, OWNER),))
        return str(found.instance_id)


@dataclass(frozen=True)
class Pair:
    """Both sides."""

    one: Side
    two: Side


class OpenPair(Protocol):
    """Opens a pair on a database of its own; keywords are further settings."""

    def __call__(self, *, first_as_process: bool = False, **environ: str) -> AbstractAsyncContextManager[Pair]: ...


@asynccontextmanager
async def open_pair(
    database_url: str, directory: Path, workspace: Path, *, first_as_process: bool = False, **environ: str
) -> AsyncIterator[Pair]:
    """A running pair; instances are named "one" and "two"."""
    settings = {
        "NETACLAW_LOG_LEVEL": "ERROR",
        "NETACLAW_MODEL_MAX_TRIES": "1",
        "NETACLAW_LEASE_SECONDS": "2",
        **environ,
        "NETACLAW_SERVICE_TOKEN": SERVICE_TOKEN,
        "NETACLAW_DATABASE_URL": database_url,
        "NETACLAW_DATA_DIR": str(directory),
        "NETACLAW_WORKSPACES": f"{WORKSPACE}={workspace}",
    }
    for service in ("STORE", "STORE_INTERNAL", "RUNNER", "ORCHESTRATOR", *GATEWAY_PORTS):
        settings[f"NETACLAW_{service}_PORT"] = "0"
    async with AsyncExitStack() as stack:
        ran = await stack.enter_async_context(runner.open_app(runner_settings.read(settings)))
        settings["NETACLAW_RUNNER_ADDRESS"] = ran["internal"]
        sides = []
        for name in ("one", "two"):
            as_process = directory if name == "one" and first_as_process else None
            sides.append(await _side(stack, name, settings, workspace, as_process=as_process))
        yield Pair(*sides)


async def _side(
    stack: AsyncExitStack, name: str, settings: Mapping[str, str], workspace: Path, *, as_process: Path | None
) -> Side:
    stored = await stack.enter_async_context(store.open_app(read(StoreSettings, settings)))
    to_store = await stack.enter_async_context(Proxy(stored["internal"]))
    own = {
        **settings,
        "NETACLAW_STORE_ADDRESS": stored["public"],
        "NETACLAW_STORE_INTERNAL_ADDRESS": to_store.address,
        "NETACLAW_ORCHESTRATOR_ID": name,
    }
    suite = RunningSuite("", "", stored["internal"], settings["NETACLAW_DATABASE_URL"], workspace)
    side = Side(name, own, suite, to_store)
    stack.push_async_callback(side.close)
    own["NETACLAW_ORCHESTRATOR_ADDRESS"] = await (side.open() if as_process is None else side.spawn(as_process))
    opened = await stack.enter_async_context(gateway.open_app(read(GatewaySettings, own)))
    side.suite = dataclasses.replace(suite, gateway=opened["public"])
    return side
