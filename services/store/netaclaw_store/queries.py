"""SQL in named blocks: `-- name: begin_turn` in sql/*.sql, read once at import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def parse(text: str) -> dict[str, str]:
    """The blocks of a file by name, comments removed. Raises ValueError for a repeated name or an empty block."""
    pieces = _NAME.split(text)
    blocks: dict[str, str] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        sql = _COMMENT.sub("", body).strip().removesuffix(";")
        if not sql or name in blocks:
            raise ValueError(f"SQL block {name} is empty or repeated")
        blocks[name] = sql
    return blocks


def _load() -> Mapping[str, str]:
    blocks: dict[str, str] = {}
    for file in sorted((resources.files(__package__) / "sql").iterdir(), key=lambda each: each.name):
        if file.name.endswith(".sql") and file.name != "schema.sql":
            for name, sql in parse(file.read_text()).items():
                if name in blocks:
                    raise ValueError(f"SQL block {name} is repeated in {file.name}")
                blocks[name] = sql
    return MappingProxyType(blocks)


SQL: Mapping[str, str] = _load()
"""All named blocks."""
