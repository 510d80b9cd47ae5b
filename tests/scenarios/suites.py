"""The whole suite for a scenario: its services in this process, or as four processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import grpc

from netaclaw.chat.v1.chat_service_pb2 import PingRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.store.v1.journal_service_pb2 import ReadEventsRequest
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_chassis.channel import connect
from netaclaw_chassis.settings import read
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client.client import Client
from netaclaw_gateway import app as gateway
from netaclaw_gateway.settings import Settings as GatewaySettings
from netaclaw_orchestrator import app as orchestrator
from netaclaw_orchestrator.settings import Settings as OrchestratorSettings
from netaclaw_runner import app as runner
from netaclaw_runner import settings as runner_settings
from netaclaw_store import app as store
from netaclaw_store.settings import StoreSettings

OWNER = "local"
WORKSPACE = "files"
SERVICE_TOKEN = "shown between services"
GATEWAY_PORTS = ("GATEWAY", "GATEWAY_WEB", "GATEWAY_AUTHZ")


@dataclass(frozen=True)
class RunningSuite:
    """Where a running suite is reached."""

    gateway: str
    web: str
    """host:port of gRPC-Web."""
    store_internal: str
    database_url: str
    workspace: Path
    ports: Mapping[str, str] = field(default_factory=dict)
    """What the gateway announced, and where "orchestrator" and "store" are reached; in one process only."""
    processes: Suite | None = None
    """The service processes, where they are such."""

    def kill(self, service: str) -> None:
        """End a service process at once; it is started again by itself."""
        assert self.processes is not None
        os.kill(self.processes.pid(service), signal.SIGKILL)

    async def restart(self, service: str) -> None:
        """End a service process at once; returns when its successor serves, and the gateway reaches it."""
        assert self.processes is not None
        before = self.processes.pid(service)
        self.kill(service)
        async with asyncio.timeout(30), self.client() as client:
            while self.processes.pid(service) == before or not await _answers(client):  # noqa: ASYNC110  # no event for it
                await asyncio.sleep(0.05)  # between two looks at a process

    def client(self) -> Client:
        """A client of the gateway."""
        return Client(self.gateway)

    async def new_session(self, client: Client, **fields: Any) -> str:
        """A session on the scenario's workspace."""
        made = await client.commands.CreateSession(CreateSessionRequest(workspace=WORKSPACE, **fields))
        return made.session.session_id

    async def tree(self, client: Client, session_id: str) -> list[GetSessionTreeResponse]:
        """All pages of a session's tree."""
        pages = [await client.sessions.GetSessionTree(GetSessionTreeRequest(session_id=session_id))]
        while pages[-1].next_page_token:
            request = GetSessionTreeRequest(session_id=session_id, page_token=pages[-1].next_page_token)
            pages.append(await client.sessions.GetSessionTree(request))
        return pages

    async def events(self, session_id: str) -> list[ChatEvent]:
        """All durable events of a session, from the journal itself."""
        async with connect(self.store_internal, SERVICE_TOKEN) as channel:
            request = ReadEventsRequest(owner_id=OWNER, session_id=session_id)
            return [event async for page in JournalServiceStub(channel).ReadEvents(request) for event in page.events]

    async def rows(self, table: str, order_by: str) -> list[dict[str, Any]]:
        """All rows of a table, without the columns that hold serialised messages."""
        connection = await asyncpg.connect(self.database_url)
        try:
            rows = await connection.fetch(f"SELECT * FROM {table} ORDER BY {order_by}")
        finally:
            await connection.close()
        return [{key: value for key, value in row.items() if not isinstance(value, bytes)} for row in rows]


Opener = Callable[[str, Path, Path, Mapping[str, str]], AbstractAsyncContextManager[RunningSuite]]
"""(database url, data directory, workspace, further settings) → a running suite."""


class OpenSuite(Protocol):
    """Opens a suite of a topology on a database of its own; keywords are further settings."""

    def __call__(self, topology: str, **environ: str) -> AbstractAsyncContextManager[RunningSuite]: ...


Road = Callable[[str, str], Awaitable[str]]
"""(service, its host:port) → where others reach it."""


async def straight(service: str, address: str) -> str:
    """The service itself."""
    return address


async def _answers(client: Client) -> bool:
    try:
        await client.chat.Ping(PingRequest(nonce="there?"))
    except grpc.aio.AioRpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


@asynccontextmanager
async def in_process(
    database_url: str, data_dir: Path, workspace: Path, environ: Mapping[str, str], road: Road = straight
) -> AsyncIterator[RunningSuite]:
    """All four services on this event loop, over real sockets; workers are processes all the same. Services find each
    other where `road` says."""
    settings = {
        **environ,
        "NETACLAW_SERVICE_TOKEN": SERVICE_TOKEN,
        "NETACLAW_DATABASE_URL": database_url,
        "NETACLAW_DATA_DIR": str(data_dir),
        "NETACLAW_WORKSPACES": f"{WORKSPACE}={workspace}",
    }
    for service in ("STORE", "STORE_INTERNAL", "RUNNER", "ORCHESTRATOR", *GATEWAY_PORTS):
        settings[f"NETACLAW_{service}_PORT"] = "0"
    async with AsyncExitStack() as stack:
        stored = await stack.enter_async_context(store.open_app(read(StoreSettings, settings)))
        ran = await stack.enter_async_context(runner.open_app(runner_settings.read(settings)))
        settings |= {
            "NETACLAW_STORE_ADDRESS": await road("store", stored["public"]),
            "NETACLAW_STORE_INTERNAL_ADDRESS": await road("store internal", stored["internal"]),
            "NETACLAW_RUNNER_ADDRESS": await road("runner", ran["internal"]),
        }
        models = ModelCatalogue(ModelSettings.from_environ(settings))
        orchestrated = await stack.enter_async_context(
            orchestrator.open_app(read(OrchestratorSettings, settings), models)
        )
        settings["NETACLAW_ORCHESTRATOR_ADDRESS"] = await road("orchestrator", orchestrated["public"])
        opened = await stack.enter_async_context(gateway.open_app(read(GatewaySettings, settings)))
        reached = {name: settings[f"NETACLAW_{name.upper()}_ADDRESS"] for name in ("orchestrator", "store")}
        ports = {**opened, **reached}
        yield RunningSuite(opened["public"], opened["web"], stored["internal"], database_url, workspace, ports)


@asynccontextmanager
async def four_processes(
    database_url: str, data_dir: Path, workspace: Path, environ: Mapping[str, str]
) -> AsyncIterator[RunningSuite]:
    """The suite as `netaclaw up` runs it."""
    settings = {**os.environ, **environ, "NETACLAW_DATABASE_URL": database_url}
    settings["NETACLAW_SERVICE_TOKEN"] = SERVICE_TOKEN
    options = SuiteOptions(data_dir, {WORKSPACE: workspace}, environ=settings)
    async with Suite(options) as suite:
        internal = suite.ports("store")["internal"]
        yield RunningSuite(suite.address, suite.web_address, internal, database_url, workspace, processes=suite)


async def run_python(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run this interpreter; returns exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
