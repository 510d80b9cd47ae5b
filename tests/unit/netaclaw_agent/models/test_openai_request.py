"""What is sent to an OpenAI-compatible provider."""

import json
from dataclasses import replace
from typing import Any

import pytest

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.session.v1.entry_pb2 import (
    Message,
    MessageRole,
    Part,
    ThinkingPart,
    ToolCallPart,
)
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.openai_request import OpenAIOptions, request_body
from netaclaw_agent.models.thinking import LEVELS, ThinkingStyle, ThinkingWords


def answered(call_id: str, arguments: str, **more: Any) -> Part:
    return Part(
        tool_call=ToolCallPart(
            call_id=call_id, provider_call_id="lookup:0", tool_name="lookup", arguments_json=arguments, **more
        )
    )


@pytest.mark.parametrize(
    ("style", "level", "fields"),
    [
        ("effort", "low", {"reasoning_effort": "low"}),
        ("effort", "off", {}),
        ("type", "off", {"thinking": {"type": "disabled"}}),
        ("type", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("template", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("template", "medium", {"chat_template_kwargs": {"enable_thinking": True}}),
        ("none", "high", {}),
    ],
)
def test_a_thinking_level_is_said_in_the_models_own_words(style: str, level: str, fields: dict[str, Any]) -> None:
    options = OpenAIOptions(thinking=ThinkingWords(ThinkingStyle(style)))
    call = ModelCall(system="", messages=[], thinking_level=LEVELS[level])
    plain = request_body(replace(call, thinking_level=ThinkingLevel.THINKING_LEVEL_UNSPECIFIED), "m", options)
    assert request_body(call, "m", options) == plain | fields


def test_an_operators_word_for_a_level_is_used() -> None:
    options = OpenAIOptions(thinking=ThinkingWords(ThinkingStyle.EFFORT, {LEVELS["off"]: "none"}))
    for level, word in (("off", "none"), ("high", None)):
        call = ModelCall(system="", messages=[], thinking_level=LEVELS[level])
        assert request_body(call, "m", options).get("reasoning_effort") == word


def test_reasoning_goes_back_to_its_own_model_where_that_is_wanted() -> None:
    thought = Part(thinking=ThinkingPart(text="Hm."))
    path = [
        Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, model="m", parts=[thought, answered("a", "{}")]),
        Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, model="m", parts=[answered("b", "{}")]),
        Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, model="other", parts=[thought, answered("c", "{}")]),
    ]
    call = ModelCall(system="", messages=path)
    sent = request_body(call, "m", OpenAIOptions(sends_reasoning=True))["messages"]
    assert [m.get("reasoning_content") for m in sent if m["role"] == "assistant"] == ["Hm.", "", None]
    assert "Hm." not in json.dumps(request_body(call, "m"))


def test_a_model_without_tools_is_offered_none_and_a_call_can_be_demanded() -> None:
    tool = ToolManifest(tool_name="f", description="Does f.")
    call = ModelCall(system="", messages=[], tools=[tool], must_call_tool=True)
    assert request_body(call, "m")["tool_choice"] == "required"
    bare = request_body(call, "m", OpenAIOptions(has_tools=False, max_output_tokens=5, max_tokens_field="most"))
    assert not {"tools", "tool_choice"} & set(bare)
    assert bare["most"] == 5
