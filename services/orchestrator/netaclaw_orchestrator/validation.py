"""What a request must satisfy before anything is stored; one answer names everything that is wrong."""

from __future__ import annotations

from netaclaw.chat.v1.chat_service_pb2 import (
    ChatRequest,
    CompactRequest,
    ExecuteChatRequest,
    RespondClarifyRequest,
    SteerSubagentRequest,
    WatchRequest,
)
from netaclaw_chassis.errors import Violations
from netaclaw_chassis.ids import is_id

MAX_CONTENT_BYTES = 256 * 1024
MAX_STEER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 32 * 1024
"""Longest answer to a question: it becomes a tool's result."""
MAX_INSTRUCTIONS_CHARS = 4_000
MAX_KEY_CHARS = 128
MAX_NAME_CHARS = 100
MAX_WATCH_TARGETS = 100


def check_chat(request: ChatRequest | ExecuteChatRequest) -> None:
    """Raises InvalidRequest."""
    wrong = Violations()
    size = len(request.content.encode())
    wrong.check(bool(request.content.strip()), "content", "must not be empty")
    wrong.check(
        size <= MAX_CONTENT_BYTES, "content", f"is {size} bytes long, but at most {MAX_CONTENT_BYTES} are allowed"
    )
    for field in ("session_id", "agent_id", "leaf_entry_id"):
        check_id(wrong, field, getattr(request, field), optional=True)
    wrong.check(len(request.agent_name) <= MAX_NAME_CHARS, "agent_name", f"is longer than {MAX_NAME_CHARS} characters")
    check_key(wrong, "request_id", request.request_id)
    wrong.check(
        bool(request.session_id) or not request.leaf_entry_id, "leaf_entry_id", "needs the session that it belongs to"
    )
    wrong.check(not (request.from_root and request.leaf_entry_id), "from_root", "excludes leaf_entry_id")
    wrong.raise_if_any()


def check_watch(request: WatchRequest) -> None:
    """Raises InvalidRequest."""
    wrong = Violations()
    wrong.check(
        bool(request.targets) or request.include_session_list, "targets", "name a session, or include_session_list"
    )
    wrong.check(len(request.targets) <= MAX_WATCH_TARGETS, "targets", f"are more than {MAX_WATCH_TARGETS}")
    for number, target in enumerate(request.targets):
        check_id(wrong, f"targets[{number}].session_id", target.session_id)
        wrong.check(target.after_seq >= 0, f"targets[{number}].after_seq", "must not be negative")
    ids = [target.session_id for target in request.targets]
    wrong.check(len(set(ids)) == len(ids), "targets", "name a session twice")
    wrong.raise_if_any()


def check_steer(request: SteerSubagentRequest) -> None:
    """Raises InvalidRequest."""
    wrong = Violations()
    check_id(wrong, "session_id", request.session_id)
    check_id(wrong, "task_id", request.task_id)
    check_key(wrong, "request_id", request.request_id)
    size = len(request.content.encode())
    wrong.check(bool(request.content.strip()), "content", "must not be empty")
    wrong.check(size <= MAX_STEER_BYTES, "content", f"is {size} bytes long, but at most {MAX_STEER_BYTES} are allowed")
    wrong.raise_if_any()


def check_answer(request: RespondClarifyRequest) -> None:
    """Raises InvalidRequest."""
    wrong = Violations()
    check_id(wrong, "session_id", request.session_id)
    wrong.check(bool(request.request_id), "request_id", "must not be empty")
    check_key(wrong, "request_id", request.request_id)
    size = len(request.answer.encode())
    wrong.check(bool(request.answer.strip()), "answer", "must not be empty")
    wrong.check(size <= MAX_ANSWER_BYTES, "answer", f"is {size} bytes long, but at most {MAX_ANSWER_BYTES} are allowed")
    wrong.raise_if_any()


def check_compact(request: CompactRequest) -> None:
    """Raises InvalidRequest."""
    wrong = Violations()
    check_id(wrong, "session_id", request.session_id)
    check_instructions(wrong, request.instructions)
    wrong.raise_if_any()


def check_instructions(wrong: Violations, instructions: str) -> None:
    """Note what a person asks a summary to keep in mind, unless it is at most MAX_INSTRUCTIONS_CHARS long."""
    fits = len(instructions) <= MAX_INSTRUCTIONS_CHARS
    wrong.check(fits, "instructions", f"are longer than {MAX_INSTRUCTIONS_CHARS} characters")


def check_id(wrong: Violations, field: str, value: str, *, optional: bool = False) -> None:
    """Note the field unless it is a UUID in lower case, or empty where that is allowed."""
    if optional and not value:
        return
    wrong.check(is_id(value), field, "is not a UUID in lower case")


def check_key(wrong: Violations, field: str, value: str) -> None:
    """Note the field unless it is at most MAX_KEY_CHARS printable characters."""
    wrong.check(len(value) <= MAX_KEY_CHARS, field, f"is longer than {MAX_KEY_CHARS} characters")
    wrong.check(value.isprintable(), field, "has characters that cannot be printed")


def require_ids(**ids: str) -> None:
    """Raises InvalidRequest unless every value is an id; names are field paths."""
    wrong = Violations()
    for field, value in ids.items():
        check_id(wrong, field, value)
    wrong.raise_if_any()
