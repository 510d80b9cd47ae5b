"""Searching file contents, grep's way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import shown
from netaclaw_agent.tools.file_reading import is_binary
from netaclaw_agent.tools.workspace import FoundFile, Workspace

MAX_LINE = 500
"""Longer lines are shown as a window of so many characters around the match."""
MAX_SEARCHED_BYTES = 32 * 1024 * 1024
"""Larger files are passed over, and the summary says so."""
_MAX_QUERY = 2000


@dataclass(slots=True)
class SearchReport:
    """What a search found. Counts cover everything; lines only what fitted."""

    lines: list[str] = field(default_factory=list)
    matches: int = 0
    files: int = 0
    shown: int = 0
    too_large: int = 0

    def text(self) -> str:
        """Lines, then notes, then the summary as last line."""
        notes = [f"# passed over {self.too_large} files larger than 32 MiB"] if self.too_large else []
        summary = f"# {self.matches} matches in {self.files} files"
        if self.shown < self.matches:
            summary += f", truncated at {self.shown}"
        return "\n".join([*self.lines, *notes, summary])


def compile_query(query: str, *, regex: bool, ignore_case: bool) -> re.Pattern[str]:
    """The pattern of a search. It is matched line by line.

    A regular expression can take exponential time on some lines ("(a+)+$"), and Python's re cannot be interrupted. The
    limit is the wall clock of the process that runs it: a search never runs in a process that cannot be killed.
    """
    if not query or len(query) > _MAX_QUERY:
        raise ToolError(f"query must be from 1 to {_MAX_QUERY} characters long")
    if "\n" in query:
        raise ToolError("query must not contain a line break: matching is done line by line")
    try:
        return re.compile(query if regex else re.escape(query), re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"query {shown(query)} is not a valid regular expression: {error}") from None


@dataclass(frozen=True, slots=True)
class Search:
    """One search: what to look for and how much to show."""

    pattern: re.Pattern[str]
    before: int
    after: int
    limit: int
    """Most matches shown."""
    max_bytes: int
    """Most bytes of UTF-8 shown."""

    def run(self, workspace: Workspace, files: Iterable[FoundFile]) -> SearchReport:
        """Search the files in the given order. Binary files are passed over."""
        report = SearchReport()
        room = self.max_bytes
        full = False
        for found in files:
            if found.size > MAX_SEARCHED_BYTES:
                report.too_large += 1
                continue
            lines = _lines_of(workspace, found)
            at = [number for number, line in enumerate(lines) if self.pattern.search(line)]
            if not at:
                continue
            report.matches += len(at)
            report.files += 1
            if full:
                continue
            shown_matches = min(len(at), self.limit - report.shown)
            for line, is_match in self._shown(found.path, lines, at, shown_matches, separate=bool(report.lines)):
                room -= len(line.encode()) + 1
                if room < 0:
                    break
                report.lines.append(line)
                report.shown += is_match
            full = room < 0 or report.shown >= self.limit
        return report

    def _shown(
        self, path: str, lines: list[str], at: list[int], count: int, *, separate: bool
    ) -> Iterator[tuple[str, bool]]:
        """Lines to show for the first `count` matches of a file, in order, each with whether it is a match.

        "--" stands between groups that do not touch. `separate`: lines of another file stand before.
        """
        with_context = self.before or self.after
        shown_to = -1  # last line that was shown
        for index, match in enumerate(at[:count]):
            start = max(match - self.before, shown_to + 1)
            touches = shown_to >= 0 and start == shown_to + 1
            if with_context and not touches and (separate or shown_to >= 0):
                yield "--", False
            for number in range(start, match):
                yield f"{path}-{number + 1}-{_window(lines[number], 0)}", False
            found = self.pattern.search(lines[match])
            yield f"{path}:{match + 1}:{_window(lines[match], found.start() if found else 0)}", True
            following = at[index + 1] if index + 1 < len(at) else len(lines)
            shown_to = min(match + self.after, following - 1)
            for number in range(match + 1, shown_to + 1):
                yield f"{path}-{number + 1}-{_window(lines[number], 0)}", False


def _lines_of(workspace: Workspace, found: FoundFile) -> list[str]:
    file = workspace.open_found(found)
    if file is None:
        return []
    with file:
        if is_binary(file):
            return []
        text = file.read(MAX_SEARCHED_BYTES).decode("utf-8", "replace")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _window(line: str, start: int) -> str:
    """The line, or MAX_LINE characters of it that contain the match at `start`."""
    if len(line) <= MAX_LINE:
        return line
    begin = 0 if start < MAX_LINE - 50 else start - 50
    end = begin + MAX_LINE
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
