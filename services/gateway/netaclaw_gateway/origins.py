"""Which pages may call: Host and Origin of a request, and what browsers are told across origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from netaclaw_chassis.addresses import is_loopback

Header = tuple[bytes, bytes]

ALLOWED_HEADERS = (
    "authorization,content-type,grpc-timeout,x-grpc-web,x-user-agent,"
    "netaclaw-request-id,netaclaw-session-id,traceparent,tracestate"
)
EXPOSED_HEADERS = "grpc-status,grpc-message,grpc-status-details-bin"
"""A status that comes before the first message may stand in HTTP headers, which browsers hide unless they are named."""
ALLOWED_METHODS = "POST"
MAX_AGE_S = 7200
"""The longest that browsers grant."""


class OriginPolicy:
    """Decides by Host and Origin.

    A local gateway answers only under a local name, so that no foreign name can be pointed at it, and only to pages of
    this machine; any other serves the pages of its own origin and the origins that its operator listed. A null origin
    is nobody's. A request without an origin does not come from a browser's page.
    """

    def __init__(self, *, local: bool, origins: Sequence[str] = (), hosts: Sequence[str] = ()) -> None:
        self._local = local
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._hosts = frozenset(host.lower() for host in hosts)

    def refusal(self, method: str, headers: Mapping[bytes, bytes]) -> str | None:
        """Why a request is refused, or None."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._host_fits(host):
            return "this name is not served here"
        origin = headers.get(b"origin")
        if origin is not None:
            return None if self._origin_fits(origin.decode("latin-1").lower(), host) else "this origin may not call"
        if method == "POST" and headers.get(b"sec-fetch-site", b"none") == b"cross-site":
            return "a page of another site may not call"
        return None

    def _host_fits(self, host: str) -> bool:
        name = _name_of(f"//{host}")
        if self._hosts:
            return name in self._hosts or (self._local and is_loopback(name))
        return not self._local or is_loopback(name)

    def _origin_fits(self, origin: str, host: str) -> bool:
        if origin in self._origins:
            return True
        scheme, _, authority = origin.partition("://")
        if scheme not in ("http", "https") or not authority:
            return False
        return authority == host or (self._local and is_loopback(_name_of(origin)))


def shared_with(origin: bytes | None) -> list[Header]:
    """What an answer tells the browser of an allowed origin; nothing where there is none."""
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", EXPOSED_HEADERS.encode()),
        (b"vary", b"origin"),
    ]


def preflight(origin: bytes) -> list[Header]:
    """The answer to a browser that asks before it calls."""
    return [
        *shared_with(origin),
        (b"access-control-allow-methods", ALLOWED_METHODS.encode()),
        (b"access-control-allow-headers", ALLOWED_HEADERS.encode()),
        (b"access-control-max-age", b"%d" % MAX_AGE_S),
    ]


def _name_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")  # a name that is written out in full is the same name
    except ValueError:
        return ""
