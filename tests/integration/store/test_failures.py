"""A database that goes away: safe words, nothing lost, and a way back without a restart."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import from_rpc
from netaclaw_store import embedded
from netaclaw_store.database import Database, close_pool, open_pool
from netaclaw_store.embedded_home import recorded_base
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import Store, append, entry_write, refused, running_store, text


@pytest.fixture
async def server() -> AsyncIterator[embedded.Embedded]:
    """A Postgres of the test's own."""
    data_dir = Path(tempfile.mkdtemp(prefix="netaclaw-test-"))
    server = await embedded.start(data_dir, fsync=False)
    yield server
    await server.stop()
    shutil.rmtree(data_dir)


@pytest.fixture
async def fragile(server: embedded.Embedded) -> AsyncIterator[Store]:
    """A store on a server that the test may stop."""
    async with running_store(StoreSettings(database_url=server.url, port=0, internal_port=0)) as running:
        await running.beat()
        yield running


async def test_calls_are_unavailable_while_the_database_is_away_and_work_again_after(
    fragile: Store, server: embedded.Embedded
) -> None:
    turn = await fragile.new_turn()
    await server.stop()
    request = turn.request(entry_write(turn.assistant(text("kept"))))
    for call in (append(fragile, request), fragile.begin(turn.session_id), fragile.tree(turn.session_id)):
        async with refused(Reason.REASON_DATABASE_UNAVAILABLE):
            await call
    again = await embedded.start(server.home.cluster.parent, fsync=False)
    try:
        await fragile.beat()
        assert len(await fragile.tree(turn.session_id)) == 2
    finally:
        server.process = again.process


async def test_a_cut_connection_is_replaced_without_a_word_to_readers(store: Store) -> None:
    turn = await store.new_turn()
    await store.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert len(await store.tree(turn.session_id)) == 2


async def test_a_database_that_takes_no_new_connections_is_unavailable_until_it_does(store: Store) -> None:
    turn = await store.new_turn()
    [[name]] = await store.query("SELECT current_database()")
    maintenance = await asyncpg.connect(store.url, database="postgres")
    try:
        await maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await maintenance.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        request = turn.request(entry_write(turn.assistant(text("kept"))))
        for call in (append(store, request), store.tree(turn.session_id)):
            async with refused(Reason.REASON_DATABASE_UNAVAILABLE):
                await call
        await maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    finally:
        await maintenance.close()
    await append(store, request)
    assert len(await store.tree(turn.session_id)) == 2


@pytest.mark.parametrize("state", ["53100", "53200", "25006", "57014", "58030"])
async def test_a_database_that_takes_no_work_is_unavailable_and_the_same_append_works_later(
    store: Store, state: str
) -> None:
    turn = await store.new_turn()
    await store.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'no space left in canary' USING ERRCODE = '{state}'; END $$"
    )
    await store.query("CREATE TRIGGER full_disk BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse()")
    request = turn.request(entry_write(turn.assistant(text("kept"))))
    for call in (append(store, request), store.begin(turn.session_id, when_busy=WHEN_BUSY_ENQUEUE, request_id="r")):
        async with refused(Reason.REASON_DATABASE_UNAVAILABLE) as errors:
            await call
        assert "canary" not in str(errors[0])
    await store.query("DROP TRIGGER full_disk ON event")
    await append(store, request)
    assert len(await store.tree(turn.session_id)) == 2


async def test_what_was_to_be_stored_stands_in_no_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    turn = await store.new_turn()
    await store.query("ALTER TABLE entry ADD CONSTRAINT odd CHECK (search_text NOT LIKE '%canary%')")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await turn.append(entry_write(turn.assistant(text("the canary sings"))))
    assert from_rpc(caught.value).reason == Reason.REASON_INTERNAL
    logged = caplog.text + "".join(record.exc_text or "" for record in caplog.records)
    assert "CheckViolationError 23514" in logged
    assert "canary" not in logged


async def test_a_migration_under_load_fails_no_call(store: Store) -> None:
    turn = await store.new_turn()

    async def work() -> None:
        for n in range(30):
            await turn.append(entry_write(turn.assistant(text(str(n)))))
            await store.tree(turn.session_id)

    async def migrate() -> None:
        for n in range(10):
            await store.query(f"ALTER TABLE session ADD COLUMN extra_{n} text NOT NULL DEFAULT 'x'")
            await store.query(f"ALTER TABLE entry ADD COLUMN extra_{n} integer")
            await store.query("REINDEX INDEX CONCURRENTLY entry_by_parent")

    await asyncio.gather(work(), migrate())
    assert len(await store.replay(turn.session_id)) == 34


def _pid(pid_file: Path) -> int:
    return int(pid_file.read_text().splitlines()[0])


async def _readable(store: Store, session_id: str) -> bool:
    """Whether the tree can be read; the only excuse is that the database is away."""
    try:
        return len(await store.tree(session_id)) == 2
    except grpc.aio.AioRpcError as error:
        if from_rpc(error).reason != Reason.REASON_DATABASE_UNAVAILABLE:
            raise
        return False


async def test_an_embedded_server_that_dies_is_started_again() -> None:
    data_dir = Path(tempfile.mkdtemp(prefix="netaclaw-test-"))
    try:
        settings = StoreSettings(data_dir=data_dir, port=0, internal_port=0, embedded_fsync=False)
        async with running_store(settings) as store:
            await store.beat()
            turn = await store.new_turn()
            pid_file = recorded_base(data_dir) / "postgres" / "postmaster.pid"
            killed = _pid(pid_file)
            os.kill(killed, signal.SIGKILL)
            async with asyncio.timeout(20):
                # Connections may outlive the postmaster for a moment: wait for the new one, too.
                while not await _readable(store, turn.session_id) or _pid(pid_file) == killed:
                    pass
        assert not pid_file.exists()
    finally:
        embedded.stop_postmaster(data_dir)
        shutil.rmtree(data_dir)


async def test_settings_of_two_stores_can_share_a_database(settings: StoreSettings) -> None:
    async with running_store(settings) as one, running_store(dataclasses.replace(settings)) as two:
        await one.beat()
        turn = await one.new_turn()
        assert await two.tree(turn.session_id) == await one.tree(turn.session_id)
        begun = await asyncio.gather(one.begin(turn.session_id), two.begin(turn.session_id), return_exceptions=True)
        assert all(isinstance(each, BaseException) for each in begun)


async def test_a_read_that_is_cancelled_leaves_nothing_begun_on_its_connection(postgres_url: str) -> None:
    pool = await open_pool(postgres_url)
    database = Database(postgres_url, pool)
    parsed = asyncio.Event()

    async def cancelled(connection: asyncpg.Connection) -> None:
        await connection.prepare("SELECT count(*) FROM session")  # as in the middle of a fetch: parsed, and not yet run
        parsed.set()
        await asyncio.Event().wait()

    try:
        reading = asyncio.create_task(database.read(cancelled))
        await parsed.wait()
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert await database.snapshot(lambda connection: connection.fetchval("SELECT 1")) == 1
    finally:
        await close_pool(pool)
