"""How a run ends: once, by whatever comes first."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState


class Manner(enum.Enum):
    """How the worker is made to go."""

    BY_ITSELF = "it has said its last line"
    ASKED = "cooperative line, then signals"
    ABRUPT = "SIGKILL at once: it cannot be trusted with another line"


@dataclass(frozen=True, slots=True)
class End:
    """An end state with what belongs to it."""

    state: SubagentTaskState
    error: str = ""
    final_output: str = ""
    raw_final_content: str = ""
    partial_text: str = ""
    manner: Manner = Manner.ASKED


class Ending:
    """Holds the first end that is decided; later ones change nothing."""

    def __init__(self) -> None:
        self._end: End | None = None
        self.over = asyncio.Event()
        """Set with the first end."""

    @property
    def end(self) -> End | None:
        """The end, once decided."""
        return self._end

    def decide(self, end: End) -> bool:
        """Decide the end. False when it was decided before."""
        if self._end is not None:
            return False
        self._end = end
        self.over.set()
        return True


def failed(error: str, manner: Manner = Manner.ASKED) -> End:
    """The end of a task that broke."""
    return End(SubagentTaskState.SUBAGENT_TASK_STATE_FAILED, error, manner=manner)


def stopped_at(limit: str) -> End:
    """The end of a task that spent what it was given; its text is kept."""
    return End(SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL, limit)


def timed_out(error: str) -> End:
    """The end of a task that took too long."""
    return End(SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT, error)


def cancelled(reason: str) -> End:
    """The end of a task that was stopped from outside."""
    return End(SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED, reason or "cancelled")
