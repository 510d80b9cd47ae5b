"""What is told of an offered model: what it can do and costs, and never where it is or how one gets in."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from netaclaw.model.v1 import model_pb2 as pb
from netaclaw_agent.models.models_file import Offer
from netaclaw_agent.models.thinking import ThinkingStyle
from netaclaw_agent.usage import FREE, Prices

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Missing:
    """What a model lacks to be asked."""

    availability: pb.ModelAvailability
    why: str
    """For people; says no secret."""


def described(offer: Offer, missing: Missing | None, *, is_default: bool) -> pb.Model:
    """The model as clients see it."""
    options = offer.options
    return pb.Model(
        name=offer.name,
        provider=offer.provider,
        is_default=is_default,
        context_window=offer.window,
        max_output_tokens=options.max_output_tokens if options is not None else 0,
        takes_tools=options is None or options.has_tools,
        takes_thinking_level=options is not None and options.thinking.style is not ThinkingStyle.NONE,
        prices=_prices(offer.prices) if offer.prices != FREE else None,
        availability=missing.availability if missing else pb.MODEL_AVAILABILITY_AVAILABLE,
        unavailable_reason=missing.why if missing else "",
    )


def _prices(prices: Prices) -> pb.ModelPrices:
    cached = prices.input if prices.cached_input is None else prices.cached_input
    return pb.ModelPrices(
        input_micros=_micros(prices.input), output_micros=_micros(prices.output), cached_input_micros=_micros(cached)
    )


def _micros(price: Decimal) -> int:
    return int((price * _MICROS).to_integral_value(ROUND_HALF_UP))
