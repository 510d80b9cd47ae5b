"""Arguments of a tool call: from the model's text to checked values, with errors that the model can act on."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeVar

from netaclaw_agent.tool import ToolError

T = TypeVar("T")

_SHOWN = 80
"""Longest stretch of a model's own text that an error repeats, in characters."""


class Arguments:
    """The arguments of one call. Every failure is a ToolError; null counts as absent, as many models send it so."""

    def __init__(self, values: Mapping[str, Any], known: Collection[str], *, place: str = "") -> None:
        """`place` goes before names in errors, for example "tasks[2]."."""
        self._values = {name: value for name, value in values.items() if value is not None}
        self._place = place
        unknown = [name for name in values if name not in known]
        if unknown:
            allowed = ", ".join(known) or "none"
            raise ToolError(f"unknown argument {place}{shown(unknown[0])}; known arguments: {allowed}")

    @classmethod
    def parse(cls, arguments_json: str, known: Collection[str]) -> Arguments:
        """Read the arguments as the model wrote them. Doubled keys: the last one counts. Blank text: no arguments."""
        return cls(parse_object(arguments_json), known)

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required when there is no default."""
        return self._typed(name, str, "a string", default)

    def flag(self, name: str, default: bool) -> bool:
        return self._typed(name, bool, "true or false", default)

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of a few strings."""
        value = self.text(name, default)
        if value not in choices:
            raise ToolError(f"{self._place}{name} must be one of {', '.join(choices)}, not {shown(value)}")
        return value

    def whole(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number from low to high. 5.0 counts as 5; true and "5" do not."""
        value = self._values.get(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ToolError(f"{self._place}{name} must be a whole number, not {_kind(value)}")
        if not low <= value <= high:
            raise ToolError(f"{self._place}{name} must be from {low} to {high}")
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of strings; None when absent, which is not the same as an empty list."""
        items = self._items(name)
        for number, item in enumerate(items or ()):
            if not isinstance(item, str):
                raise ToolError(f"{self._place}{name}[{number}] must be a string, not {_kind(item)}")
        return items

    def objects(self, name: str, known: Collection[str]) -> list[Arguments]:
        """A list of objects; required."""
        items = self._items(name)
        if items is None:
            raise ToolError(f"{self._place}{name} is missing")
        found = []
        for number, item in enumerate(_unpacked(item, dict) for item in items):
            place = f"{self._place}{name}[{number}]"
            if not isinstance(item, dict):
                raise ToolError(f"{place} must be an object, not {_kind(item)}")
            found.append(Arguments(item, known, place=f"{place}."))
        return found

    def raw(self, name: str) -> Any:
        """The value as JSON gave it; None when absent."""
        return self._values.get(name)

    def wrong(self, name: str, why: str) -> NoReturn:
        """Raise a ToolError about one argument, for checks that go beyond types."""
        raise ToolError(f"{self._place}{name} {why}")

    def _typed(self, name: str, kind: type[T], words: str, default: T | None) -> T:
        value = self._values.get(name, default)
        if value is None:
            raise ToolError(f"{self._place}{name} is missing")
        if not isinstance(value, kind):
            raise ToolError(f"{self._place}{name} must be {words}, not {_kind(value)}")
        return value

    def _items(self, name: str) -> list[Any] | None:
        value = _unpacked(self._values.get(name), list)
        if value is not None and not isinstance(value, list):
            raise ToolError(f"{self._place}{name} must be a list, not {_kind(value)}")
        return value


def parse_object(arguments_json: str) -> dict[str, Any]:
    """Read a JSON object from a model's text, or one inside a JSON string. Raises ToolError and nothing else, whatever
    the text is.

    Strings of the result can be encoded as UTF-8, so they fit into messages and files.
    """
    if not arguments_json.strip():
        return {}
    try:
        value = _unpacked(_read(arguments_json), dict)
    except RecursionError:
        raise ToolError("the arguments are nested too deeply") from None
    except UnicodeEncodeError:
        raise ToolError("the arguments hold half of a surrogate pair (an escape like \\ud800 on its own)") from None
    except json.JSONDecodeError as error:
        raise ToolError(f"the arguments are not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:  # the hooks below, and whole numbers with thousands of digits
        raise ToolError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be a JSON object, not {_kind(value)}")
    return value


def _read(text: str) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    # Escapes such as \ud800 make strings that no protobuf field and no file can hold.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _unpacked(value: Any, kind: type) -> Any:
    """The list or object that a string holds as JSON, and nothing else: many models pack what is nested once more."""
    if not isinstance(value, str):
        return value
    try:
        inner = _read(value)
    except (ValueError, RecursionError):
        return value
    return inner if isinstance(inner, kind) else value


def shown(text: str) -> str:
    """A model's own text, quoted and short enough to stand in an error."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {shown(text)} is too large")
    return value


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    names: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "something else")
