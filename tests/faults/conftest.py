"""How long the suite is shaken, and by which dice."""

from __future__ import annotations

import pytest

TURNS = 8
SEED = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-faults ARGS="--turns N --seed S"`."""
    parser.addoption("--turns", type=int, default=TURNS, help="turns with a fault in each, two at a time")
    parser.addoption("--seed", type=int, default=SEED, help="of the random choices")


@pytest.fixture
def turns(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--turns", TURNS))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed", SEED))
