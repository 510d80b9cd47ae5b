"""Delegate calls read into tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import (
    DELEGATION_TOOLS,
    MAX_CONTEXT_BYTES,
    MAX_GOAL_BYTES,
    MAX_TASKS,
    TASK_NAME_LENGTH,
    ReadRange,
    TaskSpec,
    parse_delegation,
    parse_read,
    task_name,
)

ARGUMENTS = ["goal", "tasks", "agentId", "toolNames", "resumeTaskId", "x"]
TASK_ID = "0193a1b2-0000-7000-8000-000000000001"


def one(**arguments: Any) -> TaskSpec:
    (spec,) = parse_delegation("delegate_task", json.dumps(arguments))
    return spec


def test_a_bare_goal_is_a_clone_that_inherits() -> None:
    assert one(goal=" count ") == TaskSpec("count", "", "", "clone", None, None)


def test_an_agent_id_makes_a_preset_and_may_be_a_number() -> None:
    assert (one(goal="g", agentId=7).agent_id, one(goal="g", agentId=7).mode) == ("7", "preset")
    assert one(goal="g", agentId="a-1", mode="preset").agent_id == "a-1"


def test_a_blank_agent_id_counts_as_absent() -> None:
    assert one(goal="g", agentId=" ").mode == "clone"


def test_absent_tool_names_inherit_and_empty_ones_mean_none() -> None:
    assert one(goal="g").tool_names is None
    assert one(goal="g", toolNames=[]).tool_names == ()
    assert one(goal="g", toolNames=["b", "a", "b"]).tool_names == ("b", "a")


def test_parallel_tasks_keep_their_order() -> None:
    specs = parse_delegation("delegate_parallel", '{"tasks": [{"goal": "x"}, {"goal": "y", "maxToolRounds": 3}]}')
    assert [(spec.goal, spec.max_tool_rounds) for spec in specs] == [("x", None), ("y", 3)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "goal is missing"),
        ({"goal": " "}, "goal is empty"),
        ({"goal": "g" * (MAX_GOAL_BYTES + 1)}, "goal is 8193 bytes long"),
        ({"goal": "查" * (MAX_GOAL_BYTES // 2)}, "goal is 12288 bytes long"),
        ({"goal": "g", "context": "c" * (MAX_CONTEXT_BYTES + 1)}, "context is 65537 bytes long"),
        ({"goal": "g", "mode": "preset"}, "agentId is missing"),
        ({"goal": "g", "mode": "clone", "agentId": "a"}, "does not go with mode clone"),
        ({"goal": "g", "mode": "copy"}, "mode must be one of preset, clone, not 'copy'"),
        ({"goal": "g", "maxToolRounds": 0}, "maxToolRounds must be from 1 to 100"),
        ({"goal": "g", "maxToolRounds": 101}, "maxToolRounds must be from 1 to 100"),
        ({"goal": "g", "agentId": True}, "agentId must be a string"),
        ({"goal": "g", "toolNames": "list_files"}, "toolNames must be a list"),
        ({"goal": "g", "toolNames": [""]}, "not a tool's name"),
        ({"goal": "g", "priority": 1}, "unknown argument 'priority'"),
    ],
)
def test_a_bad_task_is_refused_in_words(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        one(**arguments)


def test_bad_tasks_of_a_list_are_named_by_their_place() -> None:
    with pytest.raises(ToolError, match=r"tasks\[1\]\.goal is empty"):
        parse_delegation("delegate_parallel", '{"tasks": [{"goal": "x"}, {"goal": ""}]}')


def test_empty_and_over_long_lists_are_refused() -> None:
    with pytest.raises(ToolError, match="tasks is empty"):
        parse_delegation("delegate_parallel", '{"tasks": []}')
    with pytest.raises(ToolError, match="tasks is missing"):
        parse_delegation("delegate_parallel", "{}")
    many = json.dumps({"tasks": [{"goal": "g"}] * (MAX_TASKS + 1)})
    with pytest.raises(ToolError, match=f"at most {MAX_TASKS}"):
        parse_delegation("delegate_parallel", many)


def test_other_tools_are_no_delegation() -> None:
    with pytest.raises(ToolError, match="not a delegation tool"):
        parse_delegation("read_file", "{}")


def test_schemas_name_the_arguments_that_are_read() -> None:
    task, parallel, read = (json.loads(tool.parameters_json) for tool in DELEGATION_TOOLS)
    assert parallel["properties"]["tasks"]["items"] == task
    assert one(**dict.fromkeys(task["properties"]) | {"goal": "g"}).goal == "g"
    asked = parse_read(json.dumps(dict.fromkeys(read["properties"]) | {"taskId": TASK_ID}))
    assert asked == ReadRange(TASK_ID, 0, 8192)


def test_a_task_can_go_on_with_an_earlier_one_in_place_of_an_agent() -> None:
    assert one(goal="g", resumeTaskId=f" {TASK_ID} ").resume_task_id == TASK_ID
    assert one(goal="g", resumeTaskId="", agentId="a").resume_task_id == ""
    with pytest.raises(ToolError, match="agentId does not go with resumeTaskId"):
        one(goal="g", resumeTaskId=TASK_ID, agentId="a")
    with pytest.raises(ToolError, match="resumeTaskId is not a task's id"):
        one(goal="g", resumeTaskId="the first one")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, "taskId is missing"),
        ({"taskId": "x"}, "taskId is not a task's id"),
        ({"taskId": TASK_ID, "offset": -1}, "offset"),
        ({"taskId": TASK_ID, "limit": 10**6}, "limit"),
        ({"taskId": TASK_ID, "events": True}, "events"),
    ],
)
def test_a_range_of_a_result_is_read_by_task_and_bytes_and_nothing_else(arguments: object, wrong: str) -> None:
    with pytest.raises(ToolError, match=wrong):
        parse_read(json.dumps(arguments))


def test_task_names_are_first_words_on_one_line() -> None:
    assert task_name(one(goal="count\n lines")) == "count lines"
    long = task_name(one(goal="find the largest files under services and say which languages they are"))
    assert long == "find the largest files under services and say…"
    assert task_name(one(goal="统" * 60)) == "统" * 47 + "…"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: bool(text.strip())))
def test_task_names_are_short_and_never_empty(goal: str) -> None:
    name = task_name(TaskSpec(goal, "", "", "clone", None, None))
    assert 0 < len(name) <= TASK_NAME_LENGTH
    assert "\n" not in name


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["goal", "tasks", "agentId", "toolNames", "resumeTaskId", "x"]), inner)
        ),
    )
)
def test_any_json_gives_tasks_or_a_tool_error(value: Any) -> None:
    for tool in ("delegate_task", "delegate_parallel"):
        try:
            assert 1 <= len(parse_delegation(tool, json.dumps(value))) <= MAX_TASKS
        except ToolError as error:
            str(error).encode()
