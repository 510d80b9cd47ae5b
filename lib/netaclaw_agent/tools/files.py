"""The file tools: their manifests and their handlers on a workspace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest
from netaclaw_agent.tool import Handler, ToolError
from netaclaw_agent.tools.arguments import Arguments, shown
from netaclaw_agent.tools.file_editing import replace
from netaclaw_agent.tools.file_reading import count_lines, is_binary, read_range
from netaclaw_agent.tools.file_search import Search, compile_query
from netaclaw_agent.tools.globs import Glob
from netaclaw_agent.tools.results import text_result
from netaclaw_agent.tools.workspace import FoundFile, Workspace, components, printable

EDIT_FILE: Final = "edit_file"
LIST_FILES: Final = "list_files"
READ_FILE: Final = "read_file"
SEARCH_FILES: Final = "search_files"
WRITE_FILE: Final = "write_file"
FAMILY: Final = "files"

MAX_OUTPUT_BYTES = 256 * 1024
"""Most bytes of UTF-8 that a file tool gives back, its last lines not counted."""
MAX_WRITE_BYTES = 4 * 1024 * 1024
MAX_WALKED = 200_000
"""Most files that one call looks at."""

_PATH = {"type": "string", "description": "File or folder, relative to the workspace. Default: the whole workspace."}
_PATTERN = {
    "type": "string",
    "description": 'Glob such as "*.py", matched on the file name, or on the path if it contains "/" ("src/**/*.py").',
}


def _whole(low: int, high: int, default: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default, "description": description}


def _flag(default: bool, description: str) -> dict[str, Any]:
    return {"type": "boolean", "default": default, "description": description}


_LIST: dict[str, dict[str, Any]] = {
    "path": _PATH,
    "pattern": _PATTERN,
    "recursive": _flag(True, "Look into folders too."),
    "lines": _flag(False, "Count the lines of each text file."),
    "limit": _whole(1, 5000, 1000, "Most files to show; the totals count all."),
    "sort": {"type": "string", "enum": ["path", "size"], "default": "path", "description": "size: largest first."},
}
_READ: dict[str, dict[str, Any]] = {
    "path": {"type": "string", "description": "The file, relative to the workspace."},
    "offset": _whole(1, 2**31 - 1, 1, "Number of the first line."),
    "limit": _whole(1, 100_000, 2000, "Most lines."),
}
_SEARCH: dict[str, dict[str, Any]] = {
    "query": {"type": "string", "description": "Text to find in a line."},
    "path": _PATH,
    "regex": _flag(False, "The query is a regular expression (Python syntax)."),
    "pattern": _PATTERN,
    "before": _whole(0, 20, 0, "Lines to show before each match."),
    "after": _whole(0, 20, 0, "Lines to show after each match."),
    "ignore_case": _flag(False, "Capital and small letters are the same."),
    "limit": _whole(1, 1000, 200, "Most matches to show; the totals count all."),
}
_WRITE: dict[str, dict[str, Any]] = {
    "path": {"type": "string", "description": "The file, relative to the workspace. Missing folders are made."},
    "content": {"type": "string", "description": "The whole new content."},
}
_EDIT: dict[str, dict[str, Any]] = {
    "path": {"type": "string", "description": "The file, relative to the workspace."},
    "old_text": {"type": "string", "description": "The text to replace, exactly as it stands in the file."},
    "new_text": {"type": "string", "description": "What stands there afterwards; empty to delete."},
    "replace_all": _flag(False, "Replace every occurrence. Without it there must be exactly one."),
}


def _manifest(
    name: str,
    description: str,
    properties: dict[str, dict[str, Any]],
    required: list[str],
    *,
    effect: ToolEffect = ToolEffect.TOOL_EFFECT_PURE,
) -> ToolManifest:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolManifest(
        tool_name=name,
        description=description,
        parameters_json=json.dumps(schema),
        effect=effect,
        needs_workspace=True,
        writes_files=effect != ToolEffect.TOOL_EFFECT_PURE,
        family=FAMILY,
    )


FILE_TOOLS: tuple[ToolManifest, ...] = (
    _manifest(
        EDIT_FILE,
        "Replace one exact piece of a text file, or with replace_all every such piece. All or nothing is written.",
        _EDIT,
        ["path", "old_text", "new_text"],
        effect=ToolEffect.TOOL_EFFECT_EFFECTFUL,
    ),
    _manifest(
        LIST_FILES,
        'List files with their sizes in bytes, one "path<TAB>bytes" a line, with totals in the last line. Folders of '
        "tools (.git, node_modules, caches) are left out; links are not followed.",
        _LIST,
        [],
    ),
    _manifest(
        READ_FILE,
        "Read lines of a text file. When only a part is shown, the last line says which.",
        _READ,
        ["path"],
    ),
    _manifest(
        SEARCH_FILES,
        'Find lines in text files: "path:LINE:text" for matches, "path-LINE-text" for lines around them, totals in '
        "the last line.",
        _SEARCH,
        ["query"],
    ),
    _manifest(
        WRITE_FILE,
        "Write a whole text file, replacing what was there.",
        _WRITE,
        ["path", "content"],
        effect=ToolEffect.TOOL_EFFECT_IDEMPOTENT,
    ),
)


def file_handlers(workspace: Workspace) -> dict[str, Handler]:
    """Handlers of all file tools. They block and never suspend; refused arguments and paths are ToolErrors."""
    return {
        EDIT_FILE: _handler(workspace, _edit_file),
        LIST_FILES: _handler(workspace, _list_files),
        READ_FILE: _handler(workspace, _read_file),
        SEARCH_FILES: _handler(workspace, _search_files),
        WRITE_FILE: _handler(workspace, _write_file),
    }


def _handler(workspace: Workspace, run: Callable[[Workspace, str], str]) -> Handler:
    async def handle(call: ToolCallPart) -> ToolResult:
        return text_result(run(workspace, call.arguments_json))

    return handle


def _list_files(workspace: Workspace, arguments_json: str) -> str:
    arguments = Arguments.parse(arguments_json, _LIST)
    by_size = arguments.choice("sort", ("path", "size"), "path") == "size"
    with_lines = arguments.flag("lines", False)
    limit = arguments.whole("limit", 1000, low=1, high=5000)
    files, complete = _find(workspace, arguments, recursive=arguments.flag("recursive", True))
    if by_size:
        files.sort(key=lambda found: -found.size)  # stable: equal sizes stay in path order
    rows: list[str] = []
    room = MAX_OUTPUT_BYTES
    total_lines = 0
    for found in files:
        row = f"{found.path}\t{found.size}"
        if with_lines:
            count = _lines_in(workspace, found)
            total_lines += count or 0
            row += f"\t{'-' if count is None else count}"
        room -= len(row.encode()) + 1
        if len(rows) < limit and room >= 0:
            rows.append(row)
    count = len(files)
    shown_count = len(rows)
    rows.append(f"# {count} files, {sum(found.size for found in files)} bytes")
    if with_lines:
        rows[-1] += f", {total_lines} lines"
    if shown_count < count:
        rows.append(f"# truncated: showing {shown_count} of {count} files")
    if not complete:
        rows.append(f"# truncated: stopped looking after {MAX_WALKED} files; give a narrower path")
    return "\n".join(rows)


def _read_file(workspace: Workspace, arguments_json: str) -> str:
    arguments = Arguments.parse(arguments_json, _READ)
    path = arguments.text("path")
    first = arguments.whole("offset", 1, low=1, high=2**31 - 1)
    limit = arguments.whole("limit", 2000, low=1, high=100_000)
    with workspace.open_file(path) as file:
        if is_binary(file):
            raise ToolError(f"{shown(path)} is a binary file; only text files can be read")
        part = read_range(file, first, limit, MAX_OUTPUT_BYTES)
    if not part.total:
        return "# empty file"
    if first > part.total:
        raise ToolError(f"offset {first} is past the end: {shown(path)} has {part.total} lines")
    if first == 1 and part.last == part.total and not part.cut:
        return part.text
    text = part.text if part.text.endswith("\n") else part.text + "\n"
    note = f"# truncated: lines {first}-{part.last} of {part.total}"
    return text + note + (f", line {part.last} cut" if part.cut else "")


def _search_files(workspace: Workspace, arguments_json: str) -> str:
    arguments = Arguments.parse(arguments_json, _SEARCH)
    pattern = compile_query(
        arguments.text("query"), regex=arguments.flag("regex", False), ignore_case=arguments.flag("ignore_case", False)
    )
    search = Search(
        pattern,
        before=arguments.whole("before", 0, low=0, high=20),
        after=arguments.whole("after", 0, low=0, high=20),
        limit=arguments.whole("limit", 200, low=1, high=1000),
        max_bytes=MAX_OUTPUT_BYTES,
    )
    files, complete = _find(workspace, arguments, recursive=True)
    report = search.run(workspace, files)
    if not complete:
        report.lines.append(f"# stopped looking after {MAX_WALKED} files; give a narrower path")
    return report.text()


def _write_file(workspace: Workspace, arguments_json: str) -> str:
    arguments = Arguments.parse(arguments_json, _WRITE)
    path = arguments.text("path")
    data = arguments.text("content").encode()
    if len(data) > MAX_WRITE_BYTES:
        arguments.wrong("content", f"is {len(data)} bytes long, but at most {MAX_WRITE_BYTES} are allowed")
    workspace.write(path, data)
    return f"wrote {len(data)} bytes to {printable('/'.join(components(path)))}"


def _edit_file(workspace: Workspace, arguments_json: str) -> str:
    arguments = Arguments.parse(arguments_json, _EDIT)
    path = arguments.text("path")
    old, new = arguments.text("old_text"), arguments.text("new_text")
    with workspace.open_file(path) as file:
        found = replace(file, path, old, new, every=arguments.flag("replace_all", False), max_bytes=MAX_WRITE_BYTES)
    workspace.write(path, found.data)
    places = "1 place" if found.count == 1 else f"{found.count} places"
    return f"edited {places}, from line {found.first_line}, in {printable('/'.join(components(path)))}"


def _find(workspace: Workspace, arguments: Arguments, *, recursive: bool) -> tuple[list[FoundFile], bool]:
    """The files that path and pattern choose, in path order, and whether all were looked at."""
    path = arguments.text("path", ".")
    glob = Glob(arguments.text("pattern")) if arguments.has("pattern") else None
    depth = len(components(path))
    files: list[FoundFile] = []
    looked_at = 0
    for found in workspace.walk(path, recursive=recursive):
        looked_at += 1
        if looked_at > MAX_WALKED:
            break
        # A model that names a folder may mean the pattern from there or from the workspace's root.
        if glob is None or glob.matches(found.names) or glob.matches(found.names[depth:]):
            files.append(found)
    files.sort(key=lambda found: found.names)
    return files, looked_at <= MAX_WALKED


def _lines_in(workspace: Workspace, found: FoundFile) -> int | None:
    file = workspace.open_found(found)
    if file is None:
        return None
    with file:
        return count_lines(file)
