"""Pages of lists that are the same as long as the process lives: a page's token is its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from netaclaw_chassis.errors import Violations

T = TypeVar("T")

DEFAULT_PAGE = 100
MAX_PAGE = 1000
_TOKEN = re.compile(r"[0-9]{1,9}", re.ASCII)


def page_of(items: Sequence[T], page_size: int, page_token: str) -> tuple[Sequence[T], str]:
    """A page and the next one's token, empty for the last. Raises InvalidRequest."""
    wrong = Violations()
    wrong.check(0 <= page_size <= MAX_PAGE, "page_size", f"must be from 0 to {MAX_PAGE}")
    wrong.check(not page_token or _TOKEN.fullmatch(page_token) is not None, "page_token", "is not one of ours")
    wrong.raise_if_any()
    start = int(page_token or 0)
    end = start + (page_size or DEFAULT_PAGE)
    return items[start:end], str(end) if end < len(items) else ""
