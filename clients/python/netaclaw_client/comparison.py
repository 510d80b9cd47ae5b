"""Differences between two views of a session, as paths that a person can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from netaclaw_client.view import SessionView

MAX_DIFFERENCES = 100
_MAX_SHOWN = 120


def equal(view_a: SessionView, view_b: SessionView) -> list[str]:
    """What differs between two views, field by field, projections included; empty when they are equal.

    Compares seq, leaf, and every entry with its place; not what is still being written. At most 100 differences.
    """
    found: list[str] = []
    for difference in _compare(view_a, view_b):
        found.append(difference)
        if len(found) == MAX_DIFFERENCES:
            break
    return found


def differences(path: str, a: Message, b: Message) -> Iterator[str]:
    """What differs between two messages of one type, as "path.field: a != b" in field order."""
    for field in cast("list[FieldDescriptor]", a.DESCRIPTOR.fields):
        here = f"{path}.{field.name}"
        if field.is_repeated:
            yield from _repeated(here, field, a, b)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            if a.HasField(field.name) != b.HasField(field.name):
                yield f"{here}: {_presence(a, field)} != {_presence(b, field)}"
            elif a.HasField(field.name):
                yield from differences(here, getattr(a, field.name), getattr(b, field.name))
        elif getattr(a, field.name) != getattr(b, field.name):
            yield f"{here}: {_shown(field, getattr(a, field.name))} != {_shown(field, getattr(b, field.name))}"


def _compare(a: SessionView, b: SessionView) -> Iterator[str]:
    if a.session_id != b.session_id:
        yield f"session_id: {a.session_id} != {b.session_id}"
    if a.seq != b.seq:
        yield f"seq: {a.seq} != {b.seq}"
    if a.leaf_entry_id != b.leaf_entry_id:
        yield f"leaf_entry_id: {a.leaf_entry_id} != {b.leaf_entry_id}"
    for entry_id in a.entries.keys() - b.entries.keys():
        yield f"entries[{entry_id}]: only in the first"
    for entry_id in b.entries.keys() - a.entries.keys():
        yield f"entries[{entry_id}]: only in the second"
    common = [entry_id for entry_id in a.entries if entry_id in b.entries]
    if common != [entry_id for entry_id in b.entries if entry_id in a.entries]:
        yield "entries: not in the same order"
    for entry_id in common:
        yield from differences(f"entries[{entry_id}]", a.entries[entry_id], b.entries[entry_id])


def _repeated(path: str, field: FieldDescriptor, a: Message, b: Message) -> Iterator[str]:
    left, right = getattr(a, field.name), getattr(b, field.name)
    if field.message_type is None or field.message_type.GetOptions().map_entry:
        if left != right:
            yield f"{path}: {_cut(repr(left))} != {_cut(repr(right))}"
        return
    if len(left) != len(right):
        yield f"{path}: {len(left)} items != {len(right)} items"
    for n, (one, other) in enumerate(zip(left, right, strict=False)):
        yield from differences(f"{path}[{n}]", one, other)


def _presence(message: Message, field: FieldDescriptor) -> str:
    return "set" if message.HasField(field.name) else "unset"


def _shown(field: FieldDescriptor, value: object) -> str:
    if field.enum_type is not None and isinstance(value, int) and value in field.enum_type.values_by_number:
        return str(field.enum_type.values_by_number[value].name)
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
