"""Composition root of the gateway."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Imported for their descriptors: reflection serves what this process has loaded, and public contracts only.
from netaclaw.agent.v1 import agent_service_pb2 as _agent_service
from netaclaw.chat.v1 import chat_service_pb2 as _chat_service
from netaclaw.session.v1 import session_command_service_pb2 as _session_command_service
from netaclaw.session.v1 import session_service_pb2 as _session_service
from netaclaw.tool.v1 import tool_service_pb2 as _tool_service
from netaclaw_chassis.channel import connect
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.server import GrpcServer, PortInUse
from netaclaw_gateway.bridge import Bridge, Upstream
from netaclaw_gateway.settings import Settings

_BY_ORCHESTRATOR = (_chat_service, _session_command_service, _tool_service)
_BY_STORE = (_session_service, _agent_service)

_GRACE_S = 0.5
"""Streams do not end by themselves, so a longer wait at the end would only be spent waiting."""


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[Ports]:
    """Serve the public services of the two upstreams until the context is left.

    Raises StartError when the port is in use, or when the host is not a loopback address: every caller is taken for
    the local owner.
    """
    _require_loopback(settings.host)
    orchestrator = Upstream("orchestrator", connect(settings.orchestrator_address))
    store = Upstream("store", connect(settings.store_address))
    routes = {name: orchestrator for module in _BY_ORCHESTRATOR for name in _service_names(module)}
    routes |= {name: store for module in _BY_STORE for name in _service_names(module)}
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    server = GrpcServer(host, settings.port, (), handlers=(Bridge(routes),), reflect=tuple(routes))
    try:
        await server.start()
    except PortInUse as error:
        raise StartError(str(error)) from error
    try:
        yield {"public": server.address}
    finally:
        await server.stop(_GRACE_S)
        await asyncio.gather(orchestrator.channel.close(), store.channel.close())


def _service_names(module: object) -> list[str]:
    """Full names of the services that a generated module describes."""
    descriptor = module.DESCRIPTOR  # type: ignore[attr-defined]  # generated modules share no type
    return [service.full_name for service in descriptor.services_by_name.values()]


def _require_loopback(host: str) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise StartError(f"cannot listen on {host}: only a loopback address is served without API keys")
