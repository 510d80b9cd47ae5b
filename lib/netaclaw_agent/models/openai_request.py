"""Our messages as an OpenAI-style chat completion request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from netaclaw.session.v1.entry_pb2 import Message, MessageRole, ToolCallPart
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.context import missing_result
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.past_calls import sendable_arguments, sendable_name
from netaclaw_agent.models.thinking import ThinkingStyle, ThinkingWords, openai_fields

ERROR_PREFIX = "Error: "
"""Stands before a tool result that is an error: the format has no field for that."""


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """What differs between servers and models that speak the format."""

    thinking: ThinkingWords = field(default_factory=lambda: ThinkingWords(ThinkingStyle.EFFORT))
    sends_reasoning: bool = False
    """Whether the model's own reasoning goes back to it: DeepSeek refuses tool results without it, others refuse it."""
    reasoning_tag: str = "think"
    """The tag around reasoning at the beginning of the text; empty: text is text."""
    reasoning_tag_implied: bool = False
    """The prompt already opens the tag, so that the text begins inside."""
    has_tools: bool = True
    """False: tools are never offered."""
    max_output_tokens: int = 0
    """0: the provider's default."""
    max_tokens_field: str = "max_tokens"
    """OpenAI's own reasoning models want `max_completion_tokens`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as the operator wrote them."""


DEFAULT_OPTIONS = OpenAIOptions()


def request_body(call: ModelCall, model: str, options: OpenAIOptions = DEFAULT_OPTIONS) -> dict[str, Any]:
    """The request of one streaming call, ready for JSON.

    Every tool call in it has exactly one tool message, right after its own assistant message, in the calls' order and
    under our call id: providers refuse anything else, and their own ids may repeat. Reasoning goes back only where
    the options say so, and only to the model that it came from.
    """
    body: dict[str, Any] = {
        **options.extra,
        "model": model,
        "messages": _messages(call, model if options.sends_reasoning else None),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if call.tools and options.has_tools:
        body["tools"] = [_tool(manifest) for manifest in call.tools]
        if call.must_call_tool:
            body["tool_choice"] = "required"
    max_tokens = call.max_output_tokens or options.max_output_tokens
    if max_tokens:
        body[options.max_tokens_field] = max_tokens
    body.update(openai_fields(options.thinking, call.thinking_level))
    return body


def _messages(call: ModelCall, reasoning_of: str | None) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if call.system:
        messages.append({"role": "system", "content": call.system})
    for message in call.messages:
        if message.role == MessageRole.MESSAGE_ROLE_ASSISTANT:
            _append_assistant(messages, message, reasoning_of)
        else:
            messages.append({"role": "user", "content": text_of(message)})
    return messages


def _append_assistant(messages: list[dict[str, Any]], message: Message, reasoning_of: str | None) -> None:
    text, calls = text_of(message), calls_of(message)
    if not text and not calls:
        return  # providers refuse an empty assistant message, and it says nothing
    spoken: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning_of is not None and message.model == reasoning_of:
        reasoning = "".join(part.thinking.text for part in message.parts if part.HasField("thinking"))
        if reasoning or calls:  # beside calls the field is wanted even where there was no reasoning
            spoken["reasoning_content"] = reasoning
    if calls:
        spoken["tool_calls"] = [_call(call) for call in calls]
    messages.append(spoken)
    messages.extend({"role": "tool", "tool_call_id": call.call_id, "content": _result(call)} for call in calls)


def _call(call: ToolCallPart) -> dict[str, Any]:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": sendable_name(call.tool_name), "arguments": sendable_arguments(call.arguments_json)},
    }


def _result(call: ToolCallPart) -> str:
    if call.HasField("result"):
        return f"{ERROR_PREFIX}{call.result.content}" if call.result.is_error else call.result.content
    return f"{ERROR_PREFIX}{missing_result(call)}"


def _tool(manifest: ToolManifest) -> dict[str, Any]:
    function: dict[str, Any] = {"name": manifest.tool_name, "description": manifest.description}
    if manifest.parameters_json:
        function["parameters"] = _schema(manifest.parameters_json)
    return {"type": "function", "function": function}


@lru_cache(maxsize=256)
def _schema(text: str) -> Any:
    """Parsed once: the same few schemas go out with every call. Nobody changes what it returns."""
    return json.loads(text)
