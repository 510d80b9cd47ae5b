"""What the model does in a shaken turn: answers, effects with names of their own, delegations. It repeats nothing."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from netaclaw_agent.guidance import SUBAGENT_GUIDANCE
from tests.fakes.openai_server import Call, Item, Reply, Text

Request = dict[str, Any]
_GUIDED = SUBAGENT_GUIDANCE[:40]


class Kind(StrEnum):
    """What a turn is made of."""

    PLAIN = "plain"
    EFFECTS = "effects"
    DELEGATION = "delegation"


def content_of(turn: int, kind: Kind) -> str:
    """The message that begins a turn."""
    return f"turn {turn} {kind}"


def rule(request: Request) -> Reply:
    """The next answer, by how many tool results have come since the last message."""
    messages = request["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    results = sum(message["role"] == "tool" for message in messages[asked:])
    _, name, kind = str(messages[asked]["content"]).split()[:3]
    if _GUIDED in messages[0]["content"]:
        return _child(name, kind, results)
    return _main(name, Kind(kind), results)


def _main(turn: str, kind: Kind, results: int) -> Reply:
    match kind, results:
        case Kind.EFFECTS, 0:
            return Reply([Text("First "), _shell(f"{turn}-a")])
        case Kind.EFFECTS, 1:
            return Reply([_write(f"{turn}-b"), _shell(f"{turn}-c")])
        case Kind.DELEGATION, 0:
            goals = [f"child {turn}.{n} {kind}" for n, kind in enumerate(("shell", "write", "words"))]
            return Reply([Call("delegate_parallel", json.dumps({"tasks": [{"goal": goal} for goal in goals]}))])
        case Kind.DELEGATION, 1:
            return Reply([_shell(f"{turn}-d")])
    return Reply(_words(turn))


def _child(name: str, kind: str, results: int) -> Reply:
    if not results and kind == "shell":
        return Reply([_shell(name)])
    if not results and kind == "write":
        return Reply([_write(name)])
    return Reply(_words(name))


def _shell(key: str) -> Call:
    return Call("run_shell", json.dumps({"command": f"echo once >> shell-{key}"}))


def _write(key: str) -> Call:
    return Call("write_file", json.dumps({"path": f"write-{key}", "content": key}))


def _words(name: str) -> list[Item]:
    return [Text(f"{name} word {n} 漢字. ") for n in range(20)]
