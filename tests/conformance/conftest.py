"""Ways in: the gateway's own bridge, and what stands in front of the services in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from netaclaw_chassis.interceptors import CallInterceptor
from netaclaw_chassis.link import PLAIN
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
    service = CaseService()
    server = grpc.aio.server(interceptors=[CallInterceptor()], options=PLAIN.server_options())
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    settings = Settings(port=0, web_port=0, authz_port=0, orchestrator_address=address, store_address=address)
    try:
        async with open_app(settings) as ports:
            if request.param == "bridge":
                yield Way(request.param, ports["web"], service, server)
            else:
                async with open_envoy(address, ports, tmp_path) as web:
                    yield Way(request.param, web, service, server)
    finally:
        await server.stop(None)
