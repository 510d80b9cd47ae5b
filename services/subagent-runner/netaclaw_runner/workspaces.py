"""Workspaces by name: roots that the operator named, and a directory of its own for every owner."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import InvalidRequest, NetaclawError

DEFAULT = "default"
"""The owner's own directory; the empty name means it too."""

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
_PRIVATE = 0o700


class Workspaces:
    """Opens workspaces. Names come from clients, paths never do."""

    def __init__(self, data_dir: Path, named: Mapping[str, str]) -> None:
        self._owners_dir = data_dir / "workspaces"
        self._named = {name: Path(path) for name, path in named.items()}

    def open(self, name: str, owner_id: str) -> int:
        """A directory descriptor, the caller's to close. Raises WORKSPACE_NOT_FOUND, or INVALID_FIELD for an owner id
        that cannot name a directory."""
        if name in ("", DEFAULT) and DEFAULT not in self._named:
            return self._open_owners(owner_id)
        path = self._named.get(name or DEFAULT)
        if path is None:
            raise _not_found(name)
        return _open(path, name)

    def _open_owners(self, owner_id: str) -> int:
        if _OWNER.fullmatch(owner_id) is None:
            raise InvalidRequest([("owner_id", "cannot name a workspace")])
        path = self._owners_dir / owner_id
        try:
            path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        except OSError as error:
            raise _not_found(DEFAULT) from error
        return _open(path, DEFAULT)


def _open(path: Path, name: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _not_found(name) from error


def _not_found(name: str) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_WORKSPACE_NOT_FOUND, "no workspace of that name here", metadata={"workspace": name}
    )
