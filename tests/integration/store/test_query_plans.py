"""Every statement is served by indexes, whatever the tables hold."""

from __future__ import annotations

import re

import asyncpg

from netaclaw_store.database import SERVER_SETTINGS
from netaclaw_store.migrations import migrate
from netaclaw_store.queries import SQL

SCANS = {
    "changed_since": "the slow poll behind the notifications",
    "forget_dead_instances": "a handful of rows, when an instance starts",
}
"""Statements that may read a whole table, and why."""


FILL = """
INSERT INTO session (session_id, owner_id, workspace)
    SELECT 's' || n, 'o' || n % 20, '' FROM generate_series(1, 500) n;
INSERT INTO entry (session_id, entry_id, owner_id, entry_no, parent_entry_id, kind, state, body, body_bytes)
    SELECT 's' || n % 500, 'e' || n, 'o' || n % 20, n, 'e' || n - 500, 2, 2, '', 0 FROM generate_series(1, 20000) n;
INSERT INTO event (session_id, seq, owner_id, kind, entry_id)
    SELECT 's' || n % 500, n, 'o' || n % 20, 10, 'e' || n FROM generate_series(1, 20000) n;
INSERT INTO turn (session_id, turn_id, owner_id, request_id, made_session)
    SELECT 's' || n % 500, 't' || n, 'o' || n % 20, 'r' || n, n % 2 = 0 FROM generate_series(1, 5000) n;
INSERT INTO subagent_session (session_id, task_id, owner_id, parent_entry_id, parent_agent_id, batch_entry_id,
    source_type, name, goal, status, model, sort_order, task)
    SELECT 's' || n % 500, 'k' || n, 'o' || n % 20, 'e' || n, 'a', 'e' || n, 'clone', '', '', 'completed', '', 0, ''
    FROM generate_series(1, 5000) n;
INSERT INTO subagent_entry (session_id, task_id, n, owner_id, message)
    SELECT 's' || n % 500, 'k' || n % 5000, n, 'o' || n % 20, '' FROM generate_series(1, 5000) n;
INSERT INTO content (session_id, content_id, chunk_no, owner_id, entry_id, start_byte, end_byte, body)
    SELECT 's' || n % 500, 'c' || n, 0, 'o' || n % 20, 'e' || n, 0, 1, 'x' FROM generate_series(1, 5000) n;
INSERT INTO queued_message (session_id, message_no, owner_id, request_id, request_hash, when_busy, content, start_seq)
    SELECT 's' || n % 500, n, 'o' || n % 20, 'r' || n, '', 2, '', 0 FROM generate_series(1, 5000) n;
INSERT INTO entry_draft (session_id, entry_id, channel, owner_id, generation, attempt, body)
    SELECT 's' || n % 500, 'e' || n, 1, 'o' || n % 20, 1, 1, '' FROM generate_series(1, 5000) n;
INSERT INTO agent (owner_id, agent_id, name, body)
    SELECT 'o' || n % 20, 'a' || n, 'a' || n, '' FROM generate_series(1, 1000) n;
INSERT INTO api_key (key_id, owner_id, secret_hash)
    SELECT 'k' || n, 'o' || n % 20, convert_to(n::text, 'UTF8') FROM generate_series(1, 1000) n;
INSERT INTO instance (instance_id, incarnation_id, address, expire_time)
    SELECT 'i' || n, '', '', now() FROM generate_series(1, 1000) n;
ANALYZE;
"""


async def _plans(url: str) -> dict[str, str]:
    """The generic plan of every named block, on filled tables, with the settings of the store's connections."""
    connection = await asyncpg.connect(url, server_settings=dict(SERVER_SETTINGS))
    try:
        await migrate(connection)
        await connection.execute(FILL)
        plans = {}
        for name, sql in SQL.items():
            parameters = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
            await connection.execute(f"PREPARE {name}_plan AS {sql}")
            nulls = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
            rows = await connection.fetch(f"EXPLAIN EXECUTE {name}_plan{nulls}")
            plans[name] = "\n".join(row[0] for row in rows)
        return plans
    finally:
        await connection.close()


async def test_no_statement_reads_a_whole_table(postgres_url: str) -> None:
    plans = await _plans(postgres_url)
    scanning = {name for name, plan in plans.items() if "Seq Scan" in plan}
    assert scanning <= set(SCANS)


async def test_each_step_of_a_path_probes_the_primary_key(postgres_url: str) -> None:
    plans = await _plans(postgres_url)
    for name in ("begin_turn", "path_ids"):
        step = plans[name].split("Recursive Union")[1]
        probe = r"Index Cond: \(\(session_id = \$\d+\) AND \(entry_id = p\w*\.parent_entry_id\)\)"
        assert re.search(probe, step), plans[name]


async def test_questions_are_found_without_the_rest_of_the_tree(postgres_url: str) -> None:
    plans = await _plans(postgres_url)
    assert "entry_question" in plans["question_ids"]
    assert "session_compacting" in plans["orphaned_compactions"]


async def test_delegations_of_an_entry_are_found_without_the_rest_of_the_tree(postgres_url: str) -> None:
    plan = (await _plans(postgres_url))["delegations_of_entry"]
    assert "subagent_session_by_parent" in plan
    assert "entry_by_parent" in plan
