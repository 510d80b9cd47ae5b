"""All attacks, in an order in which none spoils the next: what one leaves open must not look inherited."""

from __future__ import annotations

import contextlib
import os

from tests.sandbox import attacks_on_files, attacks_on_others, attacks_on_the_kernel
from tests.sandbox.attack import ATTACKS, Context, NotOut, Outcome, attack, run

__all__ = ["ATTACKS", "Outcome", "attacks_on_files", "attacks_on_others", "attacks_on_the_kernel", "names", "run"]

_FIRST = "use_an_inherited_descriptor"


@attack
def use_an_inherited_descriptor(context: Context) -> object:
    allowed = {0, 1, 2, 3, context["workspace_fd"], context["children"]}
    found = []
    for fd in range(256):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            found.append(fd)
    if set(found) <= allowed:
        raise NotOut(f"only {found}")
    return found


def names() -> list[str]:
    """The attacks in their order."""
    return [_FIRST, *(name for name in ATTACKS if name != _FIRST)]
