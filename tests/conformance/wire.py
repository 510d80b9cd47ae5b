"""A client of gRPC-Web that sends exactly the bytes it is given, and shows exactly what came back."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

TEXT, BINARY = "application/grpc-web-text+proto", "application/grpc-web+proto"
WAIT_S = 20.0


@dataclass
class Answer:
    """An HTTP response; `ended` is False when the connection broke off before the body's end."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def frames(self) -> list[tuple[int, bytes]]:
        """Flags and content of each frame of the body."""
        body = bytes(self.body)
        raw = decoded_text(body) if "-text" in (self.header("content-type") or "") else body
        found, place = [], 0
        while place < len(raw):
            end = place + 5 + int.from_bytes(raw[place + 1 : place + 5], "big")
            assert len(raw) >= end, "the body ends inside a frame"
            found.append((raw[place], raw[place + 5 : end]))
            place = end
        return found

    @property
    def messages(self) -> list[bytes]:
        return [content for flags, content in self.frames if not flags & 0x80]

    @property
    def trailers(self) -> dict[str, str]:
        """Of the trailer frame; of the headers, where the answer is trailers only."""
        frames = self.frames if (self.header("content-type") or "").startswith("application/grpc-web") else []
        blocks = [content for flags, content in frames if flags & 0x80]
        if any(blocks):
            assert frames[-1][0] & 0x80, "the trailer is the last frame"
            lines = [line for line in blocks[-1].decode("latin-1").split("\r\n") if line]
            return {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        return {key: value for key, value in self.headers if key.startswith("grpc-")}

    @property
    def code(self) -> int | None:
        status = self.trailers.get("grpc-status")
        return None if status is None else int(status)

    @property
    def words(self) -> str:
        return unquote_to_bytes(self.trailers.get("grpc-message", "")).decode()


def decoded_text(body: bytes) -> bytes:
    """Base64 in pieces that may each be padded."""
    return b"".join(base64.b64decode(piece, validate=True) for piece in re.findall(rb"[^=]+={0,2}", body))


def decoded_value(value: str) -> bytes:
    """A "-bin" value."""
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error as error:
        raise AssertionError(f"not base64: {value}") from error


def frame(message: bytes, flags: int = 0) -> bytes:
    return bytes((flags,)) + len(message).to_bytes(4, "big") + message


def request(
    method: str, pieces: Sequence[bytes], headers: dict[str, str], *, verb: str = "POST", chunked: bool = False
) -> list[bytes]:
    """The bytes of a request, in the pieces in which they are to be written."""
    lines = [f"{verb} {method} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items())]
    if chunked:
        lines.append("transfer-encoding: chunked")
        body = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece] + [b"0\r\n\r\n"]
    else:
        lines.append(f"content-length: {sum(map(len, pieces))}")
        body = list(pieces)
    return ["\r\n".join([*lines, "", ""]).encode("latin-1"), *body]


class Connection:
    """One HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float) -> None:
        self.reader = reader
        self.writer = writer
        self._wait_s = wait_s

    @classmethod
    async def open(cls, address: str, *, limit: int = 2**16, wait_s: float = WAIT_S) -> Connection:
        """`wait_s`: for each piece of an answer."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host.strip("[]"), int(port), limit=limit), wait_s)

    async def send(self, pieces: Sequence[bytes]) -> None:
        with suppress(ConnectionError):  # an answer may come before the request is out
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()

    async def headers(self) -> Answer:
        """The answer as far as its headers."""
        answer = Answer()
        async with asyncio.timeout(self._wait_s):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        answer.status = int(first.split()[1])
        for line in filter(None, lines):
            key, _, value = line.partition(":")
            answer.headers.append((key.strip().lower(), value.strip()))
        return answer

    async def piece(self, answer: Answer) -> bytes:
        """The next piece of a chunked body, added to the answer; empty at its end."""
        async with asyncio.timeout(self._wait_s):
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            piece = (await self.reader.readexactly(size + 2))[:-2]
        answer.body += piece
        answer.ended |= not size
        return piece

    async def rest(self, answer: Answer) -> Answer:
        """The whole answer."""
        try:
            length = answer.header("content-length")
            if answer.header("transfer-encoding") == "chunked":
                while await self.piece(answer):
                    pass
            elif length is not None:
                async with asyncio.timeout(self._wait_s):
                    answer.body += await self.reader.readexactly(int(length))
                answer.ended = True
            else:
                answer.ended = answer.status in (204, 304)
        except asyncio.IncompleteReadError:
            answer.ended = False
        return answer

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def ask(address: str, pieces: Sequence[bytes]) -> Answer:
    """One request on a connection of its own."""
    connection = await Connection.open(address)
    try:
        sending = asyncio.create_task(connection.send(pieces))
        answer = await connection.rest(await connection.headers())
        await sending
        return answer
    finally:
        await connection.close()


def dumped(answer: Answer) -> str:
    """For the words of a failed assertion."""
    return json.dumps({"status": answer.status, "headers": answer.headers, "body": answer.body[:400].hex()}, indent=1)
