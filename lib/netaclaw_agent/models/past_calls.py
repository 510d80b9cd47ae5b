"""Calls of earlier answers as a provider takes them back: models make names and arguments that no request may hold.

A request with such a call is refused, and so is every later one of the conversation, since they all repeat it.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

_MAX_NAME = 64
_NO_PART_OF_A_NAME = re.compile("[^A-Za-z0-9_-]")


def sendable_name(name: str) -> str:
    """The tool's name as every provider takes it: other characters become "_", and what is too long is cut.

    The call itself was answered under the name that the model gave, so that it reads what was wrong.
    """
    return _NO_PART_OF_A_NAME.sub("_", name)[:_MAX_NAME] or "_"


def sendable_arguments(text: str) -> str:
    """The arguments byte for byte where they are a JSON object, which servers parse when they render the prompt.

    An object inside a JSON string goes without the string. All else goes as text inside an object; the call's result
    says what was wrong.
    """
    if not text.strip():
        return "{}"
    value = _value(text)
    if isinstance(value, str) and isinstance(_value(value), dict):
        return value
    return text if isinstance(value, dict) else json.dumps({"invalid_arguments": text}, ensure_ascii=False)


def _value(text: str) -> object:
    """None for what is not JSON."""
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's
