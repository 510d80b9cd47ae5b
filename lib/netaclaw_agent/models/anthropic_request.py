"""Our messages as a request of Anthropic's Messages API."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from netaclaw.session.v1.entry_pb2 import Message, MessageRole, ThinkingPart, ToolCallPart
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.context import missing_result
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.past_calls import sendable_arguments, sendable_name
from netaclaw_agent.models.thinking import ThinkingStyle, ThinkingWords, anthropic_fields

DEFAULT_MAX_TOKENS = 16_384
"""The format demands a number."""
_CACHED = {"cache_control": {"type": "ephemeral"}}
_MARK = re.compile('"([0-9a-f]{32})"')
"""Where arguments go, once the rest is JSON; inside a text its quotes would be escaped."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class AnthropicOptions:
    """What differs between models."""

    thinking: ThinkingWords = field(default_factory=lambda: ThinkingWords(ThinkingStyle.BUDGET))
    has_tools: bool = True
    """False: tools are never offered."""
    max_output_tokens: int = DEFAULT_MAX_TOKENS
    """Reasoning included."""


def request_bytes(call: ModelCall, model: str, options: AnthropicOptions) -> bytes:
    """The request of one streaming call as JSON.

    Every call has exactly one result at the beginning of the next user message. Reasoning goes back as it came, with
    its signature, to the model that it came from, and never without one. Arguments go out byte for byte; those that are
    no JSON object go out as text inside one. System prompt and conversation are marked for the provider's cache.
    """
    raw: dict[str, str] = {}
    messages = _messages(call.messages, model, raw)
    max_tokens = call.max_output_tokens or options.max_output_tokens
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "stream": True, "messages": messages}
    if call.system:
        body["system"] = [{"type": "text", "text": call.system, **_CACHED}]
    if messages:
        messages[-1]["content"][-1].update(_CACHED)
    if call.tools and options.has_tools:
        body["tools"] = [_tool(manifest) for manifest in call.tools]
    if call.must_call_tool and "tools" in body:
        body["tool_choice"] = {"type": "any"}  # which excludes reasoning
    elif options.thinking.style is not ThinkingStyle.BUDGET or _may_think(messages):
        body.update(anthropic_fields(options.thinking, call.thinking_level, max_tokens))
    text = json.dumps(body, ensure_ascii=False)
    return _MARK.sub(lambda found: raw.get(found[1], found[0]), text).encode()


def _messages(messages: Sequence[Message], model: str, raw: dict[str, str]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    for message in messages:
        if message.role == MessageRole.MESSAGE_ROLE_ASSISTANT:
            blocks = _assistant(message, model, raw)
            if blocks:
                _append(sent, "assistant", blocks)
                _append(sent, "user", [_result(call) for call in calls_of(message)])
        elif (text := text_of(message)).strip():
            _append(sent, "user", [{"type": "text", "text": text}])
    return sent


def _append(sent: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    """Add blocks, to the last message where it is of the same role: roles have to alternate."""
    if not blocks:
        return
    if sent and sent[-1]["role"] == role:
        sent[-1]["content"].extend(blocks)
    else:
        sent.append({"role": role, "content": blocks})


def _assistant(message: Message, model: str, raw: dict[str, str]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    said = False
    for part in message.parts:
        match part.WhichOneof("part"):
            case "thinking" if message.model == model:
                blocks += _thinking(part.thinking)
            case "text" if part.text.text.strip():  # blank text is refused
                said = True
                blocks.append({"type": "text", "text": part.text.text})
            case "tool_call":
                said = True
                blocks.append(_call(part.tool_call, raw))
    return blocks if said else []


def _thinking(part: ThinkingPart) -> list[dict[str, Any]]:
    if part.redacted:
        return [{"type": "redacted_thinking", "data": part.redacted}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


def _call(call: ToolCallPart, raw: dict[str, str]) -> dict[str, Any]:
    mark = uuid.uuid4().hex
    raw[mark] = sendable_arguments(call.arguments_json)
    return {"type": "tool_use", "id": call.call_id, "name": sendable_name(call.tool_name), "input": mark}


def _result(call: ToolCallPart) -> dict[str, Any]:
    has_result = call.HasField("result")
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call.call_id,
        "content": call.result.content if has_result else missing_result(call),
    }
    if call.result.is_error or not has_result:
        block["is_error"] = True
    return block


def _may_think(messages: list[dict[str, Any]]) -> bool:
    """Whether reasoning with a budget may be asked for: in the middle of calls, the message that made them has to begin
    with reasoning of its own, which it does not where another model or level made it."""
    if not messages or messages[-1]["content"][0]["type"] != "tool_result":
        return True
    made = messages[-2]["content"][0]["type"] if len(messages) > 1 else ""
    return made in ("thinking", "redacted_thinking")


def _tool(manifest: ToolManifest) -> dict[str, Any]:
    schema = _schema(manifest.parameters_json) if manifest.parameters_json else _NO_PARAMETERS
    return {"name": manifest.tool_name, "description": manifest.description, "input_schema": schema}


@lru_cache(maxsize=256)
def _schema(text: str) -> Any:
    """Parsed once: the same few schemas go out with every call. Nobody changes what it returns."""
    return json.loads(text)
