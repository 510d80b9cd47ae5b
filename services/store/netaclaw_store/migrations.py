"""Forward-only, numbered migrations under an advisory lock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

import asyncpg

from netaclaw_chassis.lifecycle import StartError

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_LOCK = 0x6E657461636C6177
"""The advisory lock's number: eight letters of our name."""

_VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    version integer PRIMARY KEY,
    name text NOT NULL,
    apply_time timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    sql: str


def load() -> list[Migration]:
    """All migrations in order, numbered from 1 without gaps."""
    found = []
    for file in (resources.files(__package__) / "sql" / "migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text()))
    found.sort(key=lambda each: each.version)
    if [each.version for each in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered from 1 without gaps")
    return found


async def migrate(connection: asyncpg.Connection) -> int:
    """Bring the schema to this store's version, each step in a transaction of its own; returns the version it has.

    A schema one version ahead is accepted, because migrations expand before they contract; one further ahead raises
    StartError. Stores that start together take turns.
    """
    migrations = load()
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    try:
        await connection.execute(_VERSION_TABLE)
        version = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_version")
        if version > len(migrations) + 1:
            raise StartError(
                f"the database has schema {version}, this store knows {len(migrations)}: start a newer netaclaw"
            )
        for step in migrations[version:]:
            async with connection.transaction():
                await connection.execute(step.sql)
                await connection.execute(
                    "INSERT INTO schema_version (version, name) VALUES ($1, $2)", step.version, step.name
                )
        return max(int(version), len(migrations))
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
