"""What requests must look like before a statement is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import Violations
from netaclaw_chassis.ids import is_id
from netaclaw_store.batch import Part

MAX_CONTENT_BYTES = 256 * 1024
MAX_REQUEST_ID = 128
MAX_OWNER_ID = 200
MAX_NAME = 200
MAX_TITLE = 200
MAX_LABEL = 100
MAX_LABELS = 100
MAX_WRITES = 1000
MAX_STEPS = 100
"""In one write."""
MAX_BATCH_BYTES = 1024 * 1024
MAX_DRAFTS = 1000


def check_id(found: Violations, field: str, value: str) -> None:
    """A required id in the form of a UUID."""
    found.check(is_id(value), field, "is not a UUID in lower case")


def check_optional_id(found: Violations, field: str, value: str) -> None:
    found.check(not value or is_id(value), field, "is not a UUID in lower case")


def check_name(found: Violations, field: str, value: str, limit: int = MAX_NAME) -> None:
    """A required short text of one piece: an owner, an instance, a call."""
    found.check(0 < len(value) <= limit and "\0" not in value, field, f"is empty or longer than {limit} characters")


def check_text(found: Violations, field: str, value: str, limit: int) -> None:
    """An optional text of at most `limit` characters."""
    found.check(len(value) <= limit, field, f"is longer than {limit} characters")


def owned_session(owner_id: str, session_id: str) -> Violations:
    """What every call on one session of an owner needs."""
    found = Violations()
    check_name(found, "owner_id", owner_id, MAX_OWNER_ID)
    check_id(found, "session_id", session_id)
    return found


def check_begin_turn(request: j.BeginTurnRequest) -> None:
    found = owned_session(request.owner_id, request.session_id)
    check_name(found, "instance_id", request.instance_id)
    for field in ("turn_id", "user_entry_id", "assistant_entry_id"):
        check_id(found, field, getattr(request, field))
    for field in ("agent_id", "leaf_entry_id"):
        check_optional_id(found, field, getattr(request, field))
    found.check(not (request.from_root and request.leaf_entry_id), "from_root", "excludes leaf_entry_id")
    found.check("\0" not in request.known_entry_id, "known_entry_id", "holds NUL")
    size = len(request.content.encode())
    fits = 0 < size <= MAX_CONTENT_BYTES or request.from_queue
    found.check(fits, "content", f"is empty or larger than {MAX_CONTENT_BYTES} bytes")
    check_text(found, "request_id", request.request_id, MAX_REQUEST_ID)
    found.check("\0" not in request.request_id, "request_id", "holds NUL")
    check_text(found, "agent_name", request.agent_name, MAX_NAME)
    found.check("\0" not in request.agent_name, "agent_name", "holds NUL")
    found.check(
        request.user_entry_id != request.assistant_entry_id, "assistant_entry_id", "is the same as user_entry_id"
    )
    found.raise_if_any()


def check_append(request: j.AppendRequest, parts: Sequence[Part]) -> None:
    """A batch and its writes, taken apart."""
    found = Violations()
    if parts or request.session_id:
        check_id(found, "session_id", request.session_id)
        found.check(request.append_no >= 1, "append_no", "is less than 1")
    found.check(len(request.writes) <= MAX_WRITES, "writes", f"are more than {MAX_WRITES}")
    for index, write in enumerate(request.writes):
        if write.HasField("subagent_steps"):
            _check_steps(found, f"writes[{index}].subagent_steps", write.subagent_steps)
    found.check(request.ByteSize() <= MAX_BATCH_BYTES, "writes", f"are larger than {MAX_BATCH_BYTES} bytes")
    found.check(len(request.drafts) <= MAX_DRAFTS, "drafts", f"are more than {MAX_DRAFTS}")
    for index, (kind, body) in enumerate(parts):
        if kind not in ("event", "process_event"):
            _check_write(found, f"writes[{index}]", kind, body)
        elif body is None:
            found.add(f"writes[{index}].event.event", "is not a durable event")
    found.raise_if_any()


def _check_steps(found: Violations, field: str, steps: j.SubagentStepsWrite) -> None:
    check_id(found, f"{field}.batch_entry_id", steps.batch_entry_id)
    check_id(found, f"{field}.task_id", steps.task_id)
    found.check(steps.first_n >= 0, f"{field}.first_n", "is negative")
    found.check(len(steps.process_events) <= MAX_STEPS, f"{field}.process_events", f"are more than {MAX_STEPS}")


def _check_write(found: Violations, field: str, kind: str | None, body: Any) -> None:
    if kind == "entry":
        entry = body.entry
        check_id(found, f"{field}.entry.entry.entry_id", entry.entry_id)
        found.check(entry.kind > 0, f"{field}.entry.entry.kind", "is not stated")
        found.check(entry.WhichOneof("body") is not None, f"{field}.entry.entry", "has no body")
        for name in ("parent_entry_id", "turn_id", "tool_call_id"):
            found.check("\0" not in getattr(entry, name), f"{field}.entry.entry.{name}", "holds NUL")
    elif kind == "leaf":
        check_id(found, f"{field}.leaf.leaf_entry_id", body.leaf_entry_id)
    elif kind == "subagent_task":
        check_id(found, f"{field}.subagent_task.task.task_id", body.task.task_id)
        check_name(found, f"{field}.subagent_task.parent_entry_id", body.parent_entry_id)
    elif kind == "subagent_entry":
        check_id(found, f"{field}.subagent_entry.task_id", body.task_id)
        found.check(body.n >= 0, f"{field}.subagent_entry.n", "is negative")
    elif kind == "queue_take":
        check_name(found, f"{field}.queue_take.request_id", body.request_id, MAX_REQUEST_ID)
        check_id(found, f"{field}.queue_take.turn_id", body.turn_id)
    elif kind == "turn_end":
        check_id(found, f"{field}.turn_end.turn_id", body.turn_id)
    elif kind == "content":
        check_id(found, f"{field}.content.content_id", body.content_id)
        check_name(found, f"{field}.content.entry_id", body.entry_id)
    elif kind != "usage":
        found.add(field, "holds no write")


def check_create_session(request: j.CreateSessionRequest) -> None:
    found = owned_session(request.owner_id, request.request.session_id)
    check_optional_id(found, "agent_id", request.request.agent_id)
    check_text(found, "title", request.request.title, MAX_TITLE)
    check_text(found, "workspace", request.request.workspace, MAX_NAME)
    found.check("\0" not in request.request.workspace, "workspace", "holds NUL")
    found.raise_if_any()


def check_update_session(request: j.UpdateSessionRequest) -> None:
    found = owned_session(request.owner_id, request.session.session_id)
    for path in request.update_mask.paths:
        found.check(path in ("title", "agent_id", "thinking_level"), "update_mask", f"{path[:200]!r} cannot be changed")
    check_text(found, "session.title", request.session.title, MAX_TITLE)
    check_optional_id(found, "session.agent_id", request.session.agent_id)
    found.check(0 <= request.session.thinking_level <= 4, "session.thinking_level", "is unknown")
    found.check(len(request.labels) <= MAX_LABELS, "labels", f"are more than {MAX_LABELS}")
    for index, mark in enumerate(request.labels):
        check_id(found, f"labels[{index}].entry_id", mark.entry_id)
        check_text(found, f"labels[{index}].label", mark.label, MAX_LABEL)
    found.raise_if_any()


def check_switch_leaf(request: j.SwitchLeafRequest) -> None:
    found = owned_session(request.owner_id, request.session_id)
    found.check(not (request.to_root and request.leaf_entry_id), "to_root", "excludes leaf_entry_id")
    found.raise_if_any()


def check_heartbeat(request: j.HeartbeatRequest) -> None:
    found = Violations()
    for field in ("instance_id", "incarnation_id"):
        check_name(found, field, getattr(request, field))
    found.check(len(request.address) <= MAX_NAME and "\0" not in request.address, "address", "is too long")
    found.raise_if_any()


def check_instance(instance_id: str) -> None:
    found = Violations()
    check_name(found, "instance_id", instance_id)
    found.raise_if_any()


def check_delete_sessions(request: j.DeleteSessionsRequest) -> None:
    found = Violations()
    check_name(found, "owner_id", request.owner_id, MAX_OWNER_ID)
    for index, session_id in enumerate(request.session_ids):
        check_id(found, f"session_ids[{index}]", session_id)
    found.check(request.all != bool(request.session_ids), "session_ids", "name sessions or set all, one of the two")
    found.raise_if_any()
