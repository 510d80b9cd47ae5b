"""Ways in: the gateway's own bridge, and what stands in front of the services in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from netaclaw_chassis.interceptors import CallInterceptor
from netaclaw_chassis.server import OPTIONS
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings
from tests.conformance.envoy import open_envoy
from tests.conformance.service import CaseService

WAYS = ("bridge", "envoy")


@dataclass
class Way:
    """A way in, and the service that answers behind it."""

    name: str
    web: str
    """host:port for gRPC-Web."""
    service: CaseService
    server: grpc.aio.Server


@pytest.fixture(params=WAYS)
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Way]:
    async with open_way(request.param, tmp_path) as opened:
        yield opened


@asynccontextmanager
async def open_way(name: str, directory: Path) -> AsyncIterator[Way]:
    """A way in with a service of its own behind it; files go to the directory."""
    service = CaseService()
    server = grpc.aio.server(interceptors=[CallInterceptor()], options=OPTIONS)
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    settings = Settings(port=0, web_port=0, authz_port=0, orchestrator_address=address, store_address=address)
    try:
        async with open_app(settings) as ports:
            if name == "bridge":
                yield Way(name, ports["web"], service, server)
            else:
                async with open_envoy(address, ports, directory) as web:
                    yield Way(name, web, service, server)
    finally:
        await server.stop(None)
