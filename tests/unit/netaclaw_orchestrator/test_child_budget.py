"""What the children of a batch may spend together."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_orchestrator.delegation.budget import BatchBudget, BatchSpent


def budget(*, children: int = 4, spent: int = 0, **settings: int) -> BatchBudget:
    made = replace(SubagentSettings(), **settings)  # type: ignore[arg-type]  # numbers all
    return BatchBudget(made, timeout_s=60, children=children, spent=Usage(input_tokens=spent))


def ended(task_id: str, tokens: int) -> SubagentTask:
    return SubagentTask(task_id=task_id, usage=Usage(input_tokens=tokens - 1, output_tokens=1))


async def test_a_child_gets_the_limits_of_the_operator_and_of_its_task() -> None:
    made = budget(stall_seconds=7, max_tool_calls=9, max_tokens=11).begin("a", 5)
    assert made.timeout_ms == 60_000
    assert (made.budget.stall_ms, made.budget.max_tool_calls, made.budget.max_tokens) == (7000, 9, 11)
    assert made.budget.max_tool_rounds == 5


async def test_tokens_of_a_batch_are_shared_and_what_is_left_goes_to_later_ones() -> None:
    shared = budget(children=4, batch_max_tokens=100)
    assert [shared.begin(name, 1).budget.max_tokens for name in "ab"] == [25, 25]
    shared.end(ended("a", 5))
    shared.end(ended("a", 5))  # counted once
    assert shared.begin("c", 1).budget.max_tokens == 35
    shared.end(ended("b", 60))  # its last call went beyond its share
    with pytest.raises(BatchSpent, match="batch_max_tokens is reached: 100") as caught:
        shared.begin("d", 1)
    assert caught.value.state == SubagentTaskState.SUBAGENT_TASK_STATE_FAILED


async def test_a_share_is_never_more_than_a_task_may_have() -> None:
    shared = budget(children=2, batch_max_tokens=100, max_tokens=20)
    assert [shared.begin(name, 1).budget.max_tokens for name in "ab"] == [20, 20]


async def test_tokens_that_an_earlier_owner_saw_spent_count() -> None:
    assert budget(children=1, spent=90, batch_max_tokens=100).begin("a", 1).budget.max_tokens == 10


async def test_time_of_a_batch_counts_from_its_first_child(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    shared = budget(batch_timeout_seconds=100)
    assert shared.begin("a", 1).timeout_ms == 60_000
    now += 70
    assert shared.begin("b", 1).timeout_ms == 30_000
    now += 29.5
    with pytest.raises(BatchSpent, match="batch_timeout_seconds is reached: 100") as caught:
        shared.begin("c", 1)
    assert caught.value.state == SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT
    monkeypatch.undo()


async def test_time_of_a_batch_stands_still_while_any_child_waits_for_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    shared = budget(batch_timeout_seconds=100)
    shared.begin("a", 1)
    now += 50
    shared.pause()
    now += 500
    shared.pause()
    assert shared.begin("b", 1).timeout_ms == 50_000
    shared.resume()
    now += 500
    shared.resume()
    now += 10
    assert shared.begin("c", 1).timeout_ms == 40_000
    monkeypatch.undo()
