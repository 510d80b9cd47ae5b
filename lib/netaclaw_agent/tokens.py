"""Tokens estimated from text, where no provider has counted them."""

from __future__ import annotations

from collections.abc import Sequence

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.tool.v1.tool_pb2 import ToolManifest

_PER_MESSAGE = 4
"""What a provider's own framing of a message costs, roughly."""


def estimate_tokens(text: str) -> int:
    """About four letters of ASCII are a token; other scripts take about three quarters of one per character."""
    others = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return -(-(len(text) - others + 3 * others) // 4)


def message_tokens(message: Message) -> int:
    """A message as a model sees it: text, signed reasoning, calls and results."""
    total = _PER_MESSAGE
    for part in message.parts:
        match part.WhichOneof("part"):
            case "text":
                total += estimate_tokens(part.text.text)
            case "thinking":
                total += estimate_tokens(part.thinking.text)
            case "tool_call":
                call = part.tool_call
                total += _PER_MESSAGE + estimate_tokens(call.tool_name) + estimate_tokens(call.arguments_json)
                total += estimate_tokens(call.result.content)
    return total


def prompt_tokens(system: str, messages: Sequence[Message], tools: Sequence[ToolManifest] = ()) -> int:
    """A whole prompt."""
    fixed = estimate_tokens(system) + sum(
        _PER_MESSAGE + estimate_tokens(tool.description) + estimate_tokens(tool.parameters_json) for tool in tools
    )
    return fixed + sum(message_tokens(message) for message in messages)
