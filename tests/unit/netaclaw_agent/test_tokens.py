"""Estimates of tokens."""

import pytest

from netaclaw.session.v1.entry_pb2 import Message, Part, ThinkingPart, ToolCallPart, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import user_message
from netaclaw_agent.tokens import estimate_tokens, message_tokens, prompt_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("a" * 400, 100), ("東京", 2), ("日" * 100, 75)]
)
def test_scripts_are_weighed_apart(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_every_part_that_a_model_sees_counts() -> None:
    call = ToolCallPart(tool_name="read", arguments_json='{"a": 1}', result=ToolResult(content="x" * 40))
    message = Message(parts=[Part(thinking=ThinkingPart(text="y" * 40)), Part(tool_call=call)])
    assert message_tokens(message) == 4 + 10 + 4 + 1 + 2 + 10
    tools = [ToolManifest(description="z" * 40, parameters_json="{}")]
    assert prompt_tokens("s" * 8, [user_message("abcd")], tools) == 2 + 5 + 15
