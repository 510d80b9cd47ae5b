"""Settings come from the environment once, and errors name the variable, never its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from netaclaw_chassis.settings import SettingsError, read, var


@dataclass(frozen=True)
class Example:
    name: str = var("X_NAME")
    port: int = var("X_PORT", 7)
    on: bool = var("X_ON", False)
    home: Path = var("X_HOME", Path("here"))
    roots: Mapping[str, str] = field(default_factory=dict, metadata={"env": "X_ROOTS"})

    def __post_init__(self) -> None:
        if self.port < 0:
            raise ValueError("X_PORT must not be negative")


def test_values_are_converted_and_defaults_kept() -> None:
    got = read(Example, {"X_NAME": "n", "X_ON": "yes", "X_ROOTS": "a=/b, c=/d", "X_PORT": ""})
    assert got == Example("n", 7, True, Path("here"), {"a": "/b", "c": "/d"})


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, "X_NAME"),
        ({"X_NAME": "n", "X_PORT": "secret-text"}, "X_PORT"),
        ({"X_NAME": "n", "X_ON": "perhaps"}, "X_ON"),
        ({"X_NAME": "n", "X_PORT": "-1"}, "X_PORT"),
        ({"X_NAME": "n", "X_ROOTS": "a=/b,a=/c"}, "X_ROOTS"),
        ({"X_NAME": "n", "X_ROOTS": "no-pair"}, "X_ROOTS"),
    ],
)
def test_what_does_not_fit_is_named_without_its_value(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(Example, environ)
    assert named in str(caught.value)
    assert "secret-text" not in str(caught.value)
