"""What people type into the chat."""

from __future__ import annotations

import pytest

from netaclaw_cli.chat_commands import HELP, Command, named, parse


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("  ", None),
        (" hello there ", Command("say", "hello there")),
        ("//etc is a directory", Command("say", "/etc is a directory")),
        ("/compact", Command("compact")),
        ("/compact keep the names", Command("compact", "keep the names")),
        ("/tree", Command("tree")),
        ("/switch ab12", Command("switch", target="ab12")),
        ("/summarize ab12", Command("summarize", target="ab12")),
        ("/summarize ab12 the  colours", Command("summarize", "the  colours", "ab12")),
        ("/fork", Command("fork")),
        ("/fork ab12", Command("fork", target="ab12")),
        ("/think high", Command("think", "high")),
        ("/queue and then this", Command("queue", "and then this")),
        ("/cancel", Command("cancel")),
        ("/cancel t1", Command("cancel", target="t1")),
        ("/steer t1 look  closer", Command("steer", "look  closer", "t1")),
        ("/answer 2", Command("answer", "2")),
        ("/usage", Command("usage")),
        ("/quit", Command("quit")),
    ],
)
def test_a_line_is_taken_apart(line: str, command: Command | None) -> None:
    assert parse(line) == command


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/fly", "there is no /fly"),
        ("/", "there is no /"),
        ("/switch", "one id"),
        ("/switch a b", "one id"),
        ("/cancel a b", "one id"),
        ("/summarize", "one id and a text or nothing"),
        ("/steer t1", "a task and a text"),
        ("/think hard", "off, low, medium or high"),
        ("/queue", "a text"),
        ("/tree now", "nothing more"),
    ],
)
def test_what_cannot_be_done_is_said(line: str, why: str) -> None:
    command = parse(line)
    assert command is not None
    assert command.name == "wrong"
    assert why in command.text


def test_help_names_every_command() -> None:
    for word in (
        "compact",
        "tree",
        "switch",
        "summarize",
        "fork",
        "think",
        "queue",
        "cancel",
        "steer",
        "answer",
        "usage",
        "quit",
    ):
        assert f"/{word}" in HELP
        assert (parse(f"/{word}") or parse(f"/{word} x")) is not None


def test_a_part_of_an_id_names_it_unless_it_names_several() -> None:
    ids = ["0190-aa11", "0190-bb22"]
    assert named("bb", ids) == "0190-bb22"
    assert named("0190", ids) is None
    assert named("cc", ids) is None
    assert named("", ids) is None
