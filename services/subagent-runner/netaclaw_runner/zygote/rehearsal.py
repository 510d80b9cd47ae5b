"""Doing once, in the zygote, what every worker does first: what it makes on the way is then shared, not made anew.

It also loads what libraries load on first use: a confined worker can open no file of them any more.
"""

from __future__ import annotations

import importlib
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_runner import protocol
from netaclaw_runner.sandbox import seccomp

ON_FIRST_USE = ("_strptime", "array", "linecache", "unicodedata")
"""Loaded by a timestamp's parser, by descriptors that come over a socket, by an error that is printed, by a pattern
with a character's name."""

_RUN = "rehearsal"
_DEPTH = 3


def rehearse() -> None:
    """For the zygote: load, build the filters, and send a full line of every kind through the codec."""
    for name in ON_FIRST_USE:
        importlib.import_module(name)
    seccomp.prepare()
    for table in (protocol.UP, protocol.DOWN):
        for kind in table.values():
            message = kind()
            fill(message, _DEPTH)
            protocol.decode(protocol.encode(_RUN, message), table)


def limber_up() -> None:
    """For a child that has time: read a task and say run_start, so that their memory is its own when it matters."""
    task = pb.SubagentTaskEnvelope(protocol_version=protocol.PROTOCOL_VERSION)
    protocol.decode(protocol.encode(_RUN, task), protocol.DOWN)
    protocol.encode(_RUN, pb.RunStart(protocol_version=protocol.PROTOCOL_VERSION))


def fill(message: Message, depth: int) -> None:
    """Give every field of a message a value, and the messages in it, down to a depth."""
    if isinstance(message, Timestamp):
        message.FromSeconds(1)
        return
    for field in message.DESCRIPTOR.fields:
        if field.message_type is None:
            _put(message, field, _sample(field))
        elif depth and not field.message_type.GetOptions().map_entry:
            inner = getattr(message, field.name)
            fill(inner.add() if field.is_repeated else inner, depth - 1)


def _put(message: Message, field: Any, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _sample(field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return b"x" if field.type == FieldDescriptor.TYPE_BYTES else "x"
    return True if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else 1
