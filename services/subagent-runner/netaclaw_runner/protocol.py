"""The lines between a runner and its workers: splitting bytes into lines, and lines into messages and back.

docs/worker-protocol.md is the specification. This module is loaded in workers too: no event loop, no transport, no
chassis.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf import json_format
from google.protobuf.message import Message

from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.tools.results import clean

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line, its newline not counted; a longer one is refused and ends the task."""

_MAX_RUN_ID = 200
_BOM = "\ufeff"
_HALF_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_TYPE_IN_HEAD = re.compile(rb'"type"\s*:\s*"([a-z_]{1,40})"')
_HEAD_BYTES = 200

UP: Mapping[str, type[Message]] = {
    "run_start": pb.RunStart,
    "model_request": pb.ModelRequest,
    "token": pb.Token,
    "thinking": pb.Thinking,
    "log": pb.Log,
    "tool_call": pb.ToolCall,
    "tool_result": pb.ToolResultLine,
    "tool_output": pb.ToolOutput,
    "proxy_tool_call": pb.ProxyToolCall,
    "steer_taken": pb.SteerTaken,
    "run_end": pb.RunEnd,
    "run_error": pb.RunError,
}
"""What a worker may send."""

DOWN: Mapping[str, type[Message]] = {
    "task": pb.SubagentTaskEnvelope,
    "host_start": pb.HostStart,
    "tool_call": pb.ToolCall,
    "model_response": pb.ModelResponse,
    "proxy_tool_result": pb.ProxyToolResult,
    "steer": pb.Steer,
    "budget_warning": pb.BudgetWarning,
    "cancel": pb.Cancel,
}
"""What a runner may send."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "run_start": ("protocolVersion", "pid"),
    "model_request": ("requestId", "keep", "messages"),
    "token": ("text",),
    "thinking": ("text",),
    "log": ("message",),
    "tool_call": ("callId", "toolName", "argumentsJson"),
    "tool_result": ("callId", "content"),
    "tool_output": ("callId", "text"),
    "proxy_tool_call": ("callId", "toolName", "argumentsJson"),
    "steer_taken": ("requestId",),
    "run_end": ("state", "finalOutput"),
    "run_error": ("error",),
    "task": ("protocolVersion", "sessionId", "parentEntryId", "task", "agentConfig", "policy", "timeoutMs", "budget"),
    "host_start": ("protocolVersion", "policy"),
    "model_response": ("requestId",),
    "proxy_tool_result": ("callId", "content"),
    "steer": ("content",),
    "budget_warning": ("message",),
    "cancel": (),
}
"""Fields that must stand in a line of each type, even where their value is the default one."""

_TYPE_NAMES: Mapping[type[Message], str] = {cls: name for table in (UP, DOWN) for name, cls in table.items()}


class Noise(Exception):
    """Bytes that are not a line of this protocol. The text says why and repeats nothing of them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A valid line. Whether its run is the right one is the reader's to check."""

    type: str
    run_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class Overlong:
    """Stands for a line over the cap, which is dropped up to its newline."""

    type: str
    """The type that its beginning names; empty when it names none."""


class Splitter:
    """Cuts a stream of bytes at each 0x0A and at nothing else. Holds at most the cap and one piece."""

    def __init__(self, cap: int = MAX_LINE_BYTES) -> None:
        self._cap = cap
        self._pieces: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """The lines that end in this piece, without their newlines; an Overlong as soon as a line passes the cap."""
        found: list[bytes | Overlong] = []
        first, *rest = data.split(b"\n")
        self._extend(first, found)
        for piece in rest:
            if not self._dropping:
                found.append(b"".join(self._pieces))
            self._forget()
            self._extend(piece, found)
        return found

    def rest(self) -> bytes:
        """What came after the last newline: at end of file, a truncated line."""
        return b"".join(self._pieces)

    def _extend(self, piece: bytes, found: list[bytes | Overlong]) -> None:
        if self._dropping or not piece:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._cap:
            found.append(Overlong(_type_in(self._pieces)))
            self._forget()
            self._dropping = True

    def _forget(self) -> None:
        self._pieces = []
        self._size = 0
        self._dropping = False


def decode(data: bytes, table: Mapping[str, type[Message]]) -> Line:
    """Read one line against UP or DOWN. Raises Noise for all that is not a valid line, and nothing else.

    A carriage return at the end and a byte-order mark at the start are forgiven; unknown fields are ignored; of doubled
    keys the last one counts; halves of characters, which some languages leave where they cut a text, are replaced.
    """
    value = _parse(data)
    name, run_id = value.pop("type", None), value.get("runId")
    if not isinstance(name, str) or name not in table:
        raise Noise("no known type")
    if not isinstance(run_id, str) or not 0 < len(run_id) <= _MAX_RUN_ID:
        raise Noise(f"a {name} line without a run id")
    for field in REQUIRED[name]:
        if value.get(field) is None:
            raise Noise(f"a {name} line without {field}")
    message = table[name]()
    try:
        json_format.ParseDict(value, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, RecursionError):
        raise Noise(f"a {name} line with a field of the wrong kind") from None
    return Line(name, run_id, message)


def encode(run_id: str, message: Message) -> bytes:
    """The message as one line, newline included. The type is the message's own."""
    name = _TYPE_NAMES[type(message)]
    fields = json_format.MessageToDict(message, unquote_int64_if_possible=True)
    required = REQUIRED[name]
    if any(field not in fields for field in required):
        every = json_format.MessageToDict(
            message, always_print_fields_with_no_presence=True, unquote_int64_if_possible=True
        )
        fields.update((field, every.get(field, {})) for field in required if field not in fields)
    line = {"type": name, **fields, "runId": run_id}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _parse(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data.decode().removeprefix(_BOM), parse_constant=_refuse)
        if _HALF_ESCAPE.search(data):
            value = _whole(value)
    except (ValueError, RecursionError):  # also UnicodeDecodeError, JSONDecodeError, integers of thousands of digits
        raise Noise("not a JSON object") from None
    if not isinstance(value, dict):
        raise Noise("not a JSON object")
    return value


def _whole(value: Any) -> Any:
    """The value with strings that UTF-8 can hold."""
    if isinstance(value, str):
        return value if value.isascii() else clean(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _whole(item) for key, item in value.items()}
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _type_in(pieces: list[bytes]) -> str:
    match = _TYPE_IN_HEAD.search(b"".join(pieces[:8])[:_HEAD_BYTES])
    return match.group(1).decode() if match else ""
