"""A running Envoy for tests, with the configuration that the project ships."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from netaclaw_cli import envoy

START_WITHIN_S = 30.0


@asynccontextmanager
async def open_envoy(
    services: str, gateway: Mapping[str, str], directory: Path, *, store: str = "", **more: object
) -> AsyncIterator[str]:
    """Envoy in front of services at one address, or a store of its own, asking a gateway; yields its host:port."""
    listen = f"127.0.0.1:{_free_port()}"
    options = envoy.EnvoyOptions(
        listen=listen,
        orchestrator=services,
        store=store or services,
        gateway=gateway["public"],
        web=gateway["web"],
        authz=gateway["authz"],
        **more,  # type: ignore[arg-type]  # its own fields
    )
    config = directory / "envoy.yaml"
    config.write_text(envoy.configuration(options))
    log = (directory / "envoy.log").open("wb")
    process = await asyncio.create_subprocess_exec(*envoy.arguments(config), stdout=log, stderr=log)
    try:
        await _until_open(listen, process, directory / "envoy.log")
        yield listen
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        log.close()


async def _until_open(address: str, process: asyncio.subprocess.Process, log: Path) -> None:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            assert process.returncode is None, await asyncio.to_thread(log.read_text)
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.02)  # it tells nobody when it listens
            else:
                writer.close()
                return


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
