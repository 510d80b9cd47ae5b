"""Tokens and cost."""

from decimal import Decimal

import pytest

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_agent.usage import FREE, MAX_COST_MICROS, Prices, add_usage, cost

PRICES = Prices(input=Decimal("2.50"), output=Decimal(10), cached_input=Decimal("1.25"))


@pytest.mark.parametrize(
    ("usage", "micros"),
    [
        (Usage(), 0),
        (Usage(input_tokens=1_000_000), 2_500_000),
        (Usage(output_tokens=1_000_000), 10_000_000),
        (Usage(input_tokens=1_000_000, cached_input_tokens=400_000), 1_500_000 + 500_000),
        (Usage(input_tokens=1), 3),
        (Usage(input_tokens=10, cached_input_tokens=11), 13),
        (Usage(output_tokens=7, reasoning_tokens=5), 70),
        (Usage(input_tokens=-5, output_tokens=-5), 0),
        (Usage(output_tokens=3, cost_micros=999), 30),
    ],
)
def test_tokens_cost_their_price_in_millionths(usage: Usage, micros: int) -> None:
    assert cost(PRICES, usage) == micros


def test_cached_tokens_without_a_price_of_their_own_cost_as_others() -> None:
    assert cost(Prices(input=Decimal(2)), Usage(input_tokens=10, cached_input_tokens=4)) == 20


def test_absurd_numbers_stay_in_bounds() -> None:
    assert cost(Prices(output=Decimal(10**9)), Usage(output_tokens=2**62)) == MAX_COST_MICROS
    assert cost(FREE, Usage(output_tokens=2**62)) == 0


def test_a_model_without_a_price_costs_nothing() -> None:
    assert ModelCatalogue(ModelSettings()).cost("", Usage(output_tokens=1000)) == 0
    assert ModelCatalogue(ModelSettings()).cost("gone", Usage(output_tokens=1000)) == 0


def test_usage_adds_up_in_every_field() -> None:
    total = Usage()
    names = list(Usage.DESCRIPTOR.fields_by_name)
    one = Usage(**{name: number for number, name in enumerate(names, 1)})
    add_usage(total, one)
    add_usage(total, one)
    assert all(getattr(total, name) == 2 * getattr(one, name) for name in names)
