"""Replacing text in a file: the one place that is meant, or all of them, and never a guess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import shown
from netaclaw_agent.tools.file_reading import is_binary

_MOST_LINES = 5


@dataclass(frozen=True, slots=True)
class Replacement:
    """A file's new content."""

    data: bytes
    count: int
    first_line: int
    """Number of the line in which the first replaced place begins."""


def replace(file: BinaryIO, path: str, old: str, new: str, *, every: bool, max_bytes: int) -> Replacement:
    """The file's content with the place, or with `every` place, replaced. Bytes are compared as they are.

    Raises ToolError when the place is not there or not the only one, when nothing would change, and for files that are
    binary or would be longer than `max_bytes`.
    """
    if not old:
        raise ToolError("old_text is empty; give the text that is to be replaced")
    if old == new:
        raise ToolError("old_text and new_text are the same: nothing would change")
    if is_binary(file):
        raise ToolError(f"{shown(path)} is a binary file; only text files can be edited")
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ToolError(f"{shown(path)} is longer than {max_bytes} bytes and cannot be edited here")
    wanted = old.encode()
    first = data.find(wanted)
    if first < 0:
        raise ToolError(_not_found(data, path, old))
    if not every and data.find(wanted, first + 1) >= 0:  # places that overlap are two places, too
        raise ToolError(_not_unique(data, path, wanted))
    given, count = new.encode(), data.count(wanted)
    if len(data) + count * (len(given) - len(wanted)) > max_bytes:  # reckoned, not tried: it may be more than fits
        raise ToolError(f"{shown(path)} would become longer than {max_bytes} bytes")
    return Replacement(data.replace(wanted, given), count, _line_of(data, first))


def _not_found(data: bytes, path: str, old: str) -> str:
    why = f"old_text does not occur in {shown(path)}"
    if b"\r\n" in data and "\n" in old and "\r\n" not in old:
        return f"{why}: its lines end in \\r\\n"
    if " ".join(old.split()).encode() in b" ".join(data.split()):
        return f"{why}, but it does with other spaces or line breaks; copy it exactly"
    return f"{why}; read the file and copy the text exactly"


def _not_unique(data: bytes, path: str, wanted: bytes) -> str:
    lines: list[int] = []
    at = data.find(wanted)
    while at >= 0 and len(lines) <= _MOST_LINES:
        lines.append(_line_of(data, at))
        at = data.find(wanted, at + 1)
    more = ", …" if len(lines) > _MOST_LINES else ""
    places = ", ".join(str(line) for line in lines[:_MOST_LINES])
    return (
        f"old_text occurs more than once in {shown(path)} (lines {places}{more}); give more of the text around it, or "
        "set replace_all"
    )


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1
