"""A workspace: one directory, and file operations that cannot leave it.

All code here blocks; it runs in a worker that has no event loop. Nothing here reads the clock or holds a lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import shown
from netaclaw_agent.tools.confined_open import has_openat2, open_by_kernel, open_by_walk

SKIPPED_FOLDERS = frozenset(
    {
        ".cache",
        ".git",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".venv",
        "__pycache__",
        "node_modules",
    }
)
"""Not entered when a folder above them is walked. Named outright, they can be listed."""

_LEADS_OUT = "leads out of the workspace or through a link that may not be followed"
_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "leads through something that is not a folder",
    errno.EISDIR: "is a folder",
    errno.ELOOP: _LEADS_OUT,
    errno.EXDEV: _LEADS_OUT,
    errno.EACCES: "may not be opened: permission denied",
    errno.EPERM: "may not be opened: permission denied",
    errno.ENXIO: "is not a regular file",
    errno.ENAMETOOLONG: "is too long for a path",
    errno.EROFS: "cannot be written: the file system is read-only",
    errno.ENOSPC: "cannot be written: no space left",
    errno.EDQUOT: "cannot be written: the quota is used up",
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file met by a walk."""

    names: tuple[str, ...]
    """Its path's components beneath the workspace."""
    size: int
    """In bytes."""

    @property
    def path(self) -> str:
        """As a model sees it: relative to the workspace, no line breaks, no bytes that are not UTF-8."""
        return printable("/".join(self.names))


class Workspace:
    """Owns a directory descriptor until `close`. Paths are relative to it, in str, with "/" between components.

    Failures that the caller's path explains are ToolErrors.
    """

    def __init__(self, root_fd: int) -> None:
        """Takes ownership of the descriptor."""
        self._root_fd = root_fd
        self.checked_by_kernel = has_openat2(root_fd)
        """False where openat2 is missing: then no link is followed, not even one that stays inside."""

    @classmethod
    def open(cls, root: int | str | os.PathLike[str]) -> Workspace:
        """Open from a path, or from a directory descriptor, which stays the caller's. Raises OSError."""
        if isinstance(root, int):
            return cls(os.dup(root))
        return cls(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def close(self) -> None:
        os.close(self._root_fd)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_folder(self, path: str) -> bool:
        """True for a folder, False for a regular file; anything else is a ToolError."""
        with _explained(path):
            fd = self._open(components(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise _not_regular(path)
        return stat.S_ISDIR(mode)

    def open_file(self, path: str) -> BinaryIO:
        """Open a regular file for reading. Never waits: a FIFO or device is a ToolError."""
        names = components(path)
        with _explained(path):
            fd = self._open(names, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                raise ToolError(f"{shown(path)} is a folder, not a file")
            if not stat.S_ISREG(mode):
                raise _not_regular(path)
            return os.fdopen(fd, "rb")
        except BaseException:
            os.close(fd)
            raise

    def open_folder(self, path: str) -> int:
        """Open a folder; the descriptor is the caller's. Anything else is a ToolError."""
        names = components(path)
        with _explained(path):
            return self._open(names, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_found(self, found: FoundFile) -> BinaryIO | None:
        """Open a file that a walk met; None when it has gone, changed its kind or may not be read since."""
        try:
            fd = self._open(found.names, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, links=False)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return os.fdopen(fd, "rb")
        os.close(fd)
        return None

    def walk(self, path: str, *, recursive: bool = True) -> Iterator[FoundFile]:
        """The regular files beneath a folder, or the one file that `path` names; no order is promised.

        Links are not followed, SKIPPED_FOLDERS are not entered, and folders that cannot be read are passed over.
        """
        names = tuple(components(path))
        if not self.is_folder(path):
            with self.open_file(path) as file:
                yield FoundFile(names, os.fstat(file.fileno()).st_size)
            return
        files, folders = self._scan(names, links=True)
        yield from files
        while recursive and folders:
            # Opened from the root each time, so that a deep tree needs no more than one descriptor.
            files, inner = self._scan(folders.pop(), links=False)
            folders.extend(inner)
            yield from files

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file: readers see the old content or the new one, never a part. Makes missing folders.

        An existing file keeps its permissions. A link is refused, not followed.
        """
        names = components(path)
        if not names or path.endswith(("/", "/.")):
            raise ToolError(f"{shown(path)} names a folder; give the path of a file")
        with _explained(path):
            folder_fd = self._make_folders(names[:-1])
            try:
                _replace(folder_fd, names[-1], data, _mode_to_keep(folder_fd, names[-1], path))
            finally:
                os.close(folder_fd)

    def _open(self, names: Sequence[str], flags: int, *, links: bool = True) -> int:
        names = names or ["."]
        if self.checked_by_kernel:
            return open_by_kernel(self._root_fd, names, flags, links=links)
        return open_by_walk(self._root_fd, names, flags)

    def _scan(self, names: tuple[str, ...], *, links: bool) -> tuple[list[FoundFile], list[tuple[str, ...]]]:
        """Files of a folder, and the folders in it that a walk enters; nothing when it cannot be read."""
        files: list[FoundFile] = []
        folders: list[tuple[str, ...]] = []
        try:
            fd = self._open(names, os.O_RDONLY | os.O_DIRECTORY, links=links)
        except OSError:
            return files, folders
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    # Reads of an entry go through the descriptor, so they must end before it is closed.
                    with contextlib.suppress(OSError):
                        if entry.is_file(follow_symlinks=False):
                            files.append(FoundFile((*names, entry.name), entry.stat(follow_symlinks=False).st_size))
                        elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                            folders.append((*names, entry.name))
        except OSError:
            pass  # what was read before the failure is real
        finally:
            os.close(fd)
        return files, folders

    def _make_folders(self, names: Sequence[str]) -> int:
        """Open a folder, making what is missing of it, and return its descriptor."""
        fd = self._open([], os.O_RDONLY | os.O_DIRECTORY)
        for count in range(1, len(names) + 1):
            outer = fd
            try:
                fd = self._open_or_make(outer, names[:count])
            finally:
                os.close(outer)
        return fd

    def _open_or_make(self, outer_fd: int, names: Sequence[str]) -> int:
        try:
            return self._open(names, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(names[-1], dir_fd=outer_fd)
            return self._open(names, os.O_RDONLY | os.O_DIRECTORY)


def components(path: str) -> list[str]:
    """The names in a relative path, without "." and empty ones; [] is the workspace itself."""
    if "\0" in path:
        raise ToolError("a path must not contain a NUL character")
    if path.startswith("/"):
        raise ToolError(f"{shown(path)} is an absolute path; give it relative to the workspace")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError(f'{shown(path)} contains ".."; paths cannot leave the workspace')
    return names


def printable(name: str) -> str:
    """A file name as one line of clean text: control characters escaped, foreign bytes replaced."""
    text = os.fsencode(name).decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn failures of the operating system into words about the path."""
    try:
        yield
    except UnicodeEncodeError:
        raise ToolError(f"{shown(path)} cannot be a path on this machine") from None
    except OSError as error:
        why = _WORDS.get(error.errno or 0, f"cannot be used: {error.strerror}")
        raise ToolError(f"{shown(path)} {why}") from None


def _not_regular(path: str) -> ToolError:
    return ToolError(f"{shown(path)} is not a regular file (a pipe, socket or device)")


def _mode_to_keep(folder_fd: int, name: str, path: str) -> int | None:
    """Permissions of the file to be replaced; None when there is none. Refuses what is not a regular file."""
    try:
        mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise ToolError(f"{shown(path)} is a link; write to the file that it points to")
    if stat.S_ISDIR(mode):
        raise ToolError(f"{shown(path)} is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise _not_regular(path)
    return stat.S_IMODE(mode)


def _replace(folder_fd: int, name: str, data: bytes, mode: int | None) -> None:
    """Write beside the target and rename, so that a link put in its place meanwhile is replaced, not followed."""
    beside = f".netaclaw-{os.urandom(8).hex()}.tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder_fd)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(fd, mode & 0o777)
            file.flush()
            os.fsync(fd)
        os.replace(beside, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder_fd)
        raise
