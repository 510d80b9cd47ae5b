"""Evidence: structured facts drawn from a subagent's tool results, chosen by what its goal asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.session.v1.subagent_pb2 import EvidenceSummary, NormalizedToolResult
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools import files, shell
from netaclaw_agent.tools.arguments import parse_object

FILE_COUNT: Final = "file_count"
LINE_COUNT: Final = "line_count"
SEARCH: Final = "search"
WRITTEN_FILE: Final = "written_file"
EDITED_FILE: Final = "edited_file"
COMMAND: Final = "command"
TOOL_PREVIEW: Final = "tool_preview"

MAX_PREVIEW_BYTES = 4 * 1024
"""Most bytes of UTF-8 in a preview."""
MAX_SUMMARIES = 16
"""Most summaries of one task."""
_MAX_PREVIEWS = 3
_SHORT = 160

_COUNT_WORDS = re.compile(
    r"\b(count|counts|counting|number of|how many|total|totals|tally)\b|多少|数量|统计|计数|几个|总数", re.I
)
_FILE_WORDS = re.compile(
    r"\b(files?|documents?|modules?|list|largest|biggest|smallest|sizes?)\b|文件|文档|模块|最大|最小", re.I
)
_LINE_WORDS = re.compile(r"\b(lines?|loc|sloc)\b|行数|代码行|几行|多少行", re.I | re.A)
_SEARCH_WORDS = re.compile(
    r"\b(find|search|grep|locate|look for|where|which|occurrences?|uses?|usages?|matches|mentions?|every)\b"
    r"|查找|搜索|搜寻|寻找|找到|找出|哪里|哪些|出现",
    re.I | re.A,  # ASCII borders, so that words count next to Chinese ones too
)

_LIST_TOTALS = re.compile(r"^# (\d{1,18}) files, (\d{1,18}) bytes(?:, (\d{1,18}) lines)?$")
_SEARCH_TOTALS = re.compile(r"^# (\d{1,18}) matches in (\d{1,18}) files(?:, truncated at \d+)?$")
_WRITTEN = re.compile(r"^wrote (\d{1,18}) bytes to (.+)$")
_EDITED = re.compile(r"^edited (\d{1,18}) places?, from line \d{1,18}, in (.+)$")
_EXIT = re.compile(rf"^{re.escape(shell.EXIT_LINE)}(\d{{1,3}})$")


def normalize(call: ToolCallPart) -> NormalizedToolResult:
    """A call's result in one shape for all tools; a call without a result gives an empty one."""
    content = call.result.content
    return NormalizedToolResult(
        call_id=call.call_id,
        tool_name=call.tool_name,
        preview=_preview(content),
        size_bytes=call.result.size_bytes or len(content.encode()),
        line_count=content.count("\n") + (not content.endswith("\n") and bool(content)),
        is_error=call.result.is_error,
    )


def evidence_for(goal: str, task_id: str, calls: Sequence[ToolCallPart]) -> list[EvidenceSummary]:
    """Facts for people, in call order, at most MAX_SUMMARIES.

    Written and edited files and commands always count. Of the other results those that the goal's words ask for; when
    none fits, previews of the last results that were no errors. Figures come from the tools' own words, never from a
    model's.
    """
    done = [call for call in calls if call.HasField("result") and not call.result.is_error]
    wanted = _wanted(goal)
    found = [fact for call in done for fact in _facts(task_id, call, wanted) if fact.kind in wanted]
    if not found:
        found = [_preview_fact(task_id, call) for call in done[-_MAX_PREVIEWS:]]
    return found[:MAX_SUMMARIES]


def _wanted(goal: str) -> set[str]:
    wanted = {WRITTEN_FILE, EDITED_FILE, COMMAND}
    about_lines = _LINE_WORDS.search(goal) is not None
    if about_lines:
        wanted.add(LINE_COUNT)
    if _FILE_WORDS.search(goal) or (_COUNT_WORDS.search(goal) and not about_lines):
        wanted.add(FILE_COUNT)
    if _SEARCH_WORDS.search(goal):
        wanted.add(SEARCH)
    return wanted


def _facts(task_id: str, call: ToolCallPart, wanted: set[str]) -> Iterable[EvidenceSummary]:
    kinds, reader = _READERS.get(call.tool_name, _NONE)
    return () if wanted.isdisjoint(kinds) else reader(task_id, call)


def _listing(task_id: str, call: ToolCallPart) -> Iterable[EvidenceSummary]:
    totals = _totals(_LIST_TOTALS, call)
    if totals is None:
        return
    count, size, lines = totals.groups()
    place = _place(_arguments(call))
    detail = f"{count} files with {size} bytes in {place}."
    yield _fact(task_id, call, FILE_COUNT, title=f"{count} files", detail=detail, value=int(count))
    if lines is not None:
        detail = f"{lines} lines in {count} files in {place}."
        yield _fact(task_id, call, LINE_COUNT, title=f"{lines} lines", detail=detail, value=int(lines))


def _search(task_id: str, call: ToolCallPart) -> Iterable[EvidenceSummary]:
    totals = _totals(_SEARCH_TOTALS, call)
    if totals is None:
        return
    matches, count = totals.groups()
    arguments = _arguments(call)
    query = _short(str(arguments.get("query", "")))
    detail = f"{matches} matches of “{query}” in {count} files in {_place(arguments)}."
    yield _fact(task_id, call, SEARCH, title=f"{matches} matches", detail=detail, value=int(matches))


def _written(task_id: str, call: ToolCallPart) -> Iterable[EvidenceSummary]:
    match = _WRITTEN.match(call.result.content)
    if match is not None:
        size, path = match.groups()
        detail = f"{size} bytes in {_short(path)}."
        yield _fact(task_id, call, WRITTEN_FILE, title=f"wrote {_short(path)}", detail=detail, value=int(size))


def _edited(task_id: str, call: ToolCallPart) -> Iterable[EvidenceSummary]:
    match = _EDITED.match(call.result.content)
    if match is not None:
        count, path = match.groups()
        detail = f"{count} places changed in {_short(path)}."
        yield _fact(task_id, call, EDITED_FILE, title=f"edited {_short(path)}", detail=detail, value=int(count))


def _command(task_id: str, call: ToolCallPart) -> Iterable[EvidenceSummary]:
    match = _EXIT.match(call.result.content.rsplit("\n", 1)[-1])
    if match is not None:
        code = match.group(1)
        command = _short(str(_arguments(call).get("command", "")))
        yield _fact(task_id, call, COMMAND, title=f"exit code {code}", detail=command, value=int(code))


_Reader = tuple[tuple[str, ...], Callable[[str, ToolCallPart], Iterable[EvidenceSummary]]]
_NONE: _Reader = ((), lambda task_id, call: ())
_READERS: dict[str, _Reader] = {
    files.EDIT_FILE: ((EDITED_FILE,), _edited),
    files.LIST_FILES: ((FILE_COUNT, LINE_COUNT), _listing),
    files.SEARCH_FILES: ((SEARCH,), _search),
    files.WRITE_FILE: ((WRITTEN_FILE,), _written),
    shell.RUN_SHELL: ((COMMAND,), _command),
}
"""By tool: the kinds of facts that its results hold, and what reads them."""


def _preview_fact(task_id: str, call: ToolCallPart) -> EvidenceSummary:
    detail = _short(call.result.content) or "(no text)"
    return _fact(task_id, call, TOOL_PREVIEW, title=call.tool_name, detail=detail, value=0)


def _fact(task_id: str, call: ToolCallPart, kind: str, *, title: str, detail: str, value: int) -> EvidenceSummary:
    return EvidenceSummary(task_id=task_id, kind=kind, title=title, detail=detail, value=value, call_ids=[call.call_id])


def _totals(pattern: re.Pattern[str], call: ToolCallPart) -> re.Match[str] | None:
    """The totals among the last lines; notes about truncation may follow them."""
    last = call.result.content.rsplit("\n", 3)[-3:]
    return next((match for line in reversed(last) if (match := pattern.match(line))), None)


def _arguments(call: ToolCallPart) -> dict[str, Any]:
    try:
        return parse_object(call.arguments_json)
    except ToolError:
        return {}


def _place(arguments: dict[str, Any]) -> str:
    """Where a call looked, in words."""
    path = arguments.get("path")
    pattern = arguments.get("pattern")
    place = "the workspace" if not isinstance(path, str) or path in ("", ".", "./") else _short(path)
    return f"{place} ({_short(pattern)})" if isinstance(pattern, str) and pattern else place


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"


def _preview(content: str) -> str:
    data = content.encode()
    if len(data) <= MAX_PREVIEW_BYTES:
        return content
    return data[: MAX_PREVIEW_BYTES - 3].decode(errors="ignore") + "…"
