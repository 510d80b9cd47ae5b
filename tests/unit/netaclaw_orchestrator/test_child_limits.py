"""What a turn's delegations may take together."""

from __future__ import annotations

import json

import pytest

from netaclaw.session.v1.entry_pb2 import AssistantBody, Entry, Part, ToolCallPart, ToolCallState
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import DELEGATE_PARALLEL, DELEGATE_TASK
from netaclaw_orchestrator.delegation.limits import LIMIT, TurnLimits

COMPLETED = ToolCallState.TOOL_CALL_STATE_COMPLETED
FAILED = ToolCallState.TOOL_CALL_STATE_FAILED
RUNNING = ToolCallState.TOOL_CALL_STATE_RUNNING


def entry(*calls: tuple[str, int, ToolCallState]) -> Entry:
    """An answer that delegates: (tool, tasks, state) each."""
    parts = []
    for tool, count, state in calls:
        tasks = [{"goal": f"task {number}"} for number in range(count)]
        arguments = tasks[0] if tool == DELEGATE_TASK else {"tasks": tasks}
        call = ToolCallPart(call_id="c", tool_name=tool, arguments_json=json.dumps(arguments), state=state)
        parts.append(Part(tool_call=call))
    return Entry(assistant=AssistantBody(parts=parts))


def test_a_call_that_would_go_beyond_the_limit_is_refused_by_name_and_counts_nothing() -> None:
    limits = TurnLimits(max_concurrent=3, max_per_turn=5)
    limits.admit(3)
    with pytest.raises(ToolError, match=f"{LIMIT}.* 5 subagents, this one has started 3, and 3 more .* at most 2 more"):
        limits.admit(3)
    limits.admit(2)
    with pytest.raises(ToolError, match=LIMIT):
        limits.admit(1)


def test_a_turn_that_is_taken_over_goes_on_counting() -> None:
    limits = TurnLimits(max_concurrent=3, max_per_turn=10)
    before = entry((DELEGATE_PARALLEL, 4, COMPLETED), (DELEGATE_TASK, 1, COMPLETED), (DELEGATE_PARALLEL, 9, FAILED))
    limits.remember([before, entry((DELEGATE_PARALLEL, 2, RUNNING))])
    limits.keep(2)  # of the running one, as it goes on
    limits.admit(3)
    with pytest.raises(ToolError, match="has started 10"):
        limits.admit(1)


def test_what_was_admitted_before_is_kept_whatever_the_limit_is_now() -> None:
    limits = TurnLimits(max_concurrent=3, max_per_turn=2)
    limits.keep(4)
    with pytest.raises(ToolError, match="at most 0 more"):
        limits.admit(1)
