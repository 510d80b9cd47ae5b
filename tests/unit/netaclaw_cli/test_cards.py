"""Cards and the running text of a turn, as lines."""

from __future__ import annotations

import pytest
from rich.console import Console

from netaclaw.chat.v1 import event_pb2 as chat
from netaclaw.session.v1 import entry_pb2 as entries
from netaclaw_cli import reload
from netaclaw_cli.cards import card, card_lines
from netaclaw_cli.printing import TurnPrinter
from netaclaw_cli.wording import clean, elapsed_s, one_line, task_state
from netaclaw_client import SessionView, equal
from tests.unit.netaclaw_client import story


def view(count: int = 17) -> SessionView:
    made = SessionView()
    for event in story.whole_turn()[:count]:
        made.apply(event)
    return made


def printed(*events: chat.ChatEvent) -> str:
    """What a printer writes for events after the user's message."""
    shown: list[str] = []
    made = SessionView()
    printer = TurnPrinter(made, shown.append)
    for event in events:
        made.apply(event)
        printer.show(event)
    return "".join(shown)


def test_a_card_names_each_task_with_state_and_figures() -> None:
    (entry,) = view(10).batches()
    entry.subagent_batch.batch.title = "Count"
    entry.subagent_batch.batch.items[0].summary = "42 lines\nof Go"
    entry.subagent_batch.batch.items[0].tool_call_count = 3
    entry.ClearField("subagent_projection")
    assert card_lines(entry) == [
        "Count: 1 of 2 ended, 10 tokens",
        "  ✓ k1: COMPLETED (3 tools, 0.0 s, 0 tokens)",
        "      42 lines of Go",
        "  ▶ k2: RUNNING (0 tools, 0.0 s, 0 tokens)",
    ]


def test_a_state_of_a_later_version_is_shown_as_unknown() -> None:
    assert task_state(99) == "unknown"
    (entry,) = view(8).batches()
    entry.subagent_batch.batch.items[0].state = 99  # type: ignore[assignment]  # as it would arrive
    assert "  ? k1: unknown" in "\n".join(card_lines(entry))


def test_what_is_said_of_every_task_is_said_once() -> None:
    (entry,) = view(10).batches()
    entry.subagent_projection.diagnostics[:] = ["k1: no uid", "k2: no uid", "k1: slow", "odd"]
    assert card_lines(entry)[-3:] == ["  all tasks: no uid", "  k1: slow", "  odd"]


def test_a_card_for_a_terminal_shows_the_same_tasks() -> None:
    (entry,) = view(10).batches()
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(card(entry))
    assert "k1" in captured.get()
    assert "COMPLETED" in captured.get()


def test_nothing_that_a_terminal_obeys_is_written() -> None:
    assert clean("a\x1b[31mb\x07\u202ec\n\td") == "a[31mbc\n\td"
    assert one_line("a\n  b\x00\tc" + "d" * 50, 10) == "a b cdddd…"


def test_text_is_written_once_as_it_comes_and_completed_by_the_final_entry() -> None:
    final = story.anchor(4, story.text("Hello world."), state=entries.EntryState.ENTRY_STATE_COMPLETE)
    start = [*story.whole_turn()[:3], story.started()]
    assert printed(*start, story.delta(0, "Hel"), story.delta(3, "lo "), story.updated(4, final)) == "Hello world.\n\n"


def test_a_second_update_of_an_entry_does_not_write_its_text_again() -> None:
    done = entries.EntryState.ENTRY_STATE_COMPLETE
    updates = [story.updated(seq, story.anchor(seq, story.text("Once."), state=done)) for seq in (4, 5)]
    assert printed(*story.whole_turn()[:3], *updates) == "Once.\n\n"


def test_an_answer_that_was_begun_anew_is_written_again() -> None:
    start = [*story.whole_turn()[:3], story.started(), story.delta(0, "first")]
    assert printed(*start, story.started(2, "second")) == "first\n\n(the answer was begun anew)\nsecond"


def test_thinking_and_childrens_text_are_not_written() -> None:
    thinking = chat.StreamChannel.STREAM_CHANNEL_THINKING
    start = [*story.whole_turn()[:3], story.started(), story.started(words="child", task_id="k1")]
    assert printed(*start, story.delta(0, "hm", channel=thinking), story.delta(5, "x", task_id="k1")) == ""


def test_a_delegated_turn_is_told_in_lines() -> None:
    told = printed(*story.whole_turn())
    lines = told.splitlines()
    assert lines[0].startswith("→ delegate_parallel [")
    assert "  [k1] RUNNING" in lines
    assert "✓ delegate_parallel COMPLETED" in lines
    assert lines.index("  [k1] RUNNING") < lines.index("  [k2] COMPLETED")
    assert told.endswith("I ask two. Both counted.\n\n")


def test_a_failed_turn_says_why() -> None:
    error = chat.Error(reason="MODEL_UNAVAILABLE", message="gone")
    assert printed(story.event(1, error=error)) == "The turn failed: gone (MODEL_UNAVAILABLE)\n"


@pytest.mark.parametrize(("start", "end", "shown"), [(None, None, 0.0), (5, None, 15.0), (5, 8, 3.0)])
def test_a_task_is_timed_from_its_start_to_its_end_or_now(start: int | None, end: int | None, shown: float) -> None:
    task = story.batch(story.RUNNING, story.QUEUED).items[0]
    if start is not None:
        task.start_time.seconds = start
    if end is not None:
        task.end_time.seconds = end
    assert elapsed_s(task, now=20.0) == shown


def test_a_view_survives_its_way_through_json() -> None:
    made = view()
    made.session.session_id, made.session.seq = story.SESSION, 17
    assert equal(reload.from_json(reload.to_json(made)), made) == []
