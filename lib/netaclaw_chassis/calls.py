"""Who is calling, and on whose behalf: what metadata says of the running call."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import tracing
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id

OWNER_KEY = "netaclaw-owner-id"
KEY_KEY = "netaclaw-key-id"
"""The API key that was shown, where one was: streams end when it is revoked."""
ADDRESS_KEY = "netaclaw-client-address"
"""Where the call came in from, for limits."""
REQUEST_KEY = "netaclaw-request-id"
SERVICE_KEY = "netaclaw-service-token"
"""The credential that services of one suite show each other; without it identity in metadata is not believed."""
SESSION_KEY = "netaclaw-session-id"
"""A hash hint for balancers, no more."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call in progress."""

    request_id: str
    """Names the call in logs and masked errors."""
    owner: str
    """Whom the gateway authenticated; empty for calls between services."""
    key_id: str = ""
    """The key by which it did; empty without one."""
    address: str = ""
    """The client's address without its port; empty for calls between services."""


_current: ContextVar[Call | None] = ContextVar("netaclaw_call", default=None)


def begin(metadata: Iterable[tuple[str, str | bytes]]) -> Call:
    """Note the call that the current task serves."""
    owner = request = key = address = ""
    for name, value in metadata:
        if name == OWNER_KEY and isinstance(value, str):
            owner = value
        elif name == KEY_KEY and isinstance(value, str):
            key = value[:64]
        elif name == ADDRESS_KEY and isinstance(value, str):
            address = value[:64]
        elif name == REQUEST_KEY and isinstance(value, str):
            request = value[:64]
    call = Call(request or new_id(), owner, key, address)
    _current.set(call)
    return call


def current() -> Call | None:
    """The call that the current task serves, if any."""
    return _current.get()


def owner_id() -> str:
    """The authenticated owner of the running call. Raises UNAUTHENTICATED when there is none."""
    call = _current.get()
    if call is None or not call.owner:
        raise NetaclawError(Reason.REASON_UNAUTHENTICATED, "the call carries no identity; go through the gateway")
    return call.owner


def outgoing(owner: str = "") -> tuple[tuple[str, str], ...]:
    """Metadata for a call to another service on behalf of the running one, or of the given owner."""
    call = _current.get()
    request = call.request_id if call else new_id()
    owner = owner or (call.owner if call else "")
    pairs = [(REQUEST_KEY, request)]
    if owner:
        pairs.append((OWNER_KEY, owner))
    return (*pairs, *tracing.onward())
