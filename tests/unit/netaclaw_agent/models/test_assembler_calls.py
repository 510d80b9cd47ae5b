"""The assembler: tool calls, however a provider cuts and numbers them."""

import json
from itertools import count
from typing import Any

import pytest

from netaclaw.session.v1.entry_pb2 import FinishReason, ToolCallState
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelError, TextDelta
from netaclaw_agent.models.assembler import MAX_CALLS
from netaclaw_agent.models.reply import Reply
from tests.unit.netaclaw_agent.models.chunks import CASES, assemble, assemble_bytes, called, chunk, fragment, reader

STORE_ARGUMENTS = [
    '{"zeta": 1, "alpha": 2, "price": 1.10, "ticket": 9007199254740993}',
    '{"b":1,"a":2,"b":3}',
    '{"n": 1e400}',
    '{"n": NaN}',
    '{"10":"ten","9":"nine"}',
    "not json",
    "",
]


def test_case_04_repeated_provider_ids_get_ids_of_ours() -> None:
    numbers = count(1)
    seen = []
    for name in ("model-stream-04-round1.sse", "model-stream-04-round2.sse"):
        reply = Reply(reader(numbers))
        assert list(reply.feed((CASES / name).read_bytes())) == []
        seen += [(c.call_id, c.provider_call_id, c.arguments_json) for c in calls_of(reply.message())]
    assert seen == [
        ("ours-1", "lookup:0", '{"q": "north"}'),
        ("ours-2", "lookup:1", '{"q": "south"}'),
        ("ours-3", "lookup:0", '{"q": "east"}'),
        ("ours-4", "lookup:1", '{"q": "west"}'),
    ]


@pytest.mark.parametrize("label", ['"stop"', '"other"', "null", '"unknown"', '""', '"null"', '"tool_calls"'])
def test_case_05_complete_calls_decide_not_the_label(label: str) -> None:
    body = (CASES / "model-stream-05.sse").read_bytes().replace(b'"stop"', label.encode())
    message, deltas = assemble_bytes([body])
    assert called(message) == [("read_note", '{"name":"alpha"}'), ("read_note", '{"name":"beta"}')]
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS
    assert deltas == [TextDelta("Let me look.")]


@pytest.mark.parametrize(
    ("label", "reason"),
    [("length", FinishReason.FINISH_REASON_LENGTH), ("content_filter", FinishReason.FINISH_REASON_CONTENT_FILTER)],
)
def test_case_05_length_and_filter_are_not_overridden(label: str, reason: FinishReason) -> None:
    body = (CASES / "model-stream-05.sse").read_bytes().replace(b'"stop"', f'"{label}"'.encode())
    message, _ = assemble_bytes([body])
    assert message.finish_reason == reason
    assert len(called(message)) == 2


@pytest.mark.parametrize("arguments", STORE_ARGUMENTS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_assembler_keeps_arguments_byte_for_byte(arguments: str, size: int) -> None:
    pieces = [arguments[n : n + size] for n in range(0, len(arguments), size)]
    message, _ = assemble(fragment(0, "", id="k", name="f"), *(fragment(0, piece) for piece in pieces))
    assert called(message) == [("f", arguments)]


def test_calls_are_pending_and_the_message_names_its_model() -> None:
    message, _ = assemble(fragment(0, "{}", id="k", name="f"))
    assert [call.state for call in calls_of(message)] == [ToolCallState.TOOL_CALL_STATE_PENDING]
    assert message.model == "m"
    assert message.usage.model_calls == 1


def test_interleaved_fragments_go_to_their_index() -> None:
    message, _ = assemble(
        fragment(0, '{"a"', id="x", name="f"),
        fragment(1, '{"b"', id="y", name="g"),
        fragment(0, ":1}"),
        fragment(1, ":2}"),
    )
    assert called(message) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_whole_calls_that_share_an_index_stay_apart() -> None:
    with_ids = [fragment(0, '{"a":1}', id="x", name="f"), fragment(0, '{"a":2}', id="y", name="f")]
    without = [fragment(0, '{"a":1}', name="f"), fragment(0, '{"a":2}', name="f")]
    for chunks in (with_ids, without):
        message, _ = assemble(*chunks)
        assert called(message) == [("f", '{"a":1}'), ("f", '{"a":2}')]


def test_fragments_without_an_index_follow_their_id_or_the_last_call() -> None:
    message, _ = assemble(
        fragment(None, '{"a"', id="x", name="f"),
        fragment(None, ":1}"),
        fragment(None, '{"b"', id="y", name="g"),
        fragment(None, ":2}", id="y"),
    )
    assert called(message) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_a_name_that_comes_again_with_every_fragment_is_taken_once() -> None:
    message, _ = assemble(fragment(0, '{"a"', id="x", name="f"), fragment(0, ":1}", id="x", name="f"))
    assert called(message) == [("f", '{"a":1}')]


def test_fragments_that_each_repeat_what_came_before_are_not_added_up() -> None:
    whole = '{"path": "a", "limit": 3}'
    message, _ = assemble(
        fragment(0, whole[:6], id="x", name="f"), *(fragment(0, whole[:n]) for n in (9, 20)), fragment(0, whole)
    )
    assert called(message) == [("f", whole)]
    nested = fragment(0, '{"a":', id="x", name="f"), fragment(0, '{"a":1}}')
    assert called(assemble(*nested)[0]) == [("f", '{"a":{"a":1}}')]


def test_a_new_id_on_a_nameless_fragment_does_not_split_the_call() -> None:
    message, _ = assemble(fragment(0, '{"a"', id="x", name="f"), fragment(0, ":1}", id="z"))
    assert called(message) == [("f", '{"a":1}')]
    assert calls_of(message)[0].provider_call_id == "x"


def test_a_name_in_pieces_is_put_together() -> None:
    message, _ = assemble(fragment(0, "", id="x", name="add_"), fragment(0, "", name="numbers"), fragment(0, "{}"))
    assert called(message) == [("add_numbers", "{}")]
    message, _ = assemble(fragment(0, "", id="x", name="add_"), fragment(0, "{}", id="x", name="add_numbers"))
    assert called(message) == [("add_numbers", "{}")]


def test_a_call_that_comes_again_whole_is_taken_once() -> None:
    message, _ = assemble(
        fragment(0, '{"a"', id="x", name="f"), fragment(0, ":1}"), fragment(0, '{"a":1}', id="x", name="f")
    )
    assert called(message) == [("f", '{"a":1}')]


def test_another_name_under_the_same_index_is_another_call() -> None:
    message, _ = assemble(
        fragment(0, '{"a":1}', name="f"), fragment(0, "", name="g"), fragment(0, '{"b"'), fragment(0, ":2}")
    )
    assert called(message) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_the_older_function_call_is_read() -> None:
    message, _ = assemble(
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}, "function_call"),
    )
    assert called(message) == [("f", '{"a":1}')]


def test_arguments_that_come_as_an_object_become_text() -> None:
    message, _ = assemble(chunk({"tool_calls": [{"function": {"name": "f", "arguments": {"q": "東"}}}]}))
    assert called(message) == [("f", '{"q": "東"}')]


def test_a_call_without_any_name_is_an_error_not_a_silent_loss() -> None:
    with pytest.raises(ModelError, match="without a name"):
        assemble(chunk({"content": "I will look."}), fragment(0, "{}", id="x"))


@pytest.mark.parametrize("phantom", [{}, {"id": "call_2", "name": ""}, {"id": "", "name": " ", "arguments": ""}])
def test_a_fragment_that_asks_for_nothing_is_no_call(phantom: dict[str, Any]) -> None:
    message, _ = assemble(fragment(0, "{}", id="x", name="f"), fragment(1, **phantom), chunk({}, "tool_calls"))
    assert called(message) == [("f", "{}")]
    message, _ = assemble(chunk({"content": "Done."}), fragment(0), chunk({}, "stop"))
    assert (text_of(message), called(message)) == ("Done.", [])


def test_an_answer_has_a_bounded_number_of_calls_with_names_of_bounded_length() -> None:
    calls = [fragment(n, "{}", id=f"x{n}", name=" f" + "f" * 1000) for n in range(MAX_CALLS)]
    message, _ = assemble(*calls)
    assert called(message) == [("f" * 200, "{}")] * MAX_CALLS
    with pytest.raises(ModelError, match="more than 256 calls") as caught:
        assemble(*calls, fragment(MAX_CALLS, "{}", id="more", name="f"))
    assert (caught.value.reason, caught.value.retryable) == ("LIMIT_REACHED", False)


@pytest.mark.parametrize(("first", "second"), [("0", "1"), (0.0, 1.0), (-1, -2)])
def test_an_index_counts_however_it_is_written(first: Any, second: Any) -> None:
    message, _ = assemble(
        fragment(first, "", id="x", name="f"),
        fragment(second, "", id="y", name="g"),
        fragment(first, '{"a":'),
        fragment(second, '{"b":'),
        fragment(first, "1}"),
        fragment(second, "2}"),
    )
    assert called(message) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_a_length_cut_drops_the_broken_call_and_keeps_text_and_whole_calls() -> None:
    message, _ = assemble(
        chunk({"content": "Two calls."}),
        fragment(0, "{}", id="x", name="f"),
        fragment(1, '{"a": "unfin', id="y", name="g"),
        chunk({}, "length"),
    )
    assert text_of(message) == "Two calls."
    assert called(message) == [("f", "{}")]
    assert message.finish_reason == FinishReason.FINISH_REASON_LENGTH


def test_halves_of_one_character_are_joined_in_arguments() -> None:
    first, second = json.loads(r'"{\"q\":\"\ud83d"'), json.loads(r'"\ude86\"}"')
    message, _ = assemble(fragment(0, first, id="x", name="f"), fragment(0, second))
    assert called(message) == [("f", '{"q":"🚆"}')]
