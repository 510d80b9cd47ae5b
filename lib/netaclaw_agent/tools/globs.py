"""Globs over relative paths: what models write, matched without regular expressions that could run away."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import shown

_MAX_LENGTH = 500
_MAX_ALTERNATIVES = 64


class Glob:
    """A pattern. Without "/" it is matched on the file's name, with "/" on the whole relative path.

    "*" and "?" stay within a component, "**" spans any number of them, {a,b} means either. Case counts.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > _MAX_LENGTH:
            raise ToolError(f"pattern must be from 1 to {_MAX_LENGTH} characters long")
        self._by_name = "/" not in pattern
        self._alternatives = [
            [part for part in alternative.split("/") if part not in ("", ".")] for alternative in _expand(pattern)
        ]

    def matches(self, names: Sequence[str]) -> bool:
        """Whether the file with these path components fits."""
        if self._by_name:
            names = names[-1:]
        return any(_match(alternative, names) for alternative in self._alternatives)


def _match(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Row by row over the names, so that many "**" cost no more than parts x names."""
    row = [True, *[False] * len(names)]
    for part in parts:
        if part == "**":
            reached = False
            following = []
            for cell in row:
                reached = reached or cell
                following.append(reached)
        else:
            fits = _component(part)
            following = [False, *(cell and fits(name) is not None for cell, name in zip(row, names, strict=False))]
        row = following
    return row[-1]


@lru_cache(maxsize=256)
def _component(part: str) -> Callable[[str], re.Match[str] | None]:
    # fnmatch makes atomic groups of "*", so no name makes it backtrack.
    return re.compile(fnmatch.translate(part)).match


def _expand(pattern: str) -> list[str]:
    """All alternatives of {a,b}; an unclosed brace stands for itself."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        opened = current.rfind("{")
        closed = current.find("}", opened)
        if opened < 0 or closed < 0:
            done.append(current)
        else:
            inner = current[opened + 1 : closed].split(",")
            pending.extend(current[:opened] + choice + current[closed + 1 :] for choice in inner)
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ToolError(f"pattern {shown(pattern)} has more than {_MAX_ALTERNATIVES} alternatives")
    return done
