"""What the delegations of one turn may take together. Limits of sessions, owners and runners are the runner's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from netaclaw.session.v1.entry_pb2 import Entry, ToolCallState
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import DELEGATE_PARALLEL, DELEGATE_TASK, parse_delegation

LIMIT = "max_subagents_per_turn"


class TurnLimits:
    """Shared by the batches of a turn, which may run side by side."""

    def __init__(self, *, max_concurrent: int, max_per_turn: int) -> None:
        self._most = max_per_turn
        self._begun = 0
        self.places = asyncio.Semaphore(max_concurrent)
        """Children at once; those beyond it wait, in the order of their tasks."""

    def admit(self, count: int) -> None:
        """Count so many more children. Raises ToolError, counting none, when the turn would have too many."""
        if self._begun + count > self._most:
            left = max(self._most - self._begun, 0)
            raise ToolError(
                f"{LIMIT} is reached: a turn may start {self._most} subagents, this one has started {self._begun}, "
                f"and {count} more were asked for. None of them was started: go on with at most {left} more, or do the "
                "work yourself."
            )
        self._begun += count

    def give_back(self, count: int) -> None:
        """Count so many less: they were admitted, and refused for another reason."""
        self._begun -= count

    def remember(self, entries: Iterable[Entry]) -> None:
        """Count the children that a turn had before it was taken over."""
        for entry in entries:
            for part in entry.assistant.parts:
                call = part.tool_call
                ended = call.state == ToolCallState.TOOL_CALL_STATE_COMPLETED
                if ended and call.tool_name in (DELEGATE_TASK, DELEGATE_PARALLEL):
                    self._begun += len(parse_delegation(call.tool_name, call.arguments_json))

    def keep(self, count: int) -> None:
        """Count the children of a batch that a dead owner left: it was admitted before."""
        self._begun += count
