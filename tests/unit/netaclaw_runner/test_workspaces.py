"""Workspaces are named, never pathed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_runner.workspaces import Workspaces


def _path_of(fd: int) -> Path:
    try:
        return Path(os.readlink(f"/proc/self/fd/{fd}"))
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["", "default"])
def test_the_default_is_the_owners_own_directory_closed_to_others(tmp_path: Path, name: str) -> None:
    path = _path_of(Workspaces(tmp_path, {}).open(name, "owner-1"))

    assert path == tmp_path / "workspaces" / "owner-1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_named_root_is_opened_as_it_is(tmp_path: Path) -> None:
    assert _path_of(Workspaces(tmp_path / "data", {"docs": str(tmp_path)}).open("docs", "")) == tmp_path


@pytest.mark.parametrize("name", ["other", "../x", "/", "docs/..", "missing"])
def test_an_unknown_name_is_not_found(tmp_path: Path, name: str) -> None:
    workspaces = Workspaces(tmp_path, {"docs": str(tmp_path), "missing": str(tmp_path / "no")})
    with pytest.raises(NetaclawError) as caught:
        workspaces.open(name, "owner")
    assert caught.value.reason == Reason.REASON_WORKSPACE_NOT_FOUND
    assert caught.value.metadata == {"workspace": name}


@pytest.mark.parametrize("owner", ["", "..", ".hidden", "a/b", "a\0b", "../../etc", "x" * 200])
def test_an_owner_id_that_cannot_name_a_directory_is_refused(tmp_path: Path, owner: str) -> None:
    with pytest.raises(NetaclawError) as caught:
        Workspaces(tmp_path, {}).open("", owner)
    assert caught.value.reason == Reason.REASON_INVALID_FIELD
    assert not (tmp_path / "workspaces").exists()
