"""Settings: a frozen dataclass read once from the environment, validated before any socket opens."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_GROUP = "group"


class SettingsError(Exception):
    """A variable is missing or does not fit. The message names the variable, never its value."""


def read(cls: type[T], environ: Mapping[str, str]) -> T:
    """Build the dataclass from the environment.

    Each field comes from the variable in its metadata key "env" (see `var`); str, int, float, bool ("1", "true",
    "yes" or "0", "false", "no"), Path, tuple[str, ...] ("a,b") and Mapping[str, str] ("a=1,b=2") are understood. A
    missing variable takes the field's default. A field that `group` made is a dataclass that is read in the same way.
    """
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # cls is a dataclass by contract
        if _GROUP in field.metadata:
            values[field.name] = read(field.metadata[_GROUP], environ)
            continue
        name = field.metadata.get("env")
        if name is None or name not in environ or environ[name] == "":
            continue
        values[field.name] = _convert(name, environ[name], hints[field.name])
    try:
        return cls(**values)
    except TypeError as error:
        missing = [
            str(field.metadata.get("env", field.name))
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # as above
            if field.name not in values
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        raise SettingsError(f"missing: {', '.join(missing)}") from error
    except ValueError as error:
        raise SettingsError(str(error)) from error


def var(name: str, default: Any = dataclasses.MISSING) -> Any:
    """A dataclass field that is read from the environment variable `name`."""
    return dataclasses.field(default=default, metadata={"env": name})


def group(cls: type[T]) -> T:
    """A dataclass field that holds settings of its own."""
    made: T = dataclasses.field(default_factory=cls, metadata={_GROUP: cls})
    return made


def _convert(name: str, text: str, kind: Any) -> Any:
    try:
        if kind is bool:
            return _bool(text)
        if kind in (int, float, str, Path):
            return kind(text)
        if kind == Mapping[str, str]:
            return _pairs(text)
        if kind == tuple[str, ...]:
            return tuple(filter(None, (piece.strip() for piece in text.split(","))))
    except ValueError:
        raise SettingsError(f"{name} is not a valid {getattr(kind, '__name__', kind)}") from None
    raise SettingsError(f"{name}: settings of type {kind} are not supported")


def _bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _pairs(text: str) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for item in filter(None, (piece.strip() for piece in text.split(","))):
        key, separator, value = item.partition("=")
        if not separator or not key or not value or key in pairs:
            raise ValueError(item)
        pairs[key] = value
    return pairs
