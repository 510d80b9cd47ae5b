"""A running store on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import Store, running_store


@pytest.fixture
def settings(postgres_url: str) -> StoreSettings:
    return StoreSettings(
        database_url=postgres_url, port=0, internal_port=0, workspaces={"project": "/"}, notice_poll_seconds=0.1
    )


@pytest.fixture
async def store(settings: StoreSettings) -> AsyncIterator[Store]:
    """A store that one live instance has registered with."""
    async with running_store(settings) as running:
        await running.beat()
        yield running
