"""What the scripted model understands: plain requests, read by rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

LANGUAGES = {
    ".bash": "Shell",
    ".c": "C",
    ".cc": "C++",
    ".cpp": "C++",
    ".cs": "C#",
    ".css": "CSS",
    ".go": "Go",
    ".h": "C",
    ".html": "HTML",
    ".ini": "INI",
    ".java": "Java",
    ".js": "JavaScript",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".kt": "Kotlin",
    ".lock": "Lock files",
    ".md": "Markdown",
    ".mjs": "JavaScript",
    ".php": "PHP",
    ".proto": "Protocol Buffers",
    ".py": "Python",
    ".pyi": "Python stubs",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".sh": "Shell",
    ".sql": "SQL",
    ".swift": "Swift",
    ".toml": "TOML",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".txt": "Text",
    ".vue": "Vue",
    ".yaml": "YAML",
    ".yml": "YAML",
}
"""File endings and the language that they count as."""

_PATTERNS = {name.lower(): f"*{ending}" for ending, name in reversed(LANGUAGES.items())}
_PATTERNS |= {"proto": "*.proto", "shell": "*.sh", "javascript": "*.js", "c": "*.c", "yaml": "*.yaml"}
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_MOST_LARGEST = 100


class GoalKind(Enum):
    """The rules."""

    PARALLEL = auto()
    DELEGATE = auto()
    COUNT_FILES = auto()
    COUNT_LINES = auto()
    LARGEST = auto()
    LIST_FILES = auto()
    RPCS = auto()
    SEARCH = auto()
    READ = auto()
    WRITE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Task:
    """One goal for a subagent."""

    goal: str
    agent_id: str = ""
    """A preset's name or id; empty: none was asked for."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A request as understood. Fields that the kind does not use keep their defaults."""

    kind: GoalKind
    path: str = "."
    text: str = ""
    """What to search or to write."""
    pattern: str = ""
    count: int = 0
    tasks: tuple[Task, ...] = ()


_WHERE = r"(?:\s+(?:under|in|inside|below|of|from|at)\s+(?P<path>.+))?"
_ALL = r"(?:(?:the|all|every|of|me)\s+)*"
_LANGUAGE = r"(?:(?P<language>[A-Za-z+#]+)\s+)?"
_PER = (
    r"(?:\s+(?:per|by|for\s+(?:each|every)|of\s+each)\s+(?:programming\s+)?(?:language|file\s+type|ending|extension))?"
)

_RULES: list[tuple[GoalKind, re.Pattern[str]]] = [
    (kind, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for kind, pattern in [
        (GoalKind.WRITE, r"write\s+(?P<text>.+)\s+(?:in)?to\s+(?:the\s+)?(?:file\s+)?(?P<path>\S+)"),
        (
            GoalKind.COUNT_LINES,
            rf"count\s+{_ALL}(?:number\s+of\s+)?{_LANGUAGE}lines(?:\s+of\s+code)?{_PER}{_WHERE}",
        ),
        (GoalKind.COUNT_FILES, rf"count\s+{_ALL}(?:number\s+of\s+)?{_LANGUAGE}files{_WHERE}"),
        (
            GoalKind.LARGEST,
            rf"(?:find|list|show|which\s+are)\s+{_ALL}(?:(?P<count>\d+|{'|'.join(_NUMBERS)})\s+)?"
            rf"(?:largest|biggest)\s+(?P<noun>files?){_WHERE}",
        ),
        (
            GoalKind.RPCS,
            rf"(?:list|find|show)\s+{_ALL}(?:each\s+)?RPCs?(?:\s+methods?)?"
            rf"(?:\s+(?:with|and|together\s+with)\s+(?:its|their|the)\s+comments?)?{_WHERE}",
        ),
        (GoalKind.LIST_FILES, rf"(?:find|list|show)\s+{_ALL}{_LANGUAGE}files{_WHERE}"),
        (GoalKind.SEARCH, r"search\s+(?:in\s+)?(?P<path>(?!for\s)\S+)\s+for\s+(?P<text>.+)"),
        (
            GoalKind.SEARCH,
            r"(?:find|grep|search|look)\s+(?:for\s+)?(?P<text>.+?)(?:\s+(?:in|under|inside|below)\s+(?P<path>\S+))?",
        ),
        (GoalKind.READ, r"(?:read|show|print|open)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?(?P<path>\S+)"),
    ]
]

_POLITE = re.compile(r"(?:(?:please|now|then|and|can\s+you|could\s+you)[,\s]+)+", re.IGNORECASE)
_STOPS = re.compile(r"(?<=[\w/)\"'*\]])[.!?。！？]+$")
_HERE = re.compile(r"(?:this|the|our|my)\s+(?:whole\s+)?(?:repository|repo|workspace|project|folder|tree)|here", re.I)
_PARALLEL = re.compile(r"(?:in\s+parallel|并行)\s*[:：]", re.IGNORECASE)
_DELEGATE = re.compile(r"(?:delegate|委派)\s*[:：]", re.IGNORECASE)
_WITH_AGENT = re.compile(r"[,，]?\s+with\s+agent\s+(?P<agent>.+)$", re.IGNORECASE | re.DOTALL)
_CHILD_MESSAGE = re.compile(r"Goal:\n(?P<goal>.*?)(?:\n\nContext from the parent agent:\n.*)?", re.DOTALL)
_QUOTES = "\"'`“”「」"


def parse_goal(text: str) -> Goal:
    """Read a user message, or the goal in a subagent's first message. Never fails.

    The first line decides; delegations may also begin on a later one.
    """
    child = _CHILD_MESSAGE.fullmatch(text)
    text = (child["goal"] if child else text).strip()
    first = text.split("\n", 1)[0]
    if not (_PARALLEL.search(first) or _DELEGATE.search(first)):
        goal = _plain(text) if first.lower().lstrip().startswith("write") else _plain(first)
        if goal.kind is not GoalKind.UNKNOWN:
            return goal
    for kind, marker in ((GoalKind.PARALLEL, _PARALLEL), (GoalKind.DELEGATE, _DELEGATE)):
        found = marker.search(text)
        if found:
            rest = text[found.end() :]
            pieces = re.split(r"[;；\n]", rest) if kind is GoalKind.PARALLEL else [rest]
            tasks = tuple(_task(piece) for piece in pieces if piece.strip(" \t-*•.。"))
            return Goal(kind, tasks=tasks)
    return Goal(GoalKind.UNKNOWN, text=text)


def _task(piece: str) -> Task:
    goal = piece.strip().lstrip("-*• ").strip()
    found = _WITH_AGENT.search(goal)
    if not found:
        return Task(goal)
    return Task(goal[: found.start()].strip(), _STOPS.sub("", found["agent"].strip()).strip(_QUOTES))


def _plain(text: str) -> Goal:
    text = _STOPS.sub("", text.strip())
    polite = _POLITE.match(text)
    text = text[polite.end() :] if polite else text
    for kind, rule in _RULES:
        found = rule.fullmatch(text)
        goal = _from_match(kind, found.groupdict()) if found else None
        if goal is not None:
            return goal
    return Goal(GoalKind.UNKNOWN, text=text)


def _from_match(kind: GoalKind, groups: dict[str, str | None]) -> Goal | None:
    """The goal, or None where the words fit the rule but not its meaning."""
    language = (groups.get("language") or "").lower()
    pattern = _PATTERNS.get(language, "") if language else ""
    if language and not pattern:
        return None
    count = (groups.get("count") or ("1" if groups.get("noun") == "file" else "5")).lower()
    number = int(count) if count.isdecimal() and len(count) < 6 else _NUMBERS.get(count, _MOST_LARGEST)
    return Goal(
        kind,
        path=_path(groups.get("path") or ""),
        text=(groups.get("text") or "").strip().strip(_QUOTES),
        pattern=pattern,
        count=max(1, min(number, _MOST_LARGEST)) if kind is GoalKind.LARGEST else 0,
    )


def _path(words: str) -> str:
    words = re.split(r",\s|\s+and\s", words, maxsplit=1)[0].strip().strip(_QUOTES)
    if not words or _HERE.fullmatch(words):
        return "."
    words = re.sub(r"^the\s+|\s+(?:folder|directory|tree)$", "", words, flags=re.IGNORECASE)
    return words.rstrip("/") or "/"
