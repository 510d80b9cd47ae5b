"""What the model reads of calls that were not run to their end."""

from __future__ import annotations

from netaclaw.session.v1.entry_pb2 import ToolCallState

NEVER_BEGAN = "never began: the turn was stopped"
NEVER_ALLOWED = "never began: it waited for a person's approval when the turn was stopped"
UNRUN = {
    ToolCallState.TOOL_CALL_STATE_CANCELLED: "stopped while running; it may have had effect",
    ToolCallState.TOOL_CALL_STATE_IN_DOUBT: "its process died while it ran: whether it took effect is not known; "
    "look before you do it again",
}
"""Of calls that had begun."""
