"""The services behind the gateway, and which public service is whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError

_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Upstream:
    """A service behind the gateway. The channel is owned by whoever made it."""

    name: str
    channel: grpc.aio.Channel


class Routes:
    """Full names of public services to the upstream that answers them."""

    def __init__(self, routes: Mapping[str, Upstream]) -> None:
        self._routes = dict(routes)

    @property
    def names(self) -> tuple[str, ...]:
        """Full names of the public services."""
        return tuple(self._routes)

    def find(self, method: str) -> Upstream:
        """The upstream of "/package.Service/Method". Raises METHOD_NOT_PUBLIC."""
        upstream = self._routes.get(method.lstrip("/").partition("/")[0])
        if upstream is None:
            raise NetaclawError(
                Reason.REASON_METHOD_NOT_PUBLIC,
                "the method does not exist or is not public",
                metadata={"method": method[:_MAX_NAME]},
            )
        return upstream


def shutting_down() -> NetaclawError:
    """What open and new calls are told while the gateway stops."""
    return NetaclawError(Reason.REASON_SHUTTING_DOWN, "the gateway is stopping; watch again", retry_after=0.5)


def unreachable(upstream: Upstream, error: grpc.aio.AioRpcError) -> NetaclawError | None:
    """What a client is told in place of the transport's own words, which name internal addresses; None for an end that
    the service itself gave."""
    from_service = any(key == STATUS_DETAILS_KEY for key, _ in error.trailing_metadata() or ())
    if error.code() is not grpc.StatusCode.UNAVAILABLE or from_service:
        return None
    return NetaclawError(
        Reason.REASON_SERVICE_UNAVAILABLE,
        f"the {upstream.name} cannot be reached; try again",
        metadata={"service": upstream.name},
    )
