"""Health of the whole: whether the gateway and every service behind it serve."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from netaclaw_gateway.upstreams import Upstream

PATH = "/healthz"
_WITHIN_S = 2.0
_REMEMBERED_S = 1.0
_SERVING = health_pb2.HealthCheckResponse.SERVING


class Health:
    """Asks the upstreams, at most once a second however often it is asked itself."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._upstreams = upstreams
        self._found: dict[str, bool] = {}
        self._found_at = float("-inf")
        self._asking = asyncio.Lock()

    async def answer(self) -> tuple[int, bytes]:
        """HTTP status (200, or 503 when any does not serve) and a JSON object of service to whether it serves."""
        async with self._asking:
            if time.monotonic() - self._found_at > _REMEMBERED_S:
                serving = await asyncio.gather(*map(_serves, self._upstreams))
                self._found = {each.name: ok for each, ok in zip(self._upstreams, serving, strict=True)}
                self._found_at = time.monotonic()
        return (200 if all(self._found.values()) else 503), json.dumps(self._found).encode() + b"\n"


async def _serves(upstream: Upstream) -> bool:
    stub = health_pb2_grpc.HealthStub(upstream.channel)
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_WITHIN_S)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == _SERVING)
