"""Tool results as text that a message can hold: clean UTF-8 of bounded size."""

from __future__ import annotations

from netaclaw.session.v1.entry_pb2 import ToolResult

MAX_RESULT_BYTES = 64 * 1024
"""Most bytes of UTF-8 that a tool call part holds of its result."""

_NOTICE_ROOM = 128


def clean(text: str) -> str:
    """The text with lone surrogates, which no protobuf string can hold, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_result(text: str, *, is_error: bool = False) -> ToolResult:
    """A result of the text, cleaned."""
    return ToolResult(content=clean(text), is_error=is_error)


def cut_middle(text: str, limit: int = MAX_RESULT_BYTES) -> str:
    """The text in at most `limit` bytes of UTF-8: unchanged, or its head and tail around a line that says what is gone.

    Three quarters of the room go to the head; the tail is kept because totals stand in last lines. Cuts fall between
    characters.
    """
    data = text.encode()
    if len(data) <= limit:
        return text
    room = max(limit - _NOTICE_ROOM, 0)
    head = data[: room * 3 // 4].decode(errors="ignore")
    tail = data[len(data) - room // 4 :].decode(errors="ignore")
    gone = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {gone} of {len(data)} bytes cut here; ask for less at a time to see them …]\n{tail}"
