"""What the children of one batch may spend, each and together. The runner enforces it; here it is shared out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1.envelope_pb2 import TaskBudget
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_agent.usage import add_usage
from netaclaw_orchestrator.delegation.outcome import ENDED, LeftBehind
from netaclaw_orchestrator.delegation.sources import Parent

LEAST_S = 1.0
"""A child that has less time left is not begun."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one child may spend."""

    timeout_ms: int
    budget: TaskBudget


class BatchSpent(Exception):
    """Nothing is left for another child. The text names the limit."""

    def __init__(self, state: SubagentTaskState, words: str) -> None:
        super().__init__(words)
        self.state = state
        """The state in which the child ends that was not begun."""


class BatchBudget:
    """Time counts from the first child's beginning. Tokens are shared evenly by those that are still to begin.

    What a child leaves of its share falls to the later ones, so all together stay within the batch's limit, but for the
    last model call of each.
    """

    def __init__(
        self, settings: SubagentSettings, *, timeout_s: int, children: int, spent: Usage | None = None
    ) -> None:
        """`timeout_s`: of one child. `children`: how many are to begin; `spent`: by those that have ended before."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._to_begin = children
        self._left = settings.batch_max_tokens - (_tokens(spent) if spent is not None else 0)
        self._shares: dict[str, int] = {}
        self._ends: float | None = None
        self._paused = 0
        self._since = 0.0

    @classmethod
    def of(cls, parent: Parent, children: int, left_behind: LeftBehind | None) -> Self:
        """Of a new batch, or of one that a dead owner left: what its children had spent counts."""
        timeout_s = parent.config.timeout_seconds
        if left_behind is None:
            return cls(parent.settings, timeout_s=timeout_s, children=children)
        to_begin = [task for task in left_behind.tasks if task.state not in ENDED]
        spent = Usage()
        for task in left_behind.tasks:
            add_usage(spent, task.usage)
        return cls(parent.settings, timeout_s=timeout_s, children=len(to_begin), spent=spent)

    def begin(self, task_id: str, max_tool_rounds: int) -> Allowance:
        """The allowance of a child that begins now. Raises BatchSpent."""
        self._to_begin = max(self._to_begin - 1, 0)
        return Allowance(
            timeout_ms=round(self._time_s() * 1000),
            budget=TaskBudget(
                max_tool_rounds=max_tool_rounds,
                max_tool_calls=self._settings.max_tool_calls,
                max_tokens=self._share(task_id),
                stall_ms=self._settings.stall_seconds * 1000,
            ),
        )

    def end(self, task: SubagentTask) -> None:
        """A child has ended: what is left of its share is for others."""
        if task.task_id in self._shares:
            spent = _tokens(task.usage) - _tokens(task.earlier_usage)
            self._left += self._shares.pop(task.task_id) - spent

    def pause(self) -> None:
        """A child waits for a person; while one does, the batch's time stands still."""
        self._paused += 1
        if self._paused == 1:
            self._since = asyncio.get_running_loop().time()

    def resume(self) -> None:
        """It waits no more."""
        self._paused -= 1
        if self._paused == 0 and self._ends is not None:
            self._ends += asyncio.get_running_loop().time() - self._since

    def _time_s(self) -> float:
        now = self._since if self._paused else asyncio.get_running_loop().time()
        if self._ends is None:
            self._ends = now + self._settings.batch_timeout_seconds
        left = self._ends - now
        if left < LEAST_S:
            words = f"batch_timeout_seconds is reached: {self._settings.batch_timeout_seconds}; it was not begun"
            raise BatchSpent(SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT, words)
        return min(float(self._timeout_s), left)

    def _share(self, task_id: str) -> int:
        """Tokens of a child; 0: no limit."""
        most = self._settings.max_tokens
        if not self._settings.batch_max_tokens:
            return most
        share = self._left // (self._to_begin + 1)
        if share <= 0:
            words = f"batch_max_tokens is reached: {self._settings.batch_max_tokens}; it was not begun"
            raise BatchSpent(SubagentTaskState.SUBAGENT_TASK_STATE_FAILED, words)
        share = min(share, most) if most else share
        self._left -= share
        self._shares[task_id] = share
        return share


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
