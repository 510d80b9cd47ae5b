"""A gRPC server with health, reflection and the call interceptor, and its ordered stop."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from netaclaw_chassis.interceptors import CallInterceptor
from netaclaw_chassis.link import PLAIN, Link


class PortInUse(Exception):
    """The address cannot be bound."""


@dataclass(frozen=True, slots=True)
class Servicer:
    """A servicer with its generated adder and its full service name."""

    name: str
    add: Callable[[Any, grpc.aio.Server], None]
    servicer: object


class GrpcServer:
    """One port. `start` binds and serves; `stop` says NOT_SERVING, drains for a grace period, then cuts."""

    def __init__(
        self,
        host: str,
        port: int,
        servicers: Sequence[Servicer],
        *,
        handlers: Sequence[grpc.GenericRpcHandler] = (),
        reflect: Sequence[str] = (),
        service_token: str = "",
        link: Link = PLAIN,
    ) -> None:
        """With a token only calls that show it are served; health answers everybody whom the link lets in."""
        self._host = host
        self._wanted_port = port
        self._credentials = link.servers
        options = link.server_options()
        self._server = grpc.aio.server(interceptors=[CallInterceptor(service_token)], options=options)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for each in servicers:
            each.add(each.servicer, self._server)
        self._names = [each.name for each in servicers]
        shown = [*self._names, *reflect, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(shown, self._server)
        if handlers:
            self._server.add_generic_rpc_handlers(tuple(handlers))
        self.port = 0

    @property
    def address(self) -> str:
        """host:port, once started."""
        return f"{self._host}:{self.port}"

    async def start(self) -> None:
        """Bind and serve. Raises PortInUse."""
        self._check_free()
        try:
            self.port = self._bind(f"{self._host}:{self._wanted_port}")
        except RuntimeError as error:
            raise PortInUse(f"cannot listen on {self._host}:{self._wanted_port}: the port is in use") from error
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _bind(self, address: str) -> int:
        if self._credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._credentials)

    def _check_free(self) -> None:
        """Look before grpc does: its library would write lines of its own to stderr about a port in use."""
        if self._wanted_port:
            try:
                family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
                socket.create_server((self._host.strip("[]"), self._wanted_port), family=family).close()
            except OSError as error:
                why = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
                raise PortInUse(f"cannot listen on {self._host}:{self._wanted_port}: {why}") from error

    async def stop(self, grace: float = 1.0) -> None:
        """NOT_SERVING, no new calls, up to `grace` seconds for those in progress, then cut."""
        await self._health.enter_graceful_shutdown()
        await asyncio.wait_for(self._server.stop(grace), grace + 1.0)
