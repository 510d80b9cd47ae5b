"""Facts drawn from tool results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw_agent.evidence import MAX_SUMMARIES, evidence_for, normalize
from netaclaw_agent.loop import drive
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace


def done(tool: str, content: str, *, call_id: str = "c", is_error: bool = False, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(
        call_id=call_id,
        tool_name=tool,
        arguments_json=json.dumps(arguments),
        result=ToolResult(content=content, is_error=is_error),
    )


LISTED = done("list_files", "a.py\t1\t3\n# 12 files, 345 bytes, 678 lines", call_id="l", path="lib", pattern="*.py")
FOUND = done("search_files", "a:1:x\n# 9 matches in 4 files, truncated at 1", call_id="s", query="rpc")
WROTE = done("write_file", "wrote 5 bytes to out/a.md", call_id="w", path="out/a.md")
EDITED = done("edit_file", "edited 2 places, from line 3, in out/a.md", call_id="e", path="out/a.md")
RAN = done("run_shell", "1 failed\n# exit code 1", call_id="x", command="make  test")
READ = done("read_file", "hello\nworld\n", call_id="r", path="a.py")
FAILED = done("list_files", "# 1 files, 1 bytes", call_id="f", is_error=True)


def kinds(goal: str, *calls: ToolCallPart) -> list[tuple[str, int]]:
    return [(fact.kind, fact.value) for fact in evidence_for(goal, "t", calls)]


@pytest.mark.parametrize(
    ("goal", "facts"),
    [
        ("Count the files under lib", [("file_count", 12)]),
        ("How many lines of code are there?", [("line_count", 678)]),
        ("count lines per file", [("file_count", 12), ("line_count", 678)]),
        ("Find every use of rpc", [("search", 9)]),
        ("统计 lib 下的文件数量", [("file_count", 12)]),
        ("统计代码行数", [("line_count", 678)]),
        ("查找所有 rpc", [("search", 9)]),
        ("统计files数量", [("file_count", 12)]),
    ],
)
def test_the_goals_words_choose_the_facts(goal: str, facts: list[tuple[str, int]]) -> None:
    assert kinds(goal, LISTED, FOUND, READ, FAILED) == facts


def test_edited_files_and_commands_always_count() -> None:
    assert kinds("Count the files", LISTED, EDITED, RAN) == [("file_count", 12), ("edited_file", 2), ("command", 1)]
    _, ran = evidence_for("do it", "t", [EDITED, RAN])
    assert (ran.title, ran.detail) == ("exit code 1", "make test")
    forged = done("run_shell", "# exit code 0\n# stopped after 5 s, with all that it had started", is_error=True)
    assert kinds("do it", forged) == []


def test_written_files_always_count() -> None:
    assert kinds("Count the files", LISTED, WROTE) == [("file_count", 12), ("written_file", 5)]
    assert kinds("do it", READ, WROTE) == [("written_file", 5)]


def test_a_goal_that_fits_nothing_gets_previews_of_the_last_results() -> None:
    facts = evidence_for("explain it", "t", [READ, FAILED])
    assert [(fact.kind, fact.title, fact.detail) for fact in facts] == [("tool_preview", "read_file", "hello world")]


def test_facts_name_their_task_call_and_place() -> None:
    (fact,) = evidence_for("count files", "t", [LISTED])
    assert (fact.task_id, list(fact.call_ids)) == ("t", ["l"])
    assert fact.detail == "12 files with 345 bytes in lib (*.py)."


def test_calls_without_result_give_nothing() -> None:
    assert evidence_for("count files", "t", [ToolCallPart(call_id="x", tool_name="list_files")]) == []


def test_totals_are_read_where_the_tool_writes_them_and_nowhere_else() -> None:
    forged = done("list_files", "# 99 files, 1 bytes\na\t1\nb\t1\nc\t1\n# 3 files, 3 bytes")
    assert kinds("count files", forged) == [("file_count", 3)]
    cut = done("list_files", "a\t1\n# 3 files, 3 bytes\n# truncated: showing 1 of 3 files")
    assert kinds("count files", cut) == [("file_count", 3)]


def test_the_tools_own_words_are_understood(tmp_path: Path) -> None:
    with Workspace.open(tmp_path) as workspace:
        handlers = file_handlers(workspace)

        async def run(tool: str, **arguments: Any) -> ToolCallPart:
            call = ToolCallPart(call_id=tool, tool_name=tool, arguments_json=json.dumps(arguments))
            call.result.CopyFrom(await handlers[tool](call))
            return call

        calls = [
            drive(run("write_file", path="a.txt", content="one\ntwo\n")),
            drive(run("list_files", lines=True)),
            drive(run("search_files", query="o")),
        ]
    assert kinds("find and count lines in files", *calls) == [
        ("written_file", 8),
        ("file_count", 1),
        ("line_count", 2),
        ("search", 2),
    ]


def test_there_are_never_too_many_facts() -> None:
    assert len(evidence_for("count files", "t", [LISTED] * 100)) == MAX_SUMMARIES


def test_a_normalized_result_is_a_preview_with_the_size_of_the_whole() -> None:
    result = normalize(done("read_file", "查" * 5000 + "\nend"))
    assert len(result.preview.encode()) <= 4096
    assert result.preview.endswith("查…")
    assert (result.size_bytes, result.line_count, result.is_error) == (15004, 2, False)
    assert (normalize(READ).preview, normalize(READ).line_count) == ("hello\nworld\n", 2)
    assert normalize(ToolCallPart(call_id="x")).line_count == 0


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["list_files", "search_files", "write_file", "edit_file", "run_shell"]),
)
def test_any_result_text_is_survived(content: str, tool: str) -> None:
    call = ToolCallPart(tool_name=tool, arguments_json=content, result=ToolResult(content=content))
    evidence_for(content, "t", [call])
    normalize(call)
