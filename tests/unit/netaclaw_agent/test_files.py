"""The file tools as a model meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw_agent.loop import drive
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools import file_search, files
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS, manifest
from netaclaw_agent.tools.file_reading import count_lines, read_range
from netaclaw_agent.tools.files import FILE_TOOLS, MAX_OUTPUT_BYTES, file_handlers
from netaclaw_agent.tools.globs import Glob
from netaclaw_agent.tools.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "src/b.py").write_text("Two more\nno end")
    (tmp_path / "src/deep/c.ts").write_text("two\r\n")
    (tmp_path / "src/image.bin").write_bytes(b"\x89\0two" * 10)
    return tmp_path


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    with Workspace.open(root) as opened:
        yield opened


def call(workspace: Workspace, tool: str, **arguments: Any) -> str:
    async def run() -> ToolResult:
        return await file_handlers(workspace)[tool](ToolCallPart(tool_name=tool, arguments_json=json.dumps(arguments)))

    result = drive(run())
    assert not result.is_error
    return result.content


def test_every_file_tool_has_a_handler_and_the_reverse(workspace: Workspace) -> None:
    assert list(file_handlers(workspace)) == [tool.tool_name for tool in FILE_TOOLS]


def test_the_catalogue_is_in_name_order_and_its_schemas_are_objects() -> None:
    names = [tool.tool_name for tool in KNOWN_TOOLS]
    assert names == sorted(set(names))
    for tool in KNOWN_TOOLS:
        schema = json.loads(tool.parameters_json)
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert set(schema["required"]) <= set(schema["properties"])
        assert manifest(tool.tool_name) is tool


def test_a_list_gives_paths_sizes_and_totals(workspace: Workspace) -> None:
    assert call(workspace, "list_files") == (
        "a.py\t14\nsrc/b.py\t15\nsrc/deep/c.ts\t5\nsrc/image.bin\t50\n# 4 files, 84 bytes"
    )


def test_a_list_counts_lines_and_leaves_binary_files_out(workspace: Workspace) -> None:
    assert call(workspace, "list_files", path="src", lines=True) == (
        "src/b.py\t15\t2\nsrc/deep/c.ts\t5\t1\nsrc/image.bin\t50\t-\n# 3 files, 70 bytes, 3 lines"
    )


def test_a_cut_list_still_counts_all(workspace: Workspace) -> None:
    assert call(workspace, "list_files", sort="size", limit=2).splitlines() == [
        "src/image.bin\t50",
        "src/b.py\t15",
        "# 4 files, 84 bytes",
        "# truncated: showing 2 of 4 files",
    ]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("src/*.py", ["src/b.py"]),
        ("**/*.ts", ["src/deep/c.ts"]),
        ("deep/*", ["src/deep/c.ts"]),
        ("*.{ts,bin}", ["src/deep/c.ts", "src/image.bin"]),
        ("*.go", []),
    ],
)
def test_patterns_choose_by_name_or_by_path(workspace: Workspace, pattern: str, paths: list[str]) -> None:
    rows = call(workspace, "list_files", path="src" if pattern == "deep/*" else ".", pattern=pattern).splitlines()
    assert [row.split("\t")[0] for row in rows[:-1]] == paths


def test_a_list_of_one_folder_or_one_file(workspace: Workspace) -> None:
    assert call(workspace, "list_files", recursive=False) == "a.py\t14\n# 1 files, 14 bytes"
    assert call(workspace, "list_files", path="src/b.py") == "src/b.py\t15\n# 1 files, 15 bytes"


def test_a_list_says_when_it_stopped_looking(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_WALKED", 2)
    assert call(workspace, "list_files").splitlines()[-1].startswith("# truncated: stopped looking after 2 files")


def test_a_whole_file_is_given_as_it_is(workspace: Workspace) -> None:
    assert call(workspace, "read_file", path="src/b.py") == "Two more\nno end"


def test_a_part_of_a_file_says_which_lines_it_is(workspace: Workspace) -> None:
    assert call(workspace, "read_file", path="a.py", offset=2, limit=1) == "two\n# truncated: lines 2-2 of 3"
    assert call(workspace, "read_file", path="src/b.py", offset=2) == "no end\n# truncated: lines 2-2 of 2"


def test_an_empty_file_is_said_to_be_empty(workspace: Workspace, root: Path) -> None:
    (root / "empty").touch()
    assert call(workspace, "read_file", path="empty") == "# empty file"


def test_reading_is_bounded_at_whole_lines(workspace: Workspace, root: Path) -> None:
    (root / "long.txt").write_text("x" * 999 + "\n" + ("y" * 999 + "\n") * 999)
    text = call(workspace, "read_file", path="long.txt")
    assert text.endswith("\n# truncated: lines 1-262 of 1000")
    assert len(text.encode()) < MAX_OUTPUT_BYTES + 100


def test_one_endless_line_is_cut_and_said_to_be(workspace: Workspace, root: Path) -> None:
    (root / "long.txt").write_text("x" * 3_000_000 + "\nend")
    text = call(workspace, "read_file", path="long.txt")
    assert text.endswith("\n# truncated: lines 1-1 of 2, line 1 cut")
    assert len(text) < MAX_OUTPUT_BYTES + 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "src/image.bin"}, "binary file"),
        ({"path": "a.py", "offset": 9}, "offset 9 is past the end: 'a.py' has 3 lines"),
        ({"path": "src"}, "is a folder"),
        ({"path": "none.py"}, "does not exist"),
        ({"path": 3}, "path must be a string"),
        ({}, "path is missing"),
    ],
)
def test_what_cannot_be_read_is_explained(workspace: Workspace, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        call(workspace, "read_file", **arguments)


def test_bytes_that_are_no_text_are_replaced(workspace: Workspace, root: Path) -> None:
    (root / "latin.txt").write_bytes(b"caf\xe9\n")
    assert call(workspace, "read_file", path="latin.txt") == "caf\ufffd\n"


def test_a_search_gives_places_and_totals(workspace: Workspace) -> None:
    assert call(workspace, "search_files", query="two", ignore_case=True) == (
        "a.py:2:two\nsrc/b.py:1:Two more\nsrc/deep/c.ts:1:two\n# 3 matches in 3 files"
    )
    assert call(workspace, "search_files", query="nowhere") == "# 0 matches in 0 files"


def test_a_search_shows_context_in_groups_that_do_not_overlap(workspace: Workspace, root: Path) -> None:
    (root / "n.txt").write_text("".join(f"n{number}\n" for number in range(1, 13)))
    assert call(
        workspace, "search_files", query="n[2479]$", regex=True, path="n.txt", before=1, after=1
    ).splitlines() == [
        "n.txt-1-n1",
        "n.txt:2:n2",
        "n.txt-3-n3",
        "n.txt:4:n4",
        "n.txt-5-n5",
        "n.txt-6-n6",
        "n.txt:7:n7",
        "n.txt-8-n8",
        "n.txt:9:n9",
        "n.txt-10-n10",
        "# 4 matches in 1 files",
    ]
    assert call(workspace, "search_files", query="n2$|n9", regex=True, path="n.txt", after=1).splitlines() == [
        "n.txt:2:n2",
        "n.txt-3-n3",
        "--",
        "n.txt:9:n9",
        "n.txt-10-n10",
        "# 2 matches in 1 files",
    ]


def test_groups_of_different_files_are_apart(workspace: Workspace) -> None:
    lines = call(workspace, "search_files", query="two", after=1, pattern="*.{py,ts}").splitlines()
    assert lines == ["a.py:2:two", "a.py-3-three", "--", "src/deep/c.ts:1:two", "# 2 matches in 2 files"]


def test_a_cut_search_still_counts_all(workspace: Workspace) -> None:
    text = call(workspace, "search_files", query="o", limit=2)
    assert text.splitlines() == ["a.py:1:one", "a.py:2:two", "# 5 matches in 3 files, truncated at 2"]


def test_a_long_line_is_shown_around_its_match(workspace: Workspace, root: Path) -> None:
    (root / "long.txt").write_text("x" * 5000 + "needle" + "y" * 5000)
    line = call(workspace, "search_files", query="needle").splitlines()[0]
    assert "needle" in line
    assert len(line) < 530


def test_search_output_is_bounded(workspace: Workspace, root: Path) -> None:
    (root / "many.txt").write_text(("match " + "查" * 450 + "\n") * 1000)
    text = call(workspace, "search_files", query="match", limit=1000)
    assert len(text.encode()) < MAX_OUTPUT_BYTES + 100
    assert re.search(r"# 1000 matches in 1 files, truncated at \d+$", text)


def test_a_search_passes_over_huge_files_and_says_so(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_search, "MAX_SEARCHED_BYTES", 14)
    assert call(workspace, "search_files", query="two").splitlines()[-2].startswith("# passed over 2 files")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": "(", "regex": True}, "not a valid regular expression"),
        ({"query": "a{99999999999}", "regex": True}, "not a valid regular expression"),
        ({"query": ""}, "query must be"),
        ({"query": "a\nb"}, "line break"),
        ({"query": "a", "path": "none"}, "does not exist"),
        ({"query": "a", "pattern": ""}, "pattern must be"),
        ({"query": "a", "before": 21}, "before must be from 0 to 20"),
        ({"query": "a", "regex": "yes"}, "regex must be true or false"),
    ],
)
def test_a_bad_search_is_explained(workspace: Workspace, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        call(workspace, "search_files", **arguments)


def test_a_literal_query_is_no_pattern(workspace: Workspace, root: Path) -> None:
    (root / "r.txt").write_text("a+b\naab\n")
    assert call(workspace, "search_files", query="a+b") == "r.txt:1:a+b\n# 1 matches in 1 files"


def test_a_written_file_is_there_byte_for_byte(workspace: Workspace, root: Path) -> None:
    assert call(workspace, "write_file", path="./out//new.md", content="查\r\n") == "wrote 5 bytes to out/new.md"
    assert (root / "out/new.md").read_bytes() == "查\r\n".encode()


@pytest.mark.timeout(10)
def test_globs_with_many_stars_end(workspace: Workspace) -> None:
    names = ["a" * 200] * 20
    assert not Glob("*a" * 100 + "b").matches(names)
    assert not Glob("**/" * 100 + "b").matches(names)


def test_globs_with_too_many_alternatives_are_refused() -> None:
    with pytest.raises(ToolError, match="more than 64 alternatives"):
        Glob("{a,b}" * 20)


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"bb", b"\r\n"]), max_size=30),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_a_range_of_lines_is_what_splitting_gives(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], first: int, limit: int, room: int
) -> None:
    data = b"".join(pieces)
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    lines = lines if lines[-1] else lines[:-1]
    path = tmp_path_factory.getbasetemp() / "range"
    path.write_bytes(data)
    with path.open("rb") as file:
        part = read_range(file, first, limit, room)
        file.seek(0)
        assert count_lines(file) == part.total == len(lines)
    wanted = b"".join(lines[first - 1 : first - 1 + limit])
    assert wanted.startswith(part.text.encode())
    assert len(part.text) <= room
    if len(wanted) <= room:
        assert part.text.encode() == wanted
        assert not part.cut
    elif not part.cut:
        assert part.text.encode() == b"".join(lines[first - 1 : part.last])
