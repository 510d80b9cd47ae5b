"""What the ways in cost: the gateway's own bridge and Envoy, in front of a service that streams at a pace."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bench.figures import Figure, alternate, median_figure
from bench.processes import ROOT, cpu_s, started
from netaclaw_cli import envoy

WATCH = "/netaclaw.chat.v1.ChatService/Watch"
STREAMS = 50
PER_SECOND = 50
SETTLE_S, WINDOW_S = 2.0, 8.0
EVENTS = 100_000
IDLE = 1000
PINGS = 300


@dataclass(frozen=True)
class Doors:
    """Addresses and processes."""

    service: str
    service_pid: int
    web: str
    gateway_pid: int
    envoy: str
    envoy_pid: int


@asynccontextmanager
async def doors() -> AsyncIterator[Doors]:
    """The service, a gateway and an Envoy, each a process."""
    with tempfile.TemporaryDirectory(prefix="netaclaw-bench-") as name:
        directory = Path(name)
        async with (
            started("bench.paced_service") as said,
            _gateway(said["address"], directory) as (ports, gateway_pid),
        ):
            listen = f"127.0.0.1:{_free_port()}"
            address = said["address"]
            options = envoy.EnvoyOptions(listen, address, address, ports["public"], ports["web"], ports["authz"])
            config = directory / "envoy.yaml"
            config.write_text(envoy.configuration(options))
            process = await asyncio.create_subprocess_exec(*envoy.arguments(config), stderr=asyncio.subprocess.DEVNULL)
            try:
                await _until_open(listen)
                yield Doors(address, int(said["pid"]), ports["web"], gateway_pid, listen, process.pid)
            finally:
                process.kill()
                await process.wait()


@asynccontextmanager
async def _gateway(service: str, directory: Path) -> AsyncIterator[tuple[dict[str, str], int]]:
    announcement = directory / "gateway.ports"
    environ = {
        "NETACLAW_ANNOUNCE": str(announcement),
        "NETACLAW_LOG_LEVEL": "WARNING",
        "NETACLAW_ORCHESTRATOR_ADDRESS": service,
        "NETACLAW_STORE_ADDRESS": service,
        "NETACLAW_REQUESTS_PER_SECOND_PER_OWNER": "0",
        "NETACLAW_REQUESTS_PER_SECOND_PER_ADDRESS": "0",
        **{f"NETACLAW_GATEWAY_{port}PORT": "0" for port in ("", "WEB_", "AUTHZ_")},
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "netaclaw_gateway"), cwd=ROOT, env=os.environ | environ
    )
    try:
        while not announcement.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.02)  # it tells by a file
        yield json.loads(announcement.read_text()), process.pid
    finally:
        process.terminate()
        await process.wait()


async def cpu() -> Sequence[Figure]:
    """bridge.cpu and envoy.cpu: CPU seconds for 100,000 events of 50 streams at 50 events a second. Floor: the serving
    process with no bridge before it, its streams read over gRPC."""
    async with doors() as opened:
        floor = await _spent(opened.service_pid, lambda: _read_grpc(opened.service))
        bridge = await _spent(opened.gateway_pid, lambda: _read_web(opened.web))
        through = await _spent(opened.envoy_pid, lambda: _read_web(opened.envoy))
    return [
        Figure(name, "CPU s", value, floor, (value / floor, value / floor))
        for name, value in (("bridge.cpu", bridge), ("envoy.cpu", through))
    ]


async def _spent(pid: int, reader: Any) -> float:
    """CPU seconds of a process for 100,000 events, in a window in which all streams run."""
    counted = [0]

    async def read() -> None:
        async for events in reader():
            counted[0] += events

    readers = [asyncio.create_task(read()) for _ in range(STREAMS)]
    await asyncio.sleep(SETTLE_S)  # the measured state, not its beginning
    before, events = cpu_s(pid), counted[0]
    await asyncio.sleep(WINDOW_S)  # the window itself
    spent, events = cpu_s(pid) - before, counted[0] - events
    for task in readers:
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    if not 0.95 <= events / (STREAMS * PER_SECOND * WINDOW_S) <= 1.05:
        raise RuntimeError(f"the pace was not kept: {events} events in the window")
    return spent * EVENTS / events


def _asked(rate: int, seconds: float) -> bytes:
    return f"{rate},{seconds}".encode()


async def _read_grpc(address: str) -> AsyncIterator[int]:
    async with grpc.aio.insecure_channel(address) as channel:
        start: Any = channel.unary_stream(WATCH)
        async for _ in start(_asked(PER_SECOND, SETTLE_S + WINDOW_S + 2)):
            yield 1


async def _read_web(address: str) -> AsyncIterator[int]:
    reader, writer = await open_web(address, _asked(PER_SECOND, SETTLE_S + WINDOW_S + 2))
    try:
        left = 0
        while data := await reader.read(65536):
            left += data.count(b"x")
            yield left // 80
            left %= 80
    finally:
        writer.transport.abort()


async def open_web(
    address: str, message: bytes, method: str = WATCH
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A gRPC-Web stream, its headers read."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = b"\0" + len(message).to_bytes(4, "big") + message
    kind = "application/grpc-web+proto"
    head = f"POST {method} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def latency() -> Sequence[Figure]:
    """bridge.latency: milliseconds of a short call through the bridge, on an open connection. Floor: the same call over
    gRPC to the service itself; the difference is what the bridge adds."""
    async with doors() as opened, grpc.aio.insecure_channel(opened.service) as channel:
        direct: Any = channel.unary_unary(WATCH)
        host, _, port = opened.web.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST {WATCH} HTTP/1.1\r\nhost: {opened.web}\r\ncontent-type: application/grpc-web+proto\r\n"
            "content-length: 5\r\n\r\n"
        ).encode() + b"\0\0\0\0\0"

        async def through() -> float:
            began = time.perf_counter()
            writer.write(head)
            await reader.readuntil(b"\r\n0\r\n\r\n")
            return (time.perf_counter() - began) * 1000

        async def bare() -> float:
            began = time.perf_counter()
            await direct(b"")
            return (time.perf_counter() - began) * 1000

        values, floors = await alternate(PINGS, through, bare)
        writer.close()
    return [median_figure("bridge.latency", "ms", values, floors)]


async def idle() -> Sequence[Figure]:
    """bridge.idle1000: MiB that 1,000 silent streams add to the gateway. Floor: the same in Envoy."""
    async with doors() as opened:
        grown = []
        for address, pid in ((opened.web, opened.gateway_pid), (opened.envoy, opened.envoy_pid)):
            before = _pss_mib(pid)
            streams = [await open_web(address, _asked(0, 60)) for _ in range(IDLE)]
            grown.append(_pss_mib(pid) - before)
            for _, writer in streams:
                writer.transport.abort()
    ratio = grown[0] / grown[1]
    return [Figure("bridge.idle1000", "MiB", grown[0], grown[1], (ratio, ratio))]


def _pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel tells no memory")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def _until_open(address: str) -> None:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.02)  # it tells nobody when it listens
            else:
                writer.close()
                return
