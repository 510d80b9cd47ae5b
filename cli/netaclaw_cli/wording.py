"""Values of the contract in words for a terminal."""

from __future__ import annotations

import time
import unicodedata

from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import ClarifyState, ToolCallPart, ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.tool.v1.tool_pb2 import ToolRoute

TASK_MARKS = {"QUEUED": "·", "RUNNING": "▶", "COMPLETED": "✓", "PARTIAL": "◐", "CANCELLED": "■", "unknown": "?"}
"""Of states; all others are failures. A state of a later version is shown neutral, and does not spin."""
FAILURE_MARK = "✗"


def task_state(state: int) -> str:
    """COMPLETED for SUBAGENT_TASK_STATE_COMPLETED; "unknown" for one that this version does not know."""
    return _name(SubagentTaskState, state, "SUBAGENT_TASK_STATE_")


def call_state(state: int) -> str:
    """COMPLETED for TOOL_CALL_STATE_COMPLETED."""
    return _name(ToolCallState, state, "TOOL_CALL_STATE_")


def clarify_state(state: int) -> str:
    """ANSWERED for CLARIFY_STATE_ANSWERED."""
    return _name(ClarifyState, state, "CLARIFY_STATE_")


def outcome(state: int) -> str:
    """COMPLETED for TURN_OUTCOME_COMPLETED."""
    return _name(TurnOutcome, state, "TURN_OUTCOME_")


def route(call: ToolCallPart) -> str:
    """Where a call runs and, where it does not, why."""
    name = _name(ToolRoute, call.route.route, "TOOL_ROUTE_")
    refused = call.state == ToolCallState.TOOL_CALL_STATE_REFUSED
    return f"{name}: {clean(call.route.reason)}" if refused and call.route.reason else name


def tokens(usage: Usage) -> int:
    """Tokens sent and received."""
    return usage.input_tokens + usage.output_tokens


def usage_line(usage: Usage) -> str:
    """Tokens and cost for people; the cost only where there is one. Part of it may be estimated."""
    cost = f", {usage.cost_micros / 1e6:.4f} $" if usage.cost_micros else ""
    about = "about " if usage.estimated_calls else ""
    return f"{about}{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"


def elapsed_s(task: SubagentTask, now: float | None = None) -> float:
    """How long a task has been running, or ran; 0 before it started."""
    if not task.HasField("start_time"):
        return 0.0
    end = seconds(task.end_time) if task.HasField("end_time") else (time.time() if now is None else now)
    return max(0.0, end - seconds(task.start_time))


def seconds(moment: Timestamp) -> float:
    """A moment as seconds since 1970."""
    return moment.seconds + moment.nanos / 1e9


def clean(text: str) -> str:
    """Text of models, tools and files without what a terminal would obey; newlines and tabs stay."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def _name(kind: object, value: int, prefix: str) -> str:
    names = kind.DESCRIPTOR.values_by_number  # type: ignore[attr-defined]  # enum wrappers share no type
    return str(names[value].name).removeprefix(prefix) if value in names else "unknown"
