"""The edit tool as a model meets it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw_agent.loop import drive
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.kept_output import KeptOutput
from netaclaw_agent.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "a.py").write_text("one\ntwo\ntwo and 三\n")
    (tmp_path / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "image.bin").write_bytes(b"\x89\0two")
    (tmp_path / "link").symlink_to("a.py")
    with Workspace.open(tmp_path) as opened:
        yield opened


def edit(workspace: Workspace, path: str, old: str, new: str, **more: Any) -> str:
    arguments = json.dumps({"path": path, "old_text": old, "new_text": new, **more})

    async def run() -> ToolResult:
        return await file_handlers(workspace)["edit_file"](ToolCallPart(arguments_json=arguments))

    return drive(run()).content


def test_the_one_place_is_replaced_and_nothing_else(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a.py").chmod(0o750)
    assert edit(workspace, "./a.py", "two and 三", "3 & 四") == "edited 1 place, from line 3, in a.py"
    assert (tmp_path / "a.py").read_text() == "one\ntwo\n3 & 四\n"
    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "dos.txt", "image.bin", "link"]


def test_all_places_are_replaced_when_that_is_asked_for(workspace: Workspace, tmp_path: Path) -> None:
    assert edit(workspace, "a.py", "two", "", replace_all=True) == "edited 2 places, from line 2, in a.py"
    assert (tmp_path / "a.py").read_text() == "one\n\n and 三\n"


def test_bytes_that_are_not_touched_stay_as_they_are(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9 one\r\n\xff")
    edit(workspace, "latin", "one", "two")
    assert (tmp_path / "latin").read_bytes() == b"caf\xe9 two\r\n\xff"


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("a.py", "two", "2", "occurs more than once in 'a.py' (lines 2, 3)"),
        ("a.py", "three", "3", "does not occur in 'a.py'; read the file"),
        ("a.py", "one\n  two", "x", "with other spaces or line breaks"),
        ("dos.txt", "one\ntwo", "x", r"its lines end in \r\n"),
        ("a.py", "", "x", "old_text is empty"),
        ("a.py", "one", "one", "nothing would change"),
        ("image.bin", "two", "x", "binary"),
        ("missing", "two", "x", "does not exist"),
        ("link", "one", "x", "is a link"),
        ("../a.py", "one", "x", "cannot leave the workspace"),
    ],
)
def test_what_is_not_certain_is_refused_and_nothing_is_written(
    workspace: Workspace, tmp_path: Path, *, path: str, old: str, new: str, words: str
) -> None:
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ToolError) as caught:
        edit(workspace, path, old, new)
    assert words in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_places_that_overlap_are_not_one_place(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "o").write_text("aaa")
    with pytest.raises(ToolError, match="more than once"):
        edit(workspace, "o", "aa", "b")


def test_a_file_never_grows_beyond_what_may_be_written(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 1000)
    with pytest.raises(ToolError, match="would become longer"):
        edit(workspace, "long", "x", "y" * 10_000, replace_all=True)
    (tmp_path / "longest").write_text("x" * 4_000_000)
    with pytest.raises(ToolError, match="would become longer"):  # and not by making it: that would be 16 TB
        edit(workspace, "longest", "x", "y" * 4_000_000, replace_all=True)
    (tmp_path / "longer").write_text("x" * 5_000_000)
    with pytest.raises(ToolError, match="is longer than"):
        edit(workspace, "longer", "x", "y")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=30), st.integers(0, 200))
def test_kept_output_is_whole_or_has_its_beginning_and_its_end(pieces: list[str], limit: int) -> None:
    kept = KeptOutput(limit)
    for piece in pieces:
        kept.add(piece)
    whole = "".join(pieces)
    assert kept.size == len(whole.encode())
    if kept.text() == whole:
        return
    assert len(whole.encode()) > limit // 2
    head, _, tail = kept.text().partition("\n[… ")
    gone, _, tail = tail.partition(" of ")
    tail = tail.partition(" bytes cut here …]\n")[2]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len((head + tail).encode()) == kept.size - int(gone)
    assert len((head + tail).encode()) <= limit
