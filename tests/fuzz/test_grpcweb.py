"""Any bytes at the gateway's door: no crash, no hang, no growth. NETACLAW_FUZZ_INPUTS says how many inputs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import resource
from collections.abc import Iterator

import pytest

from netaclaw_chassis.errors import InvalidRequest
from netaclaw_gateway.grpcweb import frames, metadata
from tests.conformance.wire import BINARY, TEXT, Connection, frame, request
from tests.integration.gateway.conftest import Rig
from tests.integration.gateway.conftest import rig as rig  # noqa: PLC0414  # a fixture

INPUTS = int(os.environ.get("NETACLAW_FUZZ_INPUTS", "20000"))
SEED = int(os.environ.get("NETACLAW_FUZZ_SEED", "1"))
PING = "/netaclaw.chat.v1.ChatService/Ping"
GROWTH_MIB = 40
ANSWER_S = 0.1
"""What is no whole request is not answered; after this time its client hangs up."""


def mutated(source: random.Random, seed: bytes) -> bytes:
    """A right input with a few wrong places, or none that is right."""
    body = bytearray(seed if source.random() < 0.8 else source.randbytes(source.randrange(60)))
    for _ in range(source.randrange(4)):
        place = source.randrange(len(body) + 1)
        match source.randrange(4):
            case 0:
                body[place:place] = source.randbytes(source.randrange(1, 5))
            case 1:
                del body[place : place + source.randrange(1, 9)]
            case 2:
                body[place : place + 1] = source.choice([b"\0", b"\xff", b"\r\n", b"=", b":", b"%"])
            case _:
                body += body[:place]
    return bytes(body[:4096])


def inputs(seed: bytes, share: float) -> Iterator[bytes]:
    source = random.Random(SEED)
    for _ in range(int(INPUTS * share)):
        yield mutated(source, seed)


def test_any_bytes_are_a_message_or_refused() -> None:
    for body in inputs(frame(b"hello"), 0.4):
        with contextlib.suppress(InvalidRequest):
            message = frames.message_of(body)
            assert frames.message_frame(message) == body


def test_any_text_is_bytes_or_refused() -> None:
    for body in inputs(b"AAAAAAVoZWxsbw==", 0.4):
        with contextlib.suppress(InvalidRequest):
            frames.message_of(frames.decode_text(body))


def test_any_header_is_metadata_or_refused_or_left_out() -> None:
    source = random.Random(SEED)
    for value in inputs(b"100m", 0.15):
        name = source.choice([b"x-a", b"x-a-bin", b"X A", b"\xff", b"grpc-timeout", b"cookie"])
        with contextlib.suppress(InvalidRequest):
            for key, found in metadata.from_headers([(name, value)]):
                assert key.isascii()
                assert isinstance(found, bytes) == key.endswith("-bin")
        with contextlib.suppress(InvalidRequest):
            assert metadata.timeout_of(value) >= 0
        coded = metadata.percent_encoded(value.decode("latin-1"))
        assert all(0x20 <= byte < 0x7F for byte in coded)


async def one(rig: Rig, raw: bytes) -> None:
    """One connection with these bytes; the server must answer or end it."""
    connection = await Connection.open(rig.web)
    try:
        await connection.send([raw])
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(ANSWER_S):
                await connection.reader.read(65536)
        with contextlib.suppress(OSError):
            connection.writer.write_eof()
        async with asyncio.timeout(15):
            with contextlib.suppress(ConnectionError):
                while await connection.reader.read(65536):
                    pass
    finally:
        connection.writer.transport.abort()


@pytest.mark.timeout(0)
async def test_any_bytes_on_a_connection_are_answered_or_ended(rig: Rig) -> None:
    source = random.Random(SEED)
    seeds = [
        b"".join(request(PING, [body], {"host": rig.web, "content-type": kind, "grpc-timeout": "1S"}, chunked=chunked))
        for body, kind in ((frame(b"hello"), BINARY), (b"AAAAAAVoZWxsbw==", TEXT))
        for chunked in (False, True)
    ]
    count = max(50, int(INPUTS * 0.05))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in range(0, count, 25):
        await asyncio.gather(*(one(rig, mutated(source, source.choice(seeds))) for _ in range(25)))
        if n == count // 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # what is loaded once is loaded now
        rig.orchestrator.seen.clear()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < GROWTH_MIB
    await one(rig, seeds[0])
    assert len(rig.orchestrator.seen) == 1
