"""The real worker, with an eye on what it still tries to import: confined, it could open none of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from netaclaw_runner.worker import bootstrap

MARK = "late import: "


class _Watcher:
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        sys.stderr.write(f"{MARK}{name}\n")


def main(options: Mapping[str, Any]) -> int:
    """Be a worker."""
    sys.meta_path.insert(0, _Watcher())  # it finds nothing, ever
    return bootstrap.main(options)
