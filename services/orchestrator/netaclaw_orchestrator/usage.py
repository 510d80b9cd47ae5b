"""Sums of tokens and cost."""

from __future__ import annotations

from netaclaw.session.v1.usage_pb2 import Usage


def add_usage(total: Usage, more: Usage) -> None:
    """Add `more` to `total`, field by field."""
    total.input_tokens += more.input_tokens
    total.output_tokens += more.output_tokens
    total.cached_input_tokens += more.cached_input_tokens
    total.reasoning_tokens += more.reasoning_tokens
    total.model_calls += more.model_calls
    total.cost_micros += more.cost_micros
    total.estimated_calls += more.estimated_calls
