"""What the model reads of a batch."""

from __future__ import annotations

from netaclaw.session.v1.subagent_pb2 import SubagentFinalResult, SubagentTask
from netaclaw_orchestrator.delegation.report import PREVIEW_BYTES, REPORT_BYTES, preview, report_text


def result(name: str, state: str, *, summary: str = "", error: str = "", partial_text: str = "") -> SubagentFinalResult:
    task = SubagentTask(
        name=name, state=f"SUBAGENT_TASK_STATE_{state}", summary=summary, error=error, partial_text=partial_text
    )
    return SubagentFinalResult(task=task)


def test_sections_stand_in_task_order_with_honest_states() -> None:
    text = report_text(
        [
            result("same", "COMPLETED", summary="one"),
            result("same", "FAILED", error="the model gave up", partial_text="half"),
            result("last", "TIMED_OUT", error="out of time"),
        ]
    )
    sections = text.split("\n\n")
    assert [section.splitlines()[0] for section in sections] == [
        "## Task 1 of 3: same [COMPLETED]",
        "## Task 2 of 3: same [FAILED]",
        "## Task 3 of 3: last [TIMED_OUT]",
    ]
    assert "one" in sections[0]
    assert "Error: the model gave up" in sections[1]
    assert "Partial text: half" in sections[1]


def test_summaries_share_a_budget_and_the_cut_is_said() -> None:
    text = report_text(
        [result("a", "COMPLETED", summary="é" * REPORT_BYTES), result("b", "COMPLETED", summary="short")]
    )
    assert len(text.encode()) < REPORT_BYTES
    assert "[cut: " in text
    assert text.endswith("short")


def test_a_preview_is_cut_at_a_character_and_says_how_much_is_missing() -> None:
    long = "é" * PREVIEW_BYTES
    cut = preview(long)
    assert cut.startswith("é" * (PREVIEW_BYTES // 2))
    assert f"of {2 * PREVIEW_BYTES} bytes not shown" in cut
    assert preview("short") == "short"
