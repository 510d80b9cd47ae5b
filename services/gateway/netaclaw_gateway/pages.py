"""The web page: what `make web` built, read once and served from memory under a strict content security policy."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Send = Callable[[Any], Awaitable[None]]
Header = tuple[bytes, bytes]

BUILT = Path(__file__).parent / "static"
"""Where `make web` puts the page."""
MAX_BYTES = 64 * 1024 * 1024
"""More than this is not a page, and does not belong in memory."""

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS: tuple[Header, ...] = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_ROUTE = re.compile(r"(?:/[\w~-]+)*/?")
"""A path that the page's own router may know."""
_GZIP = re.compile(rb"(?:^|,)\s*(?:x-)?gzip\s*(?:,|$|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))", re.IGNORECASE)
"""An Accept-Encoding that takes gzip, and does not refuse it with a weight of 0."""
_FOREVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"
_COMPRESSIBLE = (".css", ".html", ".js", ".json", ".svg", ".txt")


@dataclass(frozen=True, slots=True)
class _File:
    headers: tuple[Header, ...]
    etag: bytes
    body: bytes
    packed: bytes | None
    """The body as gzip, where that is smaller."""


class Pages:
    """An ASGI app for GET and HEAD.

    A request is looked up by its path among the files that were there at the start, so no path leads elsewhere. Paths
    of the page's own router answer index.html; a missing file, and a path of a service, is 404. Files under assets/
    have their hash in their names and are cached for good; all others are asked for again and answered 304 by ETag.
    Without a built page everything is 404 with a word on how to build it. Raises ValueError for more than MAX_BYTES.
    """

    def __init__(self, directory: Path = BUILT) -> None:
        self._files = _read(directory)

    @property
    def built(self) -> bool:
        """Whether there is a page."""
        return "/index.html" in self._files

    async def __call__(self, scope: Any, _receive: Any, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        file = self._find(scope["path"])
        if file is None:
            word = b"not found" if self.built else b"the page is not built: run `make web` and restart the gateway"
            await _answer(send, 404, [*_ALWAYS, (b"content-type", b"text/plain; charset=utf-8")], word)
        elif _has(headers.get(b"if-none-match", b""), file.etag):
            await _answer(send, 304, [*file.headers, (b"etag", file.etag)], b"")
        elif file.packed is not None and _GZIP.search(headers.get(b"accept-encoding", b"")):
            packed = [*file.headers, (b"etag", file.etag), (b"content-encoding", b"gzip")]
            await _answer(send, 200, packed, file.packed)
        else:
            await _answer(send, 200, [*file.headers, (b"etag", file.etag)], file.body)

    def _find(self, path: str) -> _File | None:
        file = self._files.get(path)
        if file is not None or path.startswith("/assets/") or not _ROUTE.fullmatch(path):
            return file
        return self._files.get("/index.html")


def _has(sent: bytes, etag: bytes) -> bool:
    """Whether an If-None-Match names a file, weakly as it may: proxies that compress weaken tags."""
    tags = [tag.strip().removeprefix(b"W/") for tag in sent.split(b",")]
    return etag in tags or tags == [b"*"]


def _read(directory: Path) -> dict[str, _File]:
    files: dict[str, _File] = {}
    total = 0
    for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
        if path.is_symlink() or not path.is_file():
            continue
        body = path.read_bytes()
        total += len(body)
        if total > MAX_BYTES:
            raise ValueError(f"{directory} holds more than {MAX_BYTES} bytes: that is not a page")
        name = "/" + path.relative_to(directory).as_posix()
        files[name] = _file(name, body)
    return files


def _file(name: str, body: bytes) -> _File:
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    cached = _FOREVER if name.startswith("/assets/") else _ASK_AGAIN
    packed = gzip.compress(body, mtime=0) if name.endswith(_COMPRESSIBLE) else body
    headers = (*_ALWAYS, (b"content-type", kind.encode()), (b"cache-control", cached), (b"vary", b"accept-encoding"))
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    return _File(headers, etag, body, packed if len(packed) < len(body) else None)


async def _answer(send: Send, status: int, headers: list[Header], body: bytes) -> None:
    if status != 304:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
