"""The todo list: its tool's manifest, and calls of it read into the list that they write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from netaclaw.session.v1.entry_pb2 import TodoItem
from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest
from netaclaw_agent.tools.arguments import Arguments

TODO_WRITE: Final = "todo_write"
FAMILY: Final = "todo"

MAX_ITEMS = 50
MAX_TEXT_LENGTH = 500
"""Longest text of an item, in characters."""
MAX_ID_LENGTH = 64
STATUSES: Final = ("pending", "in_progress", "completed", "cancelled")

_ITEM_PROPERTIES: dict[str, dict[str, Any]] = {
    "todoId": {
        "type": ["string", "integer"],
        "description": "Names the item from one list to the next. Its place in the list, from 1, when absent.",
    },
    "text": {"type": "string", "description": "What is to be done, in a few words."},
    "status": {"type": "string", "enum": list(STATUSES), "description": "pending when absent."},
}

TODO_TOOLS: tuple[ToolManifest, ...] = (
    ToolManifest(
        tool_name=TODO_WRITE,
        description=(
            "Write down the plan for a task of several steps, for yourself and for the person, who sees it at once. "
            "Each call replaces the whole list: mark what is done as completed, and what is not to be done as "
            "cancelled, instead of leaving it out."
        ),
        parameters_json=json.dumps(
            {
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "maxItems": MAX_ITEMS,
                        "items": {
                            "type": "object",
                            "properties": _ITEM_PROPERTIES,
                            "required": ["text"],
                            "additionalProperties": False,
                        },
                        "description": "The whole list, in order; an empty one clears it.",
                    }
                },
                "required": ["todos"],
                "additionalProperties": False,
            }
        ),
        effect=ToolEffect.TOOL_EFFECT_IDEMPOTENT,
        needs_local_storage=True,
        family=FAMILY,
    ),
)


def parse_todos(arguments_json: str) -> list[TodoItem]:
    """The list that a todo_write call writes: at most MAX_ITEMS items, none to clear it. Raises ToolError alone."""
    arguments = Arguments.parse(arguments_json, ("todos",))
    given = arguments.objects("todos", _ITEM_PROPERTIES)
    if len(given) > MAX_ITEMS:
        arguments.wrong("todos", f"holds {len(given)} items, but a list has at most {MAX_ITEMS}")
    items: list[TodoItem] = []
    known: set[str] = set()
    for place, each in enumerate(given, 1):
        item = _item(each, place)
        if item.todo_id in known:
            each.wrong("todoId", f"stands twice in the list: {item.todo_id}")
        known.add(item.todo_id)
        items.append(item)
    return items


def describe_todos(items: Sequence[TodoItem]) -> str:
    """What the model reads of the list that it has written."""
    if not items:
        return "The list is empty now."
    counts = [(sum(item.status == status for item in items), status.replace("_", " ")) for status in STATUSES]
    return f"The list stands: {', '.join(f'{count} {words}' for count, words in counts if count)}."


def _item(arguments: Arguments, place: int) -> TodoItem:
    text = arguments.text("text").strip()
    if not text:
        arguments.wrong("text", "is empty")
    if len(text) > MAX_TEXT_LENGTH:
        arguments.wrong("text", f"is longer than {MAX_TEXT_LENGTH} characters")
    return TodoItem(todo_id=_id(arguments, place), text=text, status=arguments.choice("status", STATUSES, "pending"))


def _id(arguments: Arguments, place: int) -> str:
    value = arguments.raw("todoId")
    if isinstance(value, int) and not isinstance(value, bool):
        todo_id = str(value)
    else:
        todo_id = arguments.text("todoId", "").strip() or str(place)
    if len(todo_id) > MAX_ID_LENGTH:
        arguments.wrong("todoId", f"is longer than {MAX_ID_LENGTH} characters")
    return todo_id
