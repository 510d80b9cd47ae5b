"""Calls of clarify: what they ask, and what is wrong with them in words for a model."""

from __future__ import annotations

import json

import pytest

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.clarify import MAX_QUESTION_BYTES, Question, parse_clarify


def test_a_question_is_read_with_its_choices_and_time() -> None:
    given = {"question": " Which? ", "choices": ["a", " b ", "a"], "timeoutSeconds": 60}
    assert parse_clarify(json.dumps(given)) == Question("Which?", ("a", "b"), 60)
    assert parse_clarify('{"question": "Which?", "choices": null}') == Question("Which?", (), None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "question is missing"),
        ({"question": " "}, "question is empty"),
        ({"question": "x" * (MAX_QUESTION_BYTES + 1)}, "question is longer"),
        ({"question": "x", "choices": [str(n) for n in range(11)]}, "choices are more than 10"),
        ({"question": "x", "choices": ["a", ""]}, "choices must have 1 to 200"),
        ({"question": "x", "choices": ["a" * 201]}, "choices must have 1 to 200"),
        ({"question": "x", "timeoutSeconds": 0}, "timeoutSeconds must be from 1 to 604800"),
    ],
)
def test_a_wrong_question_is_refused_in_words_that_a_model_can_act_on(given: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_clarify(json.dumps(given))
    assert words in str(caught.value)
