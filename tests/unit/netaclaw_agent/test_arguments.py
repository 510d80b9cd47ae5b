"""Arguments as models write them, good and bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.arguments import Arguments, parse_object

CASE = json.loads((Path(__file__).parents[2] / "cases" / "store-args-01.json").read_text())
ODD_ORDER, DOUBLED, HUGE, NAN, NUMBER_KEYS = CASE["raw_arguments"]


def test_a_doubled_key_gives_the_last_value_and_long_numbers_stay_exact() -> None:
    assert parse_object(DOUBLED) == {"b": 3, "a": 2}
    assert parse_object(ODD_ORDER)["ticket"] == 9007199254740993
    assert list(parse_object(NUMBER_KEYS)) == ["10", "9"]


@pytest.mark.parametrize("text", [HUGE, NAN, '{"n": -Infinity}'])
def test_numbers_that_are_no_json_are_refused_in_words(text: str) -> None:
    with pytest.raises(ToolError, match="not valid JSON"):
        parse_object(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object, not a list"),
        ("null", "must be a JSON object, not null"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        ('{"n": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_what_is_not_a_json_object_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        parse_object(text)


def test_what_is_packed_into_a_string_once_more_is_read() -> None:
    assert parse_object(r'"{\"path\": \"a\"}"') == {"path": "a"}
    packed = json.dumps({"tasks": json.dumps([{"goal": "[1]"}]), "names": '["a", "b"]', "text": "[1]"})
    arguments = Arguments.parse(packed, ("tasks", "names", "text"))
    assert [task.text("goal") for task in arguments.objects("tasks", ("goal",))] == ["[1]"]
    assert arguments.texts("names") == ["a", "b"]
    assert arguments.text("text") == "[1]", "a text stays a text"
    mixed = Arguments.parse(json.dumps({"tasks": ['{"goal": "x"}', {"goal": "y"}]}), ("tasks",))
    assert [task.text("goal") for task in mixed.objects("tasks", ("goal",))] == ["x", "y"]


@pytest.mark.parametrize("packed", ['"[1]"', '"{"', r'"\"{}\""', '"{\\"n\\": NaN}"', r'"{\"a\": \"\\ud800\"}"'])
def test_other_strings_stay_refused(packed: str) -> None:
    with pytest.raises(ToolError, match="must be a JSON object, not a string"):
        parse_object(packed)


def test_blank_text_means_no_arguments() -> None:
    assert parse_object(" \n") == {}


def test_an_escaped_pair_of_surrogates_is_one_character() -> None:
    assert parse_object('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@given(st.text())
def test_any_text_gives_an_object_or_a_tool_error(text: str) -> None:
    try:
        assert isinstance(parse_object(text), dict)
    except ToolError as error:
        str(error).encode()


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ToolError, match="unknown argument 'pth'; known arguments: path, limit"):
        Arguments.parse('{"pth": "x"}', ("path", "limit"))


def test_null_counts_as_absent() -> None:
    arguments = Arguments.parse('{"path": null}', ("path",))
    assert not arguments.has("path")
    assert arguments.text("path", ".") == "."


@pytest.mark.parametrize("value", ["true", '"5"', "5.5", "[5]", "0", "11"])
def test_whole_numbers_take_no_other_type_and_no_value_out_of_range(value: str) -> None:
    arguments = Arguments.parse(f'{{"n": {value}}}', ("n",))
    with pytest.raises(ToolError, match="n must be"):
        arguments.whole("n", 1, low=1, high=10)


def test_a_whole_number_written_as_a_float_counts() -> None:
    assert Arguments.parse('{"n": 5.0}', ("n",)).whole("n", 1, low=1, high=10) == 5


def test_wrong_types_name_the_argument_and_what_came() -> None:
    arguments = Arguments.parse('{"a": 1, "b": "yes", "c": {}, "d": [1], "e": [2]}', "abcde")
    with pytest.raises(ToolError, match="a must be a string, not a number"):
        arguments.text("a")
    with pytest.raises(ToolError, match="b must be true or false, not a string"):
        arguments.flag("b", False)
    with pytest.raises(ToolError, match="c must be a list, not an object"):
        arguments.texts("c")
    with pytest.raises(ToolError, match=r"d\[0\] must be a string, not a number"):
        arguments.texts("d")
    with pytest.raises(ToolError, match=r"e\[0\] must be an object, not a number"):
        arguments.objects("e", ())
    with pytest.raises(ToolError, match="f is missing"):
        Arguments({}, ("f",)).text("f")
