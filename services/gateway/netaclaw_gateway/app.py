"""Composition root of the gateway."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

# Imported for their descriptors: reflection serves what this process has loaded, and public contracts only.
from netaclaw.agent.v1 import agent_service_pb2 as _agent_service
from netaclaw.chat.v1 import chat_service_pb2 as _chat_service
from netaclaw.model.v1 import model_service_pb2 as _model_service
from netaclaw.session.v1 import session_command_service_pb2 as _session_command_service
from netaclaw.session.v1 import session_service_pb2 as _session_service
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw.tool.v1 import tool_service_pb2 as _tool_service
from netaclaw_chassis.addresses import is_loopback
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.link import Link, load
from netaclaw_chassis.server import GrpcServer, PortInUse
from netaclaw_gateway.authz import Authz
from netaclaw_gateway.bridge import Bridge
from netaclaw_gateway.grpcweb.bridge import WebBridge
from netaclaw_gateway.health import Health
from netaclaw_gateway.identity import Gate
from netaclaw_gateway.limits import RequestLimit
from netaclaw_gateway.origins import OriginPolicy
from netaclaw_gateway.pages import Pages
from netaclaw_gateway.settings import Settings
from netaclaw_gateway.upstreams import Routes, Upstream
from netaclaw_gateway.web_server import WebServer

log = logging.getLogger(__name__)

_BY_ORCHESTRATOR = (_chat_service, _session_command_service, _tool_service, _model_service)
_BY_STORE = (_session_service, _agent_service)

_GRACE_S = 0.5
"""Streams do not end by themselves, so a longer wait at the end would only be spent waiting."""


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[Ports]:
    """Serve the upstreams' public services until the context is left: gRPC, gRPC-Web and the page, and a proxy's
    questions.

    Raises StartError when a port is in use; and on any address but a loopback one, when no API key exists.
    """
    async with AsyncExitStack() as stack:
        token, link = settings.service_token, load(settings.link)
        orchestrator = await stack.enter_async_context(connect(settings.orchestrator_address, token, link))
        store = await stack.enter_async_context(connect(settings.store_address, token, link))
        internal = await stack.enter_async_context(connect(settings.store_internal_address, token, link))
        upstreams = Upstream("orchestrator", orchestrator), Upstream("store", store)
        routes, health = _routes(*upstreams), Health(upstreams)
        local = is_loopback(settings.host) and not settings.keys_required
        gate = Gate(
            IdentityServiceStub(internal),
            keys_required=not local,
            per_address=RequestLimit("requests_per_second_per_address", settings.requests_per_address),
            per_owner=RequestLimit("requests_per_second_per_owner", settings.requests_per_owner),
        )
        if not local:
            await _require_keys(gate, settings.host)
        if not is_loopback(settings.host):
            log.warning("listening on a network without TLS: API keys are shown in clear; see deploy/envoy")
        origins = OriginPolicy(local=local, origins=settings.origins, hosts=settings.hosts)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        bridge, web_bridge = Bridge(routes, gate), WebBridge(routes, gate, origins, health, Pages())
        outer = Link(ping_s=link.ping_s)  # TLS to clients is spoken by a proxy in front
        server = GrpcServer(host, settings.port, (), handlers=(bridge,), reflect=routes.names, link=outer)
        web = WebServer(web_bridge, settings.host, settings.web_port)
        authz = WebServer(Authz(routes, gate, origins), "127.0.0.1", settings.authz_port)
        try:
            await server.start()
            stack.push_async_callback(server.stop, _GRACE_S)
            for each in (web, authz):
                await each.start()
                stack.push_async_callback(each.stop)
        except PortInUse as error:
            raise StartError(str(error)) from error
        for draining in (bridge, web_bridge):
            stack.callback(draining.drain)  # first of all: open streams hear that it stops
        yield {"public": server.address, "web": web.address, "authz": authz.address}


def _routes(orchestrator: Upstream, store: Upstream) -> Routes:
    routes = {name: orchestrator for module in _BY_ORCHESTRATOR for name in _service_names(module)}
    return Routes(routes | {name: store for module in _BY_STORE for name in _service_names(module)})


def _service_names(module: object) -> list[str]:
    """Full names of the services that a generated module describes."""
    descriptor = module.DESCRIPTOR  # type: ignore[attr-defined]  # generated modules share no type
    return [service.full_name for service in descriptor.services_by_name.values()]


async def _require_keys(gate: Gate, host: str) -> None:
    try:
        found = await gate.has_keys()
    except NetaclawError as error:
        raise StartError(f"cannot listen on {host}: whether there are API keys is not known: {error}") from None
    if not found:
        raise StartError(
            f"cannot listen on {host}: there is no API key, and without one only a loopback address is served; "
            "make one with `netaclaw keys create OWNER` while the suite runs on 127.0.0.1"
        )
