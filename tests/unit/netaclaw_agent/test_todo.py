"""Calls of todo_write: what they write, and what is wrong with them in words for a model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import TodoItem
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.todo import MAX_ITEMS, MAX_TEXT_LENGTH, describe_todos, parse_todos


def test_a_list_is_read_in_order_with_ids_of_its_own_or_places() -> None:
    given = [
        {"todoId": "roof", "text": " mend the roof ", "status": "completed"},
        {"text": "paint"},
        {"todoId": 7, "text": "sweep", "status": "in_progress"},
    ]
    items = parse_todos(json.dumps({"todos": given}))
    assert items == [
        TodoItem(todo_id="roof", text="mend the roof", status="completed"),
        TodoItem(todo_id="2", text="paint", status="pending"),
        TodoItem(todo_id="7", text="sweep", status="in_progress"),
    ]
    assert describe_todos(items) == "The list stands: 1 pending, 1 in progress, 1 completed."


def test_an_empty_list_clears_the_one_before() -> None:
    items = parse_todos('{"todos": []}')
    assert items == []
    assert describe_todos(items) == "The list is empty now."


@pytest.mark.parametrize(
    ("todos", "words"),
    [
        ([{"text": "x"}] * (MAX_ITEMS + 1), "holds 51 items"),
        ([{"text": " "}], "todos[0].text is empty"),
        ([{"text": "x" * (MAX_TEXT_LENGTH + 1)}], "todos[0].text is longer"),
        ([{"text": "x", "status": "done"}], "todos[0].status must be one of pending"),
        ([{"text": "x", "todoId": "a"}, {"text": "y", "todoId": "a"}], "todos[1].todoId stands twice in the list: a"),
        ([{"text": "x"}, {"text": "y", "todoId": 1}], "todos[1].todoId stands twice"),
        ([{"text": "x", "todoId": "i" * 65}], "todos[0].todoId is longer"),
        ([{"text": "x", "todoId": 10**70}], "todos[0].todoId is longer"),
        ([{"text": "x", "note": "y"}], "unknown argument todos[0].'note'"),
        (["x"], "todos[0] must be an object"),
        (None, "todos is missing"),
    ],
)
def test_a_wrong_list_is_refused_in_words_that_a_model_can_act_on(todos: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_todos(json.dumps({"todos": todos}))
    assert words in str(caught.value)


@given(
    st.text()
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps({"todos": value})
    )
)
def test_any_arguments_are_a_list_or_an_error(arguments_json: str) -> None:
    try:
        items = parse_todos(arguments_json)
    except ToolError:
        return
    assert len(items) <= MAX_ITEMS
    assert len({item.todo_id for item in items}) == len(items)
