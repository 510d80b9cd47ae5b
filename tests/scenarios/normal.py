"""Brings two runs of one scenario into a form in which they must be equal.

Ids are renamed by first appearance; times, durations and process ids are dropped; events of side-by-side tasks are put
in task order, and sequence numbers follow that order. Two more columns depend on the clock and go: the size of a
serialised body, which holds times, and the number of appends, into which writes of the same moment are joined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Entry

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DROPPED = re.compile(r"(^|_)(time|at|pid|ms)$|^(etag|body_bytes|append_no|append_seq)$", re.IGNORECASE)
JSON_COLUMNS = frozenset({"tool_names", "result_payload", "token_usage"})


class Normaliser:
    """Renames and drops; one per run, fed in the same order for every run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._seqs: dict[int, int] = {}

    def tree(self, entries: Iterable[Entry]) -> list[Any]:
        """The entries of GetSessionTree."""
        return [self._clean(_ordered_body(entry)) for entry in entries]

    def events(self, events: Iterable[ChatEvent]) -> list[Any]:
        """Durable events; call it first, since it fixes the order of the sequence numbers."""
        ordered = _in_task_order(list(events))
        self._seqs = {event.seq: number for number, event in enumerate(ordered, start=1)}
        return [self._clean(_ordered_event(event)) for event in ordered]

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Rows of a table, in the table's own order."""
        return [self._clean({name: _parsed(name, value) for name, value in row.items()}) for row in rows]

    def _clean(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._clean(inner, name) for name, inner in value.items() if not DROPPED.search(name)}
        if isinstance(value, list):
            return [self._clean(inner, key) for inner in value]
        if key in ("seq", "updated_seq") and str(value).isdecimal():
            return self._seqs.get(int(value), int(value))
        if isinstance(value, str):
            return UUID.sub(lambda match: self._names.setdefault(match[0], f"id-{len(self._names)}"), value)
        return value


def _parsed(name: str, value: Any) -> Any:
    return json.loads(value) if name in JSON_COLUMNS and value is not None else value


def as_dict(message: Any) -> Any:
    """A message as plain values, with proto field names."""
    return MessageToDict(message, preserving_proto_field_name=True)


def _in_task_order(events: list[ChatEvent]) -> list[ChatEvent]:
    """Runs of task events, sorted by the task's place in its batch; within a task the order stands."""
    places: dict[str, int] = {}
    ordered: list[ChatEvent] = []
    run: list[ChatEvent] = []
    for event in events:
        if event.task_id:
            places.setdefault(event.task_id, event.subagent_event.item.sort_order)
            run.append(event)
            continue
        ordered.extend(sorted(run, key=lambda each: places[each.task_id]))
        run = []
        ordered.append(event)
    return [*ordered, *sorted(run, key=lambda each: places[each.task_id])]


def _ordered_event(event: ChatEvent) -> Any:
    value = as_dict(event)
    for kind in ("session_entry_added", "session_entry_updated"):
        if kind in value:
            value[kind]["entry"] = _ordered_body(getattr(event, kind).entry)
    return value


def _ordered_body(entry: Entry) -> Any:
    value = as_dict(entry)
    batch = value.get("subagent_batch")
    if batch is not None:
        order = {item["task_id"]: place for place, item in enumerate(batch["batch"]["items"])}
        batch["events"] = sorted(batch.get("events", []), key=lambda event: order[event["task_id"]])
        if batch["events"]:
            batch["latest_event"] = batch["events"][-1]
    result = value.get("subagent_result")
    if result is not None:
        order = {item["task_id"]: place for place, item in enumerate(result["batch"]["items"])}
        result["process_events"] = sorted(result["process_events"], key=lambda event: order[event["task_id"]])
    return value
