"""gRPC metadata in HTTP headers, both ways, and the words of a status."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from netaclaw_chassis.errors import STATUS_DETAILS_KEY, InvalidRequest

MetadataPair = tuple[str, str | bytes]
Header = tuple[bytes, bytes]

_BROWSERS_OWN = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding"),
        *(
            "content-length",
            "dnt",
            "expect",
            "forwarded",
            "keep-alive",
            "origin",
            "pragma",
            "priority",
            "proxy-connection",
        ),
        *("referer", "transfer-encoding", "upgrade", "upgrade-insecure-requests", "via", "x-grpc-web", "x-user-agent"),
    }
)
"""Headers of the connection and the browser, which are no metadata."""
_BROWSERS_PREFIXES = ("sec-", "access-control-", "proxy-", "x-forwarded-")

_KEY = re.compile(rb"[0-9a-z_.-]{1,200}")
_VALUE = re.compile(rb"[\x20-\x7e]*")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PLAIN = frozenset(range(0x20, 0x7F)) - {0x25}


def from_headers(headers: Iterable[Header]) -> list[MetadataPair]:
    """What a request says beside its message. Headers that gRPC could not carry are left out; values of "-bin" keys
    arrive decoded. Raises InvalidRequest for a "-bin" value that is not base64."""
    found: list[MetadataPair] = []
    for name, value in headers:
        key = name.decode("latin-1")
        if key in _BROWSERS_OWN or key.startswith(_BROWSERS_PREFIXES):
            continue
        if not _KEY.fullmatch(name) or not _VALUE.fullmatch(value):
            continue
        if key.endswith("-bin"):
            found.extend((key, _from_base64(key, part.strip())) for part in value.split(b","))
        else:
            found.append((key, value.decode("ascii")))
    return found


def header_lines(metadata: Iterable[MetadataPair]) -> Iterator[Header]:
    """Metadata as names and values of HTTP headers, without the reserved "grpc-" keys other than the status details."""
    for key, value in metadata:
        if key.startswith("grpc-") and key != STATUS_DETAILS_KEY:
            continue
        if isinstance(value, bytes):
            yield key.encode("ascii"), base64.b64encode(value).rstrip(b"=")
        else:
            yield key.encode("ascii"), value.encode("latin-1", "replace")


def timeout_of(value: bytes) -> float:
    """Seconds that a grpc-timeout header grants. Raises InvalidRequest."""
    match = _TIMEOUT.fullmatch(value)
    if match is None:
        raise InvalidRequest([("grpc-timeout", "is not 1 to 8 digits and one of H, M, S, m, u, n")])
    return int(match[1]) * _SECONDS[match[2]]


def percent_encoded(words: str) -> bytes:
    """A status's words as the wire carries them: printable ASCII but "%" as it is, all other bytes of UTF-8 coded."""
    raw = words.encode("utf-8", "replace")
    return b"".join(bytes((byte,)) if byte in _PLAIN else b"%%%02X" % byte for byte in raw)


def _from_base64(key: str, value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise InvalidRequest([(key, "is not base64")]) from None
