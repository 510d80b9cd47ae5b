"""How a thinking level is said to a provider. Every provider, and many a model, has its own words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel

OFF = ThinkingLevel.THINKING_LEVEL_OFF
LOW = ThinkingLevel.THINKING_LEVEL_LOW
MEDIUM = ThinkingLevel.THINKING_LEVEL_MEDIUM
HIGH = ThinkingLevel.THINKING_LEVEL_HIGH

LEVELS: Mapping[str, ThinkingLevel] = MappingProxyType({"off": OFF, "low": LOW, "medium": MEDIUM, "high": HIGH})
"""By the names that an operator writes."""

_EFFORTS = MappingProxyType({LOW: "low", MEDIUM: "medium", HIGH: "high"})
BUDGETS: Mapping[ThinkingLevel, int] = MappingProxyType({LOW: 2_048, MEDIUM: 8_192, HIGH: 24_576})
"""Tokens of reasoning, for providers that take a number."""
MIN_BUDGET = 1_024
"""Less is refused."""


class ThinkingStyle(Enum):
    """The ways that are known. The value is what an operator writes."""

    NONE = "none"
    """The model has no levels; nothing is sent."""
    EFFORT = "effort"
    """OpenAI: `reasoning_effort`."""
    TYPE = "type"
    """DeepSeek, GLM and others: `thinking.type` enabled or disabled, beside `reasoning_effort` where that is set."""
    TEMPLATE = "template"
    """Open models behind vLLM, SGLang or llama.cpp: `chat_template_kwargs.enable_thinking`."""
    BUDGET = "budget"
    """Anthropic, up to Claude 4.6: `thinking.budget_tokens`."""
    ADAPTIVE = "adaptive"
    """Anthropic, from Claude 4.6 on: `thinking.type` adaptive with `output_config.effort`."""


OPENAI_STYLES = frozenset({ThinkingStyle.NONE, ThinkingStyle.EFFORT, ThinkingStyle.TYPE, ThinkingStyle.TEMPLATE})
ANTHROPIC_STYLES = frozenset({ThinkingStyle.NONE, ThinkingStyle.BUDGET, ThinkingStyle.ADAPTIVE})


@dataclass(frozen=True, slots=True)
class ThinkingWords:
    """One model's way."""

    style: ThinkingStyle = ThinkingStyle.NONE
    efforts: Mapping[ThinkingLevel, str] = field(default_factory=lambda: _EFFORTS)
    """The provider's word for each level; a level without one is not sent, and the provider's default holds. Some
    models know a word for OFF ("none", "minimal"), others refuse it, so there is none by default."""


def openai_fields(thinking: ThinkingWords, level: ThinkingLevel) -> dict[str, Any]:
    """Fields of a chat completion request. Empty for a level that is not stated."""
    if not level or thinking.style is ThinkingStyle.NONE:
        return {}
    effort = thinking.efforts.get(level)
    efforts = {"reasoning_effort": effort} if effort else {}
    match thinking.style:
        case ThinkingStyle.TYPE if level == OFF:
            return {"thinking": {"type": "disabled"}}
        case ThinkingStyle.TYPE:
            return {"thinking": {"type": "enabled"}, **efforts}
        case ThinkingStyle.TEMPLATE:
            return {"chat_template_kwargs": {"enable_thinking": level != OFF}}
    return efforts


def anthropic_fields(thinking: ThinkingWords, level: ThinkingLevel, max_tokens: int) -> dict[str, Any]:
    """Fields of a Messages request. `max_tokens` counts reasoning too, so a budget stays below it; where there is no
    room for the least budget, there is no reasoning."""
    if thinking.style is ThinkingStyle.ADAPTIVE:
        if level in (ThinkingLevel.THINKING_LEVEL_UNSPECIFIED, OFF):
            return {}
        fields: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
        effort = thinking.efforts.get(level)
        return {**fields, "output_config": {"effort": effort}} if effort else fields
    budget = min(BUDGETS.get(level, 0), max_tokens // 2)
    if thinking.style is not ThinkingStyle.BUDGET or budget < MIN_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}
