"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import hypothesis
import pytest

from tests.fakes.postgres import PostgresServer, postgres_server

# An example that takes a second is one on a busy machine; one that takes five is one of a parser that has gone astray.
hypothesis.settings.register_profile("side by side", deadline=timedelta(seconds=5))
hypothesis.settings.load_profile("side by side")


@pytest.fixture(scope="session", name="postgres_server")
def shared_postgres_server() -> Iterator[PostgresServer]:
    """One Postgres per pytest worker, started when a test first asks for it."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a database of the test's own, with the store's schema and no rows."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a database of the test's own, without a schema."""
    with postgres_server.database(empty=True) as url:
        yield url
