"""A stop at any moment leaves no connection behind: an open one would keep the event loop from closing."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from netaclaw_store.database import Database, close_pool, open_pool

_LISTENING = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''"


async def test_a_listener_whose_listening_fails_is_gone(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancelled(*_arguments: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncpg.Connection, "add_listener", cancelled)
    pool = await open_pool(postgres_url)
    try:
        with pytest.raises(asyncio.CancelledError):
            await Database(postgres_url, pool).listen("channel", lambda _payload: None)
        async with asyncio.timeout(5):
            while await pool.fetch(_LISTENING):
                pass
    finally:
        await close_pool(pool)
