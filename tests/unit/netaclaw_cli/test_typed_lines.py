"""The line being typed, beside output."""

from __future__ import annotations

import pytest

from netaclaw_cli.typed_lines import erasing


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        ("> ", 0),
        ("> " + "x" * 78, 0),
        ("> " + "x" * 79, 1),
        ("> " + "x" * 240, 3),
        ("> " + "想" * 39, 0),
        ("> " + "想" * 40, 1),
    ],
)
def test_a_line_is_taken_away_with_all_its_rows(typed: str, rows: int) -> None:
    assert erasing(typed, 80) == (f"\r\x1b[{rows}A\x1b[J" if rows else "\r\x1b[K")
