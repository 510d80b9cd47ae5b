"""Ways in: the gateway's own bridge, and what stands in front of the services in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from tests.conformance.envoy import open_envoy
from tests.conformance.front import open_front
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
    async with open_front(service) as front:
        if request.param == "bridge":
            yield Way(request.param, front.ports["web"], service, front.server)
        else:
            async with open_envoy(front.address, front.ports, tmp_path) as web:
                yield Way(request.param, web, service, front.server)
