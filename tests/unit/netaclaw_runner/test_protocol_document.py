"""docs/worker-protocol.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netaclaw_runner.limits import Limits
from netaclaw_runner.protocol import DOWN, MAX_LINE_BYTES, REQUIRED, UP, decode

PAGE = (Path(__file__).parents[3] / "docs" / "worker-protocol.md").read_text()


def _table(heading: str) -> dict[str, set[str]]:
    """Required fields by type, from the table under a heading."""
    section = PAGE.split(heading)[1].split("\n#")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name: set(re.findall(r"`(\w+)`", row[2])) for row in rows for name in re.findall(r"`(\w+)`", row[1])}


@pytest.mark.parametrize(("heading", "table"), [("### Up", UP), ("### Down", DOWN)])
def test_every_type_is_specified_with_its_required_fields(heading: str, table: dict[str, object]) -> None:
    specified = _table(heading)
    if heading == "### Down":
        specified["tool_call"] = set(REQUIRED["tool_call"])  # specified with the tool host

    assert specified == {name: set(REQUIRED[name]) for name in table}


def test_the_limits_are_the_ones_that_hold() -> None:
    limits = Limits()

    assert f"{MAX_LINE_BYTES:,}".replace(",", " ") in PAGE
    assert f"after {limits.cancel_s * 1000:g} ms SIGTERM" in PAGE
    assert f"after {limits.term_s * 1000:g} ms more SIGKILL" in PAGE
    assert f"within {limits.start_s:g} s" in PAGE
    assert f"exits within {limits.exit_s:g} s" in PAGE
    assert f"above\n{limits.result_bytes // 1024} KiB" in PAGE or f"{limits.result_bytes // 1024} KiB are cut" in PAGE
    assert f"({limits.unsent_bytes // 1024 // 1024} MiB unread)" in PAGE
    assert f"first {limits.output_bytes // 1024} KiB are passed on" in PAGE
    assert f"may send {limits.text_bytes // 1024 // 1024} MiB" in PAGE
    assert f"more than {limits.transcript_bytes // 1024 // 1024} MiB" in PAGE
    assert f"the last {limits.child_log_bytes // 1024} KiB" in PAGE


def test_the_conversation_is_made_of_valid_lines() -> None:
    lines = [line for line in PAGE.split("## A conversation")[1].splitlines() if line[:1] in ("↑", "↓")]
    types = []
    for line in lines:
        data = line[2:].replace("[…]", "[]").encode()
        types.append(decode(data, UP if line[0] == "↑" else DOWN).type)

    assert types[0] == "task"
    assert types[-1] == "run_end"
    assert len(lines) == 9
