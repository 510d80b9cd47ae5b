"""What the scripted model makes of tool results: an answer in words, or one more round of calls."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw_agent.models.scripted_goals import LANGUAGES, Goal, GoalKind
from netaclaw_agent.models.scripted_listing import Listing, read_found, read_listing, read_rpcs

MAX_FOLLOW_UPS = 24
"""Calls of a second round; there is no third."""
_MAX_SHOWN = 4000
_MAX_LISTED = 200
_PLAIN_ENDING = re.compile(r"\.\w+")
"""Endings that mean themselves in a glob."""


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call to make."""

    tool_name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What to say, and what to call after it."""

    text: str
    calls: list[WantedCall] = field(default_factory=list)


def answer(goal: Goal, rounds: Sequence[Sequence[ToolCallPart]]) -> Step:
    """The next step after the rounds of calls made so far for this goal; errors are told, never hidden."""
    calls = rounds[-1]
    failed = [call for call in calls if call.result.is_error or not call.HasField("result")]
    if failed and len(failed) == len(calls):
        return Step("\n".join(_failure(call) for call in failed))
    if goal.kind in (GoalKind.PARALLEL, GoalKind.DELEGATE):
        return Step("\n\n".join(_delegated(call) for call in calls))
    content = rounds[0][0].result.content
    if goal.kind is GoalKind.COUNT_LINES:
        return _count_lines(goal, read_listing(content), rounds)
    return Step(_ANSWERS[goal.kind](goal, content))


def _failure(call: ToolCallPart) -> str:
    return f"The tool {call.tool_name} failed: {call.result.content or 'it gave no result'}"


def _delegated(call: ToolCallPart) -> str:
    if call.result.is_error or not call.HasField("result"):
        return _failure(call)
    return f"The subagents' results:\n\n{call.result.content}"


def _count_files(goal: Goal, content: str) -> str:
    listing = read_listing(content)
    if not listing.has_totals:
        return f"At least {len(listing.files)} files {_place(goal)}; the listing was cut."
    return f"{_files(listing.total_files)} {_place(goal)}, {listing.total_bytes} bytes in all."


def _count_lines(goal: Goal, listing: Listing, rounds: Sequence[Sequence[ToolCallPart]]) -> Step:
    if goal.pattern and listing.has_totals:
        return Step(f"{listing.total_lines} lines in {_files(listing.total_files)} {_place(goal)}.")
    if listing.is_whole:
        return Step(_lines_table(goal, _by_ending(listing), listing))
    if len(rounds) > 1:
        counted = {
            _pattern_of(call).removeprefix("*"): (totals.total_files, totals.total_lines)
            for call in rounds[1]
            if not call.result.is_error and (totals := read_listing(call.result.content)).has_totals
        }
        return Step(_lines_table(goal, counted, listing))
    endings = sorted({file.ending for file in listing.files if _PLAIN_ENDING.fullmatch(file.ending)})[:MAX_FOLLOW_UPS]
    asked = [
        WantedCall("list_files", {"path": goal.path, "pattern": f"*{ending}", "lines": True, "limit": 1})
        for ending in endings
    ]
    return Step("The listing was cut, so I ask for the totals of each file ending.", asked)


def _by_ending(listing: Listing) -> dict[str, tuple[int, int]]:
    counted: dict[str, tuple[int, int]] = {}
    for file in listing.files:
        if file.lines is not None:
            files, lines = counted.get(file.ending, (0, 0))
            counted[file.ending] = (files + 1, lines + file.lines)
    return counted


def _lines_table(goal: Goal, counted: dict[str, tuple[int, int]], listing: Listing) -> str:
    languages: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for ending, (files, lines) in counted.items():
        sums = languages[LANGUAGES.get(ending.lower(), f"*{ending}" if ending else "without an ending")]
        sums[0] += files
        sums[1] += lines
    rows = sorted(languages.items(), key=lambda row: (-row[1][1], row[0]))
    text = [f"Lines per language {_place(goal)}:"]
    text += [f"- {name}: {lines} lines in {_files(files)}" for name, (files, lines) in rows]
    total_files = sum(files for files, _ in counted.values())
    total_lines = sum(lines for _, lines in counted.values())
    text.append(f"Total: {total_lines} lines in {_files(total_files)}.")
    others = listing.total_files - total_files
    if others > 0:
        text.append(f"Not counted: {_files(others)}{' without lines' if listing.is_whole else ' of other endings'}.")
    return "\n".join(text)


def _largest(goal: Goal, content: str) -> str:
    files = sorted(read_listing(content).files, key=lambda file: (-file.size_bytes, file.path))[: goal.count]
    if not files:
        return f"There are no files {_place(goal)}."
    rows = [f"{n}. {file.path}: {file.size_bytes} bytes" for n, file in enumerate(files, 1)]
    heading = "The largest file" if len(files) == 1 else f"The {len(files)} largest files"
    return "\n".join([f"{heading} {_place(goal)}:", *rows])


def _list(goal: Goal, content: str) -> str:
    listing = read_listing(content)
    rows = [f"- {file.path}: {file.size_bytes} bytes" for file in listing.files[:_MAX_LISTED]]
    total = listing.total_files if listing.has_totals else len(listing.files)
    if len(rows) < total or not listing.has_totals:
        rows.append(f"{len(rows)} of {total if listing.has_totals else 'more'} files are shown.")
    return "\n".join([f"{_files(total)} {_place(goal)}:", *rows])


def _rpcs(goal: Goal, content: str) -> str:
    rpcs = read_rpcs(content)
    if not rpcs:
        return f"There are no RPCs {_place(goal)}."
    paths = dict.fromkeys(rpc.path for rpc in rpcs)
    text = [f"{len(rpcs)} RPCs in {_files(len(paths))} {_place(goal)}:"]
    for path in paths:
        text.append(f"\n{path}")
        text += [f"- {rpc.name}: {rpc.comment or '(no comment)'}" for rpc in rpcs if rpc.path == path]
    found = read_found(content)
    if not found.is_whole or found.matches != len(rpcs):
        text.append("\nThe search was cut; there may be more.")
    return "\n".join(text)


def _search(goal: Goal, content: str) -> str:
    found = read_found(content)
    lines = [line for line in content.split("\n") if line and line != "--" and not line.startswith("# ")]
    if not lines:
        return f'"{goal.text}" was not found {_place(goal)}.'
    total = found.matches or len(lines)
    more = "" if found.is_whole else " The search was cut; there may be more."
    shown = _shortened("\n".join(lines))
    return f'"{goal.text}": {total} matching lines in {_files(found.files)} {_place(goal)}.{more}\n{shown}'


def _read(goal: Goal, content: str) -> str:
    return f"{goal.path}:\n\n{_shortened(content)}"


def _write(goal: Goal, content: str) -> str:
    return f"Done: {content}."


_ANSWERS = {
    GoalKind.COUNT_FILES: _count_files,
    GoalKind.LARGEST: _largest,
    GoalKind.LIST_FILES: _list,
    GoalKind.RPCS: _rpcs,
    GoalKind.SEARCH: _search,
    GoalKind.READ: _read,
    GoalKind.WRITE: _write,
}


def _pattern_of(call: ToolCallPart) -> str:
    try:
        pattern = json.loads(call.arguments_json)["pattern"]
    except (ValueError, KeyError, TypeError):
        return ""
    return pattern if isinstance(pattern, str) else ""


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _place(goal: Goal) -> str:
    named = f" that match {goal.pattern}" if goal.pattern else ""
    return ("in the workspace" if goal.path == "." else f"under {goal.path}") + named


def _shortened(text: str) -> str:
    if len(text) <= _MAX_SHOWN:
        return text
    return f"{text[:_MAX_SHOWN]}\n[shortened: {_MAX_SHOWN} of {len(text)} characters are shown]"
