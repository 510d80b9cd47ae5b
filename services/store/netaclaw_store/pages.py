"""Page tokens and pages bounded in bytes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from netaclaw_chassis.errors import InvalidRequest

T = TypeVar("T")

MAX_RESPONSE_BYTES = 1024 * 1024
_MAX_NUMBER = 2**31 - 1
"""Of a place in a list, and of the narrowest column that one is compared with."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_ROOM = 8 * 1024
"""For the response's own fields beside its list."""


def page_size(asked: int, default: int, most: int) -> int:
    """What a page holds: 0 means the default. Raises INVALID_ARGUMENT for a negative size."""
    if asked < 0:
        raise InvalidRequest([("page_size", "is negative")])
    return min(asked or default, most)


def write_token(scope: Sequence[str], *cursor: str | int) -> str:
    """A token that continues the list named by `scope`, and no other."""
    return base64.urlsafe_b64encode(json.dumps([list(scope), *cursor], separators=(",", ":")).encode()).decode()


def read_token(token: str, scope: Sequence[str], kinds: Sequence[type]) -> list[Any] | None:
    """The cursor in a token; None for the first page. Raises INVALID_ARGUMENT for a token of another list."""
    if not token:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(kinds) + 1 or found[0] != list(scope):
        raise InvalidRequest([("page_token", "is not a token of this list")])
    cursor = found[1:]
    if any(type(value) is not kind or not _fits(value) for value, kind in zip(cursor, kinds, strict=True)):
        raise InvalidRequest([("page_token", "is not a token of this list")])
    return cursor


def _fits(value: object) -> bool:
    """Whether a column can be compared with it: tokens come back from clients, who may have made their own."""
    if isinstance(value, int):
        return 0 <= value <= _MAX_NUMBER
    return isinstance(value, str) and "\0" not in value and not _HALF_CHARACTER.search(value)


def chunks(ids: Iterable[str], sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """Split ids into runs whose sizes sum to at most `limit`, at least one id each."""
    run: list[str] = []
    total = 0
    for each in ids:
        size = sizes.get(each, 0)
        if run and total + size > limit:
            yield run
            run, total = [], 0
        run.append(each)
        total += size
    if run:
        yield run


def fitting(messages: Iterable[Any], limit: int = MAX_RESPONSE_BYTES - _ROOM) -> list[Any]:
    """The messages that fit into one response, in order; at least the first."""
    taken: list[Any] = []
    total = 0
    for message in messages:
        total += message.ByteSize() + 8
        if taken and total > limit:
            break
        taken.append(message)
    return taken
