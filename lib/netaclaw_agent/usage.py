"""Tokens and cost: how they add up, and what tokens cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from netaclaw.session.v1.usage_pb2 import Usage

MAX_TOKENS = 2**40
"""More tokens than any call has; what a provider reports above it is not believed."""
MAX_COST_MICROS = 2**53
"""Exact in every language's JSON, and sums of it stay far inside 64 bits."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model costs, per million tokens, in the catalogue's currency (US dollars unless the operator thinks
    otherwise). A price per million is also a price per token in millionths, which is what `cost` returns."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cached_input: Decimal | None = None
    """Tokens read from the provider's cache; None: as `input`."""


_FIELDS = tuple(field.name for field in Usage.DESCRIPTOR.fields)

FREE = Prices()
"""For models without a price."""


def cost(prices: Prices, usage: Usage) -> int:
    """What the tokens cost, in millionths of the currency, rounded half up; from 0 to MAX_COST_MICROS.

    Looks at tokens only: what stands in `cost_micros` already is neither used nor changed.
    """
    inputs, outputs = (min(max(tokens, 0), MAX_TOKENS) for tokens in (usage.input_tokens, usage.output_tokens))
    cached = min(max(usage.cached_input_tokens, 0), inputs)
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    micros = (inputs - cached) * prices.input + cached * cached_price + outputs * prices.output
    return min(int(micros.to_integral_value(ROUND_HALF_UP)), MAX_COST_MICROS)


def add_usage(total: Usage, more: Usage) -> None:
    """Add `more` to `total`, field by field."""
    for name in _FIELDS:
        if more_of_it := getattr(more, name):
            setattr(total, name, getattr(total, name) + more_of_it)


def take_usage(total: Usage, part: Usage) -> None:
    """Take `part`, which was added before, out of `total`."""
    for name in _FIELDS:
        if of_it := getattr(part, name):
            setattr(total, name, getattr(total, name) - of_it)
