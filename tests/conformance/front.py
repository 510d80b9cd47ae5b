"""A gateway in front of the service that answers as cases say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc

from netaclaw_chassis.interceptors import CallInterceptor
from netaclaw_chassis.lifecycle import Ports
from netaclaw_chassis.link import PLAIN
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings
from tests.conformance.service import CaseService


@dataclass(frozen=True)
class Front:
    """Where the gateway and the service behind it are reached."""

    ports: Ports
    address: str
    server: grpc.aio.Server


@asynccontextmanager
async def open_front(service: CaseService, **settings: Any) -> AsyncIterator[Front]:
    """The service stands for orchestrator and store; further settings are the gateway's."""
    server = grpc.aio.server(interceptors=[CallInterceptor()], options=PLAIN.server_options())
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    server.add_generic_rpc_handlers((service,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    own = Settings(port=0, web_port=0, authz_port=0, orchestrator_address=address, store_address=address, **settings)
    try:
        async with open_app(own) as ports:
            yield Front(ports, address, server)
    finally:
        await server.stop(None)
