"""A conversation's tree as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netaclaw.session.v1.entry_pb2 import Entry, EntryKind
from netaclaw_cli.wording import one_line

ID_CHARS = 12
"""Of an entry's id, its last ones: the first ones are the time."""
_WIDTH = 80
_ON_PATHS = frozenset(
    {
        EntryKind.ENTRY_KIND_USER,
        EntryKind.ENTRY_KIND_ASSISTANT,
        EntryKind.ENTRY_KIND_COMPACTION,
        EntryKind.ENTRY_KIND_BRANCH_SUMMARY,
    }
)


def tree_lines(entries: Iterable[Entry], leaf_entry_id: str) -> Iterator[str]:
    """One line per entry that stands on a path, parents first; branches are indented, the leaf is marked."""
    children: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind in _ON_PATHS:
            children.setdefault(entry.parent_entry_id, []).append(entry)
    waiting = [(entry, 0) for entry in reversed(children.get("", []))]
    while waiting:
        entry, depth = waiting.pop()
        mark = "*" if entry.entry_id == leaf_entry_id else " "
        yield f"{mark} {entry.entry_id[-ID_CHARS:]} {'  ' * depth}{one_line(_words(entry), _WIDTH)}"
        below = children.get(entry.entry_id, [])
        deeper = depth + (len(below) > 1)
        waiting += [(child, deeper) for child in reversed(below)]


def _words(entry: Entry) -> str:
    if entry.kind == EntryKind.ENTRY_KIND_USER:
        return f"you: {entry.user.text}"
    if entry.kind == EntryKind.ENTRY_KIND_COMPACTION:
        return f"(summary of what is above: {entry.compaction.summary})"
    if entry.kind == EntryKind.ENTRY_KIND_BRANCH_SUMMARY:
        return f"(summary of a branch: {entry.branch_summary.summary})"
    text = "".join(part.text.text for part in entry.assistant.parts)
    calls = ", ".join(part.tool_call.tool_name for part in entry.assistant.parts if part.HasField("tool_call"))
    return f"agent: {text}" + (f" [{calls}]" if calls else "")
