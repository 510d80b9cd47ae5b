"""Differences between views, as paths."""

from __future__ import annotations

from netaclaw_client.comparison import MAX_DIFFERENCES, equal
from netaclaw_client.view import SessionView
from tests.unit.netaclaw_client import story
from tests.unit.netaclaw_client.story import ANCHOR, BATCH, RUNNING, USER


def view() -> SessionView:
    made = SessionView()
    for event in story.whole_turn():
        made.apply(event)
    return made


def test_equal_views_have_no_differences() -> None:
    assert equal(view(), view()) == []


def test_a_difference_is_named_by_its_path_and_both_values() -> None:
    other = view()
    other.entries[BATCH].subagent_batch.batch.items[1].state = RUNNING
    assert equal(view(), other) == [
        f"entries[{BATCH}].subagent_batch.batch.items[1].state:"
        " SUBAGENT_TASK_STATE_COMPLETED != SUBAGENT_TASK_STATE_RUNNING"
    ]


def test_projections_are_compared() -> None:
    other = view()
    other.entries[BATCH].subagent_projection.diagnostics.append("odd")
    (difference,) = equal(view(), other)
    assert difference.startswith(f"entries[{BATCH}].subagent_projection.diagnostics:")


def test_presence_and_length_are_compared() -> None:
    other = view()
    other.entries[BATCH].ClearField("subagent_projection")
    other.entries[ANCHOR].assistant.parts.pop()
    assert equal(view(), other) == [
        f"entries[{ANCHOR}].assistant.parts: 3 items != 2 items",
        f"entries[{BATCH}].subagent_projection: set != unset",
    ]


def test_missing_entries_seq_and_leaf_are_named() -> None:
    other = view()
    del other.entries[BATCH]
    other.seq, other.leaf_entry_id = 16, USER
    assert equal(view(), other) == [
        "seq: 17 != 16",
        f"leaf_entry_id: {ANCHOR} != {USER}",
        f"entries[{BATCH}]: only in the first",
    ]
    assert f"entries[{BATCH}]: only in the second" in equal(other, view())


def test_another_order_is_a_difference() -> None:
    other = view()
    other.entries[USER] = other.entries.pop(USER)
    assert equal(view(), other) == ["entries: not in the same order"]


def test_the_list_of_differences_is_bounded() -> None:
    other = SessionView(session_id=story.SESSION)
    other.entries = {str(n): story.user(n) for n in range(500)}
    assert len(equal(view(), other)) == MAX_DIFFERENCES
