"""The question to a person: its tool's manifest, and calls of it read into what they ask."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest
from netaclaw_agent.tools.arguments import Arguments

CLARIFY: Final = "clarify"
FAMILY: Final = "interaction"

MAX_QUESTION_BYTES = 8 * 1024
MAX_CHOICES = 10
MAX_CHOICE_LENGTH = 200
"""Longest choice, in characters."""
MAX_TIMEOUT_S = 7 * 86_400

_PROPERTIES: dict[str, dict[str, Any]] = {
    "question": {"type": "string", "description": "What you need to know, in words that stand for themselves."},
    "choices": {
        "type": "array",
        "maxItems": MAX_CHOICES,
        "items": {"type": "string"},
        "description": "Answers to choose from. The person may answer otherwise all the same.",
    },
    "timeoutSeconds": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_TIMEOUT_S,
        "description": "How long to wait for the answer. Absent: as long as is usual here.",
    },
}

CLARIFY_TOOLS: tuple[ToolManifest, ...] = (
    ToolManifest(
        tool_name=CLARIFY,
        description=(
            "Ask the person one question and wait for the answer. Only for what you cannot find out yourself and "
            "cannot go on without."
        ),
        parameters_json=json.dumps(
            {"type": "object", "properties": _PROPERTIES, "required": ["question"], "additionalProperties": False}
        ),
        effect=ToolEffect.TOOL_EFFECT_IDEMPOTENT,
        family=FAMILY,
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a clarify call asks."""

    text: str
    choices: tuple[str, ...]
    """Without repeats; empty when the call names none."""
    timeout_s: int | None
    """None when the call does not say."""


def parse_clarify(arguments_json: str) -> Question:
    """What a clarify call asks. Raises ToolError, and nothing else, for bad arguments."""
    arguments = Arguments.parse(arguments_json, _PROPERTIES)
    text = arguments.text("question").strip()
    if not text:
        arguments.wrong("question", "is empty")
    if len(text.encode()) > MAX_QUESTION_BYTES:
        arguments.wrong("question", f"is longer than {MAX_QUESTION_BYTES} bytes")
    choices = tuple(dict.fromkeys(choice.strip() for choice in arguments.texts("choices") or ()))
    if len(choices) > MAX_CHOICES:
        arguments.wrong("choices", f"are more than {MAX_CHOICES}")
    for choice in choices:
        if not 0 < len(choice) <= MAX_CHOICE_LENGTH:
            arguments.wrong("choices", f"must have 1 to {MAX_CHOICE_LENGTH} characters each")
    seconds = arguments.whole("timeoutSeconds", 1, low=1, high=MAX_TIMEOUT_S)
    return Question(text, choices, seconds if arguments.has("timeoutSeconds") else None)
