"""Identifiers: UUIDv7 strings, made by the writer, sortable by time."""

from __future__ import annotations

import re

import uuid_utils

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def new_id() -> str:
    """A new UUIDv7, in lower case with hyphens."""
    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether the text is a UUID in the form that new_id makes."""
    return _UUID.fullmatch(text) is not None
