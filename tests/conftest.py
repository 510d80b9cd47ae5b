"""Fixtures that all tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest

from netaclaw_chassis.lifecycle import new_event_loop
from tests.fakes.postgres import PostgresServer, postgres_server


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the event loop that the services run on."""
    return {"product": new_event_loop}


@pytest.fixture(scope="session", name="postgres_server")
def shared_postgres_server() -> Iterator[PostgresServer]:
    """One Postgres per pytest worker, started when a test first asks for it."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of an empty database of the test's own."""
    with postgres_server.database() as url:
        yield url
