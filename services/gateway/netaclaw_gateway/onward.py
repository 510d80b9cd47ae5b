"""What an upstream is told about a call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from netaclaw_chassis import calls, tracing
from netaclaw_chassis.ids import new_id

Metadata = tuple[tuple[str, str | bytes], ...]

_OWN_PREFIX = "netaclaw-"
_HOP_KEYS = frozenset({"user-agent", "content-type", "te", "host", "authorization", "cookie"})
"""Belong to the client's connection, or are credentials, which end here."""
_HOP_PREFIXES = (_OWN_PREFIX, "grpc-", ":")
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SANE_HINT = re.compile(r"[A-Za-z0-9-]{1,64}")


def onward_metadata(received: Iterable[tuple[str, str | bytes]], identity: Metadata) -> Metadata:
    """Identity as the gateway found it and never as a client says, a request id, the balancer's hint, the rest."""
    request_id = ""
    onward: list[tuple[str, str | bytes]] = list(identity)
    for key, value in received:
        if key == calls.REQUEST_KEY:
            request_id = value if isinstance(value, str) and _SANE_REQUEST_ID.fullmatch(value) else ""
        elif key == calls.SESSION_KEY:
            if isinstance(value, str) and _SANE_HINT.fullmatch(value):
                onward.append((key, value))
        elif key not in _HOP_KEYS and not key.startswith(_HOP_PREFIXES):
            onward.append((key, value))
    own = tracing.onward()  # this process's span lies between the client's and the service's
    if own:
        onward = [pair for pair in onward if pair[0] not in tracing.KEYS]
        onward.extend(own)
    onward.append((calls.REQUEST_KEY, request_id or _own_request_id(calls.current())))
    return tuple(onward)


def _own_request_id(call: calls.Call | None) -> str:
    """The id under which this call is logged here, so that one id finds it in every log."""
    if call is not None and _SANE_REQUEST_ID.fullmatch(call.request_id):
        return call.request_id
    return new_id()
