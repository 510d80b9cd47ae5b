"""What a worker may do to its runner by writing much: nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from netaclaw.subagent.v1.envelope_pb2 import Token
from netaclaw_runner import protocol
from netaclaw_runner.channel import Channel
from netaclaw_runner.child_log import ChildLog
from netaclaw_runner.limits import Limits
from netaclaw_runner.worker_link import WorkerLink

RUN = "run-1"
UNREAD_BYTES = 64 * 1024


@asynccontextmanager
async def _channel() -> AsyncIterator[tuple[Channel, socket.socket]]:
    """The runner's end, and the worker's, which does not block."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    limits = Limits()
    channel = await Channel.open(
        ours, line_bytes=limits.line_bytes, unread_bytes=UNREAD_BYTES, unsent_bytes=limits.unsent_bytes
    )
    with theirs:
        yield channel, theirs
        channel.close()


@pytest.mark.parametrize(
    "line", [b"\n", b"noise\n", protocol.encode(RUN, Token(text="a"))], ids=["empty lines", "noise", "lines"]
)
async def test_a_worker_that_floods_its_channel_leaves_the_others_their_turns(line: bytes) -> None:
    unused: Any = None
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)  # to the next turn

    async def flood(theirs: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(theirs, line * 20_000)
        theirs.close()

    async with _channel() as (channel, theirs):
        link = WorkerLink(unused, channel, unused, run_id=RUN, limits=Limits(), child_log=ChildLog(1024))
        flooding = asyncio.create_task(flood(theirs))
        others = asyncio.create_task(take_turns())
        received = sum([1 async for _ in link.received()])
        others.cancel()
        await flooding

    assert received in (0, 20_000)
    assert turns > 20


async def test_lines_without_a_byte_fill_no_memory() -> None:
    """The worker is made to wait before much is held, however short its lines are."""
    async with _channel() as (channel, theirs):
        sent = 0
        stuck = 0
        while stuck < 100 and sent < 64 * UNREAD_BYTES:
            try:
                sent += theirs.send(b"\n" * UNREAD_BYTES)
                stuck = 0
            except BlockingIOError:
                stuck += 1
            await asyncio.sleep(0)  # for the runner's end to read
        held = 0
        theirs.close()
        while await channel.receive() is not None:
            held += 1

    assert sent < 64 * UNREAD_BYTES
    assert held == sent
