"""Whatever a task leaves behind, the journal takes it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netaclaw.session.v1.subagent_pb2 import NormalizedToolResult, SubagentFinalResult, SubagentTask
from netaclaw.store.v1.journal_service_pb2 import SubagentTaskWrite, Write
from netaclaw_agent.tool import ToolError
from netaclaw_orchestrator.delegation.fitting import MAX_BYTES, check_begin, fit_end

KIB = 1024
SIZES = st.sampled_from([0, 10, 20 * KIB, 256 * KIB, 300 * KIB])


def results(count: int, size: int, letter: str = "x") -> list[NormalizedToolResult]:
    return [
        NormalizedToolResult(call_id=f"call-{n:05}", tool_name="read_file", preview=letter * size, size_bytes=size)
        for n in range(count)
    ]


@settings(deadline=None, max_examples=30)  # some examples are megabytes
@given(
    texts=st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES),
    count=st.sampled_from([0, 1, 200, 3_000, 10_000]),
    size=st.sampled_from([0, 100, 4 * KIB]),
    letter=st.sampled_from("x漢"),
)
def test_an_end_of_any_size_fits_into_one_append(texts: tuple[int, ...], count: int, size: int, letter: str) -> None:
    summary, partial, error, final, raw = (letter * length for length in texts)
    task = SubagentTask(goal="g" * 8 * KIB, context="c" * 64 * KIB, summary=summary, partial_text=partial, error=error)
    left = SubagentFinalResult(
        final_output=final,
        raw_final_content=raw,
        tool_results=results(count, size // len(letter.encode()), letter),
        diagnostics=["d" * KIB] * 64,
    )
    fit_end(task, left)
    write = Write(subagent_task=SubagentTaskWrite(task=task, result=left))
    assert write.ByteSize() <= MAX_BYTES + KIB
    assert bool(left.tool_results) == bool(count)
    assert bool(task.summary) == bool(summary)
    assert bool(left.final_output) == bool(final)


def test_what_fits_is_left_alone() -> None:
    task = SubagentTask(goal="g", summary="x" * 100 * KIB, error="e")
    left = SubagentFinalResult(final_output="x" * 100 * KIB, raw_final_content=" x", tool_results=results(100, 4096))
    before = (SubagentTask.FromString(task.SerializeToString()), left.SerializeToString())
    fit_end(task, left)
    assert (task, left.SerializeToString()) == before


def test_of_very_many_results_the_last_ones_stay_in_order() -> None:
    left = SubagentFinalResult(tool_results=results(60_000, 0))
    fit_end(SubagentTask(), left)
    kept = [result.call_id for result in left.tool_results]
    assert kept == [f"call-{n:05}" for n in range(60_000 - len(kept), 60_000)]
    assert len(kept) > 1000


def test_a_batch_that_is_too_large_for_one_append_is_refused_in_words() -> None:
    row = Write(subagent_task=SubagentTaskWrite(task=SubagentTask(context="c" * 60 * KIB)))
    check_begin([row] * 10, 100 * KIB)
    with pytest.raises(ToolError, match="give less context, or fewer tasks"):
        check_begin([row] * 10, 400 * KIB)
