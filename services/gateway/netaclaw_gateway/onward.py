"""What an upstream is told about a call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls, tracing
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id

Metadata = tuple[tuple[str, str | bytes], ...]

_OWN_PREFIX = "netaclaw-"
_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "host", "authorization", "cookie"})
"""Belong to the client's connection, or are credentials, which end here."""
_HOP_PREFIXES = (_OWN_PREFIX, "grpc-", ":")
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SANE_HINT = re.compile(r"[A-Za-z0-9-]{1,64}")


MAX_METADATA_BYTES = 6 * 1024
"""What a client's own metadata may take, keys, values and 32 bytes for each pair: an upstream takes 8 KiB of all."""
LONGEST_S = 365 * 86_400.0
"""A longer deadline is none: the transport's own clock would not hold it."""
_CARRIED = re.compile(r"[\x20-\x7e]*")
"""What a value may consist of whose key does not say that it is binary."""


def onward_timeout(seconds: float | None) -> float | None:
    """The deadline for an upstream, of a call that has so many seconds left."""
    return None if seconds is None or seconds > LONGEST_S else max(0.0, seconds)


def onward_metadata(received: Iterable[tuple[str, str | bytes]], identity: Metadata) -> Metadata:
    """Identity as the gateway found it and never as a client says, a request id, the balancer's hint, the rest.

    Values that gRPC cannot carry are left out. Raises MESSAGE_TOO_LARGE for more than MAX_METADATA_BYTES.
    """
    request_id = ""
    size = 0
    onward: list[tuple[str, str | bytes]] = list(identity)
    for key, value in received:
        if key == calls.REQUEST_KEY:
            request_id = value if isinstance(value, str) and _SANE_REQUEST_ID.fullmatch(value) else ""
        elif key == calls.SESSION_KEY:
            if isinstance(value, str) and _SANE_HINT.fullmatch(value):
                onward.append((key, value))
        elif key not in _HOP_KEYS and not key.startswith(_HOP_PREFIXES) and _is_carried(value):
            size += len(key) + len(value) + 32
            onward.append((key, value))
    if size > MAX_METADATA_BYTES:
        raise NetaclawError(
            Reason.REASON_MESSAGE_TOO_LARGE,
            f"the call's metadata is larger than {MAX_METADATA_BYTES} bytes",
            metadata={"limit": "metadata_bytes"},
        )
    own = tracing.onward()  # this process's span lies between the client's and the service's
    if own:
        onward = [pair for pair in onward if pair[0] not in tracing.KEYS]
        onward.extend(own)
    onward.append((calls.REQUEST_KEY, request_id or _own_request_id(calls.current())))
    return tuple(onward)


def _is_carried(value: str | bytes) -> bool:
    return isinstance(value, bytes) or _CARRIED.fullmatch(value) is not None


def _own_request_id(call: calls.Call | None) -> str:
    """The id under which this call is logged here, so that one id finds it in every log."""
    if call is not None and _SANE_REQUEST_ID.fullmatch(call.request_id):
        return call.request_id
    return new_id()
