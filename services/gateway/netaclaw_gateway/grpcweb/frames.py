"""Frames of gRPC-Web: one message in a request; messages and one trailer in a response. No input or output here."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterable

from netaclaw_chassis.errors import InvalidRequest
from netaclaw_gateway.grpcweb.metadata import MetadataPair, header_lines, percent_encoded

PREFIX_BYTES = 5
_PREFIX = struct.Struct(">BI")
_COMPRESSED, _TRAILER = 0x01, 0x80
_SEGMENT = re.compile(rb"[^=]+={0,2}")
"""Base64 may come as several padded segments: every writer may pad what it has."""


def decode_text(body: bytes) -> bytes:
    """The bytes of a body in text mode. Raises InvalidRequest for what is no base64, or breaks off inside a group."""
    pieces, place = [], 0
    while place < len(body):
        segment = _SEGMENT.match(body, place)
        if segment is None or len(segment[0]) % 4:
            raise _bad("is not base64")
        try:
            pieces.append(base64.b64decode(segment[0], validate=True))
        except binascii.Error:
            raise _bad("is not base64") from None
        place = segment.end()
    return b"".join(pieces)


def message_of(body: bytes) -> bytes:
    """The one message of a request. Raises InvalidRequest for none, for half of one, and for anything beside it."""
    if len(body) < PREFIX_BYTES:
        raise _bad("ends before the first message" if body else "is empty: one message is needed")
    flags, length = _PREFIX.unpack_from(body)
    if flags & _COMPRESSED:
        raise _bad("is compressed, which is not supported here")
    if flags:
        raise _bad("does not begin with a message")
    if len(body) < PREFIX_BYTES + length:
        raise _bad(f"ends {PREFIX_BYTES + length - len(body)} bytes before its message does")
    if len(body) > PREFIX_BYTES + length:
        raise _bad("holds more than one message")
    return body[PREFIX_BYTES:]


def message_frame(message: bytes) -> bytes:
    """A message as a frame of a response."""
    return _PREFIX.pack(0, len(message)) + message


def trailer_frame(status: int, words: str, trailers: Iterable[MetadataPair] = ()) -> bytes:
    """The last frame of a response: status, its words percent-encoded, and trailing metadata."""
    lines = [b"grpc-status:%d" % status]
    if words:
        lines.append(b"grpc-message:" + percent_encoded(words))
    lines.extend(name + b":" + value for name, value in header_lines(trailers))
    block = b"".join(line + b"\r\n" for line in lines)
    return _PREFIX.pack(_TRAILER, len(block)) + block


def _bad(what: str) -> InvalidRequest:
    return InvalidRequest([("(body)", what)])
