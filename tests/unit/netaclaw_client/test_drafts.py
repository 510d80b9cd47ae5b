"""Text that is being written, by its byte offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from netaclaw.chat.v1 import event_pb2 as chat
from netaclaw.session.v1 import entry_pb2 as entries
from netaclaw.session.v1.entry_pb2 import ToolCallState
from netaclaw_client.drafts import MAX_OUTPUT_BYTES, ToolOutput
from netaclaw_client.view import SessionView
from tests.unit.netaclaw_client import story
from tests.unit.netaclaw_client.story import ANCHOR, CALL

THINKING = chat.StreamChannel.STREAM_CHANNEL_THINKING


def drafting() -> SessionView:
    """A view whose anchor is being written."""
    view = SessionView()
    for event in [*story.whole_turn()[:3], story.started()]:
        view.apply(event)
    return view


def test_deltas_join_where_their_byte_offsets_say() -> None:
    view = drafting()
    view.apply(story.delta(0, "наша "))
    view.apply(story.delta(9, "сова"))
    assert view.text_of(ANCHOR) == "наша сова"


def test_text_and_thinking_are_kept_apart() -> None:
    view = drafting()
    view.apply(story.delta(0, "hm", channel=THINKING))
    view.apply(story.delta(0, "yes"))
    draft = view.drafts[(ANCHOR, "")]
    assert (draft.text, draft.thinking) == ("yes", "hm")


def test_a_childs_text_is_kept_apart_from_the_answer() -> None:
    view = drafting()
    view.apply(story.started(words="child ", task_id="k1"))
    view.apply(story.delta(6, "text", task_id="k1"))
    view.apply(story.delta(0, "answer"))
    assert view.drafts[(ANCHOR, "k1")].text == "child text"
    assert view.text_of(ANCHOR) == "answer"


def test_a_new_start_replaces_what_was_shown() -> None:
    view = drafting()
    view.apply(story.delta(0, "first try"))
    view.apply(story.started(2, "second "))
    view.apply(story.delta(7, "try", 2))
    view.apply(story.delta(9, " goes on", 1))
    assert view.text_of(ANCHOR) == "second try"


def test_a_delta_after_a_hole_is_not_shown() -> None:
    view = drafting()
    view.apply(story.delta(0, "ab"))
    view.apply(story.delta(5, "fg"))
    assert view.text_of(ANCHOR) == "ab"


def test_deltas_without_a_start_are_not_shown() -> None:
    view = SessionView()
    for event in story.whole_turn()[:3]:
        view.apply(event)
    view.apply(story.delta(40, "tail"))
    assert view.text_of(ANCHOR) == ""


def test_the_final_entry_replaces_the_draft() -> None:
    view = drafting()
    view.apply(story.delta(0, "draft"))
    final = story.anchor(4, story.text("final"), state=entries.EntryState.ENTRY_STATE_COMPLETE)
    view.apply(story.updated(4, final))
    assert view.text_of(ANCHOR) == "final"
    assert not view.drafts


def test_an_update_of_an_entry_that_goes_on_keeps_the_draft() -> None:
    view = drafting()
    view.apply(story.delta(0, "draft"))
    view.apply(story.updated(4, story.anchor(4)))
    assert view.text_of(ANCHOR) == "draft"


def test_nothing_is_drafted_after_the_turn() -> None:
    view = drafting()
    view.apply(story.started(words="child", task_id="k1"))
    view.apply(story.done(4))
    assert not view.drafts


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12))
def test_overlapping_and_repeated_deltas_give_the_text_once(whole: str, stretches: list[tuple[int, int]]) -> None:
    view = drafting()
    for start, end in [*stretches, (0, len(whole))]:
        view.apply(story.delta(len(whole[:start].encode()), whole[start:end]))
    assert view.text_of(ANCHOR) == whole


def test_output_of_a_running_tool_is_kept_until_its_result() -> None:
    view = SessionView()
    for event in story.whole_turn()[:5]:
        view.apply(event)
    for offset, words in [(0, "line 1\n"), (7, "line 2\n"), (0, "line 1\n")]:
        streamed = chat.ToolResultStreamed(call_id=CALL, offset=offset, text=words)
        view.apply(story.event(0, entry_id=ANCHOR, tool_result_streamed=streamed))
    assert view.tool_outputs[CALL].text == "line 1\nline 2\n"
    ended = story.call(ToolCallState.TOOL_CALL_STATE_COMPLETED, "ok")
    view.apply(story.event(6, entry_id=ANCHOR, tool_call_completed=chat.ToolCallCompleted(call=ended)))
    assert not view.tool_outputs


def test_of_long_output_the_last_stretch_is_kept() -> None:
    output = ToolOutput()
    for n in range(5):
        output.add(chat.ToolResultStreamed(offset=n * 40_000, text=str(n) * 40_000))
    assert len(output.text) == MAX_OUTPUT_BYTES
    assert output.text.endswith("4" * 40_000)


def test_a_stage_of_a_running_tool_shows_on_its_call() -> None:
    view = SessionView()
    for event in story.whole_turn()[:5]:
        view.apply(event)
    stage = story.step("half way", task_id="")
    stage.call_id = CALL
    reported = chat.ProcessEventReported(process_event=stage)
    view.apply(story.event(0, entry_id=ANCHOR, process_event=reported))
    assert view.entries[ANCHOR].assistant.parts[1].tool_call.last_process_event.content == "half way"


def test_the_last_count_of_tokens_is_kept() -> None:
    view = drafting()
    view.apply(story.event(0, token_update=chat.TokenUpdate(context_used=5, context_window=100)))
    assert view.tokens.context_used == 5
