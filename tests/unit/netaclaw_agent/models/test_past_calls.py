"""Calls that models made up, on their way back to a provider."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import Message, MessageRole, Part, ToolCallPart
from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.anthropic_request import AnthropicOptions, request_bytes
from netaclaw_agent.models.openai_request import request_body
from netaclaw_agent.models.past_calls import sendable_arguments, sendable_name

ACCEPTED = re.compile("[A-Za-z0-9_-]{1,64}")
"""What providers say of names."""


@pytest.mark.parametrize(
    ("made_up", "sent"),
    [
        ("read_file", "read_file"),
        ("functions.read_file:0", "functions_read_file_0"),
        ("read_file<|channel|>commentary", "read_file__channel__commentary"),
        ("读", "_"),
        ("x" * 200, "x" * 64),
        ("", "_"),
    ],
)
def test_a_made_up_name_goes_back_as_providers_take_it(made_up: str, sent: str) -> None:
    assert sendable_name(made_up) == sent


@given(st.text())
def test_any_name_can_be_sent(name: str) -> None:
    assert ACCEPTED.fullmatch(sendable_name(name))


@pytest.mark.parametrize(
    ("made_up", "sent"),
    [
        ('{"b":1,"a":2,"b":3}', '{"b":1,"a":2,"b":3}'),
        ('{"n": 1e400}', '{"n": 1e400}'),
        (" \n", "{}"),
        (r'"{\"path\": \"a\"}"', '{"path": "a"}'),
        ('"text"', r'{"invalid_arguments": "\"text\""}'),
        ("[1]", '{"invalid_arguments": "[1]"}'),
        ("null", '{"invalid_arguments": "null"}'),
        ('{"n": NaN}', r'{"invalid_arguments": "{\"n\": NaN}"}'),
        ("{broken", '{"invalid_arguments": "{broken"}'),
    ],
)
def test_made_up_arguments_go_back_as_an_object(made_up: str, sent: str) -> None:
    assert sendable_arguments(made_up) == sent


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_arguments_can_be_sent(text: str) -> None:
    assert isinstance(json.loads(sendable_arguments(text)), dict)


def test_both_formats_send_past_calls_so() -> None:
    made_up = Part(tool_call=ToolCallPart(call_id="a", tool_name="browser.open", arguments_json="[1]"))
    call = ModelCall(system="", messages=[Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, parts=[made_up])])
    function = request_body(call, "m")["messages"][0]["tool_calls"][0]["function"]
    assert function == {"name": "browser_open", "arguments": '{"invalid_arguments": "[1]"}'}
    block = json.loads(request_bytes(call, "m", AnthropicOptions()))["messages"][0]["content"][0]
    assert (block["name"], block["input"]) == ("browser_open", {"invalid_arguments": "[1]"})
