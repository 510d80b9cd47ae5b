"""A real Postgres for tests: one embedded server per pytest worker, a fresh database for whoever asks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from netaclaw_chassis.ids import new_id
from netaclaw_store import embedded
from netaclaw_store.migrations import migrate

T = TypeVar("T")

_MIGRATED = "migrated"


class PostgresServer:
    """A running server. `database` gives databases of their own to tests."""

    def __init__(self, server: embedded.Embedded) -> None:
        self._server = server
        self._has_migrated = False

    @property
    def url(self) -> str:
        """The maintenance database; do not write there."""
        return self._server.url

    @contextmanager
    def database(self, *, empty: bool = False) -> Iterator[str]:
        """URL of a database with the store's schema and no rows, dropped at the end with whoever is still connected.

        `empty`: without the schema, too.
        """
        name = f"test_{new_id().replace('-', '')}"
        if not empty and not self._has_migrated:  # once: a copy costs less than the migrations
            self._command(f'CREATE DATABASE "{_MIGRATED}"')
            _apart(lambda: _with_connection(self._url_of(_MIGRATED), migrate))
            self._has_migrated = True
        self._command(f'CREATE DATABASE "{name}"' + ("" if empty else f' TEMPLATE "{_MIGRATED}"'))
        try:
            yield self._url_of(name)
        finally:
            self._command(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _url_of(self, name: str) -> str:
        return self.url.replace("/postgres?", f"/{name}?", 1)

    def _command(self, statement: str) -> None:
        _apart(lambda: _with_connection(self.url, lambda connection: connection.execute(statement)))


async def _with_connection(url: str, work: Callable[[asyncpg.Connection], Awaitable[object]]) -> None:
    connection = await asyncpg.connect(url)
    try:
        await work(connection)
    finally:
        await connection.close()


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
