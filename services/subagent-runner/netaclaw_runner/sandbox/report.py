"""What is in force for a worker, and what is not: names that runners, `run_start` and doctor show.

A name is written only after its step succeeded. Some carry a detail behind a colon: "landlock:7", "uid:65534".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

REQUIRED = (
    "pid_namespace",
    "user_namespace",
    "net_namespace",
    "ipc_namespace",
    "mount_namespace",
    "uid",
    "no_capabilities",
    "rlimits",
    "process_limit",
    "no_new_privs",
    "pdeathsig",
    "landlock",
    "landlock_scope",
    "seccomp",
)
"""Layers without which mode `required` refuses to run a worker."""

LIMITS = ("stat_outside", "chmod_outside", "aggregate_memory")
"""Known gaps that may be reported as missing and that no mode refuses for."""


@dataclass(slots=True)
class Report:
    """Filled step by step while a worker is confined."""

    in_force: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def has(self, layer: str) -> bool:
        """Whether a layer is in force, whatever its detail."""
        return any(name.partition(":")[0] == layer for name in self.in_force)

    def lacking(self) -> list[str]:
        """The required layers that are not in force."""
        return [layer for layer in REQUIRED if not self.has(layer)]

    def close(self) -> None:
        """Name every required layer that was not reached."""
        self.missing = list(dict.fromkeys([*self.missing, *self.lacking()]))

    def line(self, *, refused: bool = False) -> bytes:
        """One line of JSON, newline included: the first thing that a new worker writes."""
        value = {"inForce": self.in_force, "missing": self.missing, "refused": refused}
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def verdict(in_force: Iterable[str]) -> str:
    """In a word, for people: "isolated", "partly isolated", "not isolated"."""
    have = {name.partition(":")[0] for name in in_force}
    if have.issuperset(REQUIRED):
        return "isolated"
    confined = "landlock" in have or "mount_namespace" in have
    return "partly isolated" if confined and "seccomp" in have else "not isolated"


def read_line(data: bytes) -> tuple[Report, bool]:
    """A report from its line, and whether the worker refused to run. Raises ValueError."""
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not a report")
    in_force, missing = value.get("inForce"), value.get("missing")
    if not isinstance(in_force, list) or not isinstance(missing, list):
        raise ValueError("not a report")
    return Report([str(name) for name in in_force], [str(name) for name in missing]), bool(value.get("refused"))
