"""How long the suite is shaken, and by which dice."""

from __future__ import annotations

import pytest

TURNS = 8
ROUNDS = 1
SEED = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-faults ARGS="--turns N --rounds R --seed S"`."""
    parser.addoption("--turns", type=int, default=TURNS, help="turns with a fault in each, two at a time")
    parser.addoption("--rounds", type=int, default=ROUNDS, help="of twelve turns under ends of database connections")
    parser.addoption("--seed", type=int, default=SEED, help="of the random choices")


@pytest.fixture
def turns(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--turns", TURNS))


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--rounds", ROUNDS))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed", SEED))
