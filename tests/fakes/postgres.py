"""A real Postgres for tests: one embedded server per pytest worker, a fresh database for whoever asks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from netaclaw_chassis.ids import new_id
from netaclaw_store import embedded

T = TypeVar("T")


class PostgresServer:
    """A running server. `database` gives databases of their own to tests."""

    def __init__(self, server: embedded.Embedded) -> None:
        self._server = server

    @property
    def url(self) -> str:
        """The maintenance database; do not write there."""
        return self._server.url

    @contextmanager
    def database(self) -> Iterator[str]:
        """URL of an empty database, dropped at the end with whoever is still connected."""
        name = f"test_{new_id().replace('-', '')}"
        self._command(f'CREATE DATABASE "{name}"')
        try:
            yield self.url.replace("/postgres?", f"/{name}?", 1)
        finally:
            self._command(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _command(self, statement: str) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        _apart(run)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server on throw-away data; stop it and remove the data at the end."""
    # Directly below the temporary directory: pytest's own directories are closed to the account that runs Postgres.
    data_dir = Path(tempfile.mkdtemp(prefix="netaclaw-test-"))
    try:
        server = _apart(lambda: embedded.start(data_dir, fsync=False))
        try:
            yield PostgresServer(server)
        finally:
            _apart(server.stop)
    finally:
        shutil.rmtree(data_dir)


def _apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, also where the caller's thread has one running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()
