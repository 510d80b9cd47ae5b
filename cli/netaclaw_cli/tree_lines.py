"""A conversation's tree as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netaclaw.session.v1.entry_pb2 import Entry, EntryKind
from netaclaw_cli.wording import clean, one_line
from netaclaw_client import SessionView

ID_CHARS = 12
"""Of an entry's id, its last ones: the first ones are the time."""
ROOT = "root"
"""Names the place before every first message; no id holds it."""
_WIDTH = 80
_LINES = 20
"""Of the answer that is shown when a conversation is opened again, the last ones."""
_ON_PATHS = frozenset(
    {
        EntryKind.ENTRY_KIND_USER,
        EntryKind.ENTRY_KIND_ASSISTANT,
        EntryKind.ENTRY_KIND_COMPACTION,
        EntryKind.ENTRY_KIND_BRANCH_SUMMARY,
    }
)


def tree_lines(entries: Iterable[Entry], leaf_entry_id: str) -> Iterator[str]:
    """One line per entry that stands on a path, parents first; branches are indented, the leaf is marked.

    The root has a line of its own where several first messages hang on it, or where one stands there.
    """
    children: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind in _ON_PATHS:
            children.setdefault(entry.parent_entry_id, []).append(entry)
    roots = children.get("", [])
    if len(roots) > 1 or (roots and not leaf_entry_id):
        yield f"{' ' if leaf_entry_id else '*'} {ROOT:{ID_CHARS}} (before the first message)"
    waiting = [(entry, int(len(roots) > 1)) for entry in reversed(roots)]
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


def last_exchange(view: SessionView) -> Iterator[str]:
    """What was said last on the path: the newest message, and what was answered to it so far."""
    answer = ""
    at = view.entries.get(view.leaf_entry_id)
    while at is not None and at.kind != EntryKind.ENTRY_KIND_USER:
        answer = answer or "".join(part.text.text for part in at.assistant.parts).strip()
        at = view.entries.get(at.parent_entry_id)
    if at is not None:
        yield f"you: {one_line(at.user.text, _WIDTH)}"
    if answer:
        yield _end_of(clean(answer))


def _end_of(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(lines if len(lines) <= _LINES else ["…", *lines[-_LINES:]])
