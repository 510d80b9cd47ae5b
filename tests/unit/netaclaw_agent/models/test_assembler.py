"""The assembler: whatever a provider's habits, one message."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from netaclaw.session.v1.entry_pb2 import FinishReason, Message, ToolCallState
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelError, TextDelta, ThinkingDelta
from netaclaw_agent.models.assembler import MAX_CALLS, Delta, MessageAssembler
from netaclaw_agent.models.openai_stream import OpenAIReader
from netaclaw_agent.models.reply import Reply
from netaclaw_agent.models.think_tags import ThinkTags

CASES = Path(__file__).parents[3] / "cases"
STORE_ARGUMENTS = [
    '{"zeta": 1, "alpha": 2, "price": 1.10, "ticket": 9007199254740993}',
    '{"b":1,"a":2,"b":3}',
    '{"n": 1e400}',
    '{"n": NaN}',
    '{"10":"ten","9":"nine"}',
    "not json",
    "",
]


def reader(numbers: Iterator[int] | None = None) -> OpenAIReader:
    numbers = numbers or count(1)
    return OpenAIReader(MessageAssembler("m", lambda: f"ours-{next(numbers)}"))


def chunk(delta: dict[str, Any], finish_reason: object = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **more}


def fragment(index: int | None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    return chunk({"tool_calls": [{**({} if index is None else {"index": index}), **more, "function": function}]})


def assemble(*chunks: object, done: bool = True) -> tuple[Message, list[Delta]]:
    built = reader()
    deltas = [delta for c in chunks for delta in built.read(c)]
    deltas += built.finish()
    return built.assembler.message(done=done), deltas


def assemble_bytes(chunks: list[bytes]) -> tuple[Message, list[Delta]]:
    reply = Reply(reader())
    deltas = [delta for piece in chunks for delta in reply.feed(piece)]
    deltas += reply.end()
    return reply.message(), deltas


def called(message: Message) -> list[tuple[str, str]]:
    return [(call.tool_name, call.arguments_json) for call in calls_of(message)]


def test_case_03_empty_ids_and_names_count_as_absent() -> None:
    message, deltas = assemble_bytes([(CASES / "model-stream-03.sse").read_bytes()])
    assert called(message) == [("add_numbers", '{"a":2,"b":3}'), ("read_note", '{"name":"beta"}')]
    assert [call.call_id for call in calls_of(message)] == ["ours-1", "ours-2"]
    assert [call.provider_call_id for call in calls_of(message)] == ["k1", ""]
    assert deltas == []
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS


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


def test_case_07_text_and_arguments_survive_cuts_byte_for_byte() -> None:
    case = json.loads((CASES / "model-stream-07.chunks.json").read_text(encoding="utf-8"))
    message, deltas = assemble_bytes([bytes.fromhex(piece) for piece in case["chunks_hex"]])
    expected = case["expect"]
    assert text_of(message) == expected["text"]
    assert "".join(delta.text for delta in deltas) == expected["text"]
    [call] = calls_of(message)
    assert call.tool_name == expected["tool"]
    assert call.arguments_json == '{"name": "alpha", "text": "naïve 東京 🚆 → fin"}'
    assert json.loads(call.arguments_json) == expected["arguments"]


def test_case_09_keep_alives_and_odd_framing_leave_the_text() -> None:
    message, deltas = assemble_bytes([(CASES / "model-stream-09.sse").read_bytes()])
    assert text_of(message) == "ok then"
    assert deltas == [TextDelta("ok"), TextDelta(" then")]
    assert message.finish_reason == FinishReason.FINISH_REASON_STOP


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


def test_a_message_beside_deltas_says_nothing_twice() -> None:
    whole = {"role": "assistant", "content": "Hello."}
    message, _ = assemble(
        chunk({"content": "Hello."}), {"choices": [{"delta": {}, "message": whole, "finish_reason": "stop"}]}
    )
    assert text_of(message) == "Hello."


def test_usage_that_shrinks_does_not_count_less() -> None:
    message, _ = assemble(
        chunk({"content": "x"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}),
        {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 3}},
    )
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>Hm, 2 < 3.</think>\n\nDone.", "Hm, 2 < 3.", "Done."),
        ("\n<think>\nHm.\n</think>Done <think>not</think>.", "\nHm.\n", "Done <think>not</think>."),
        ("<think></think>Done.", "", "Done."),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("<thinker> is a tag", "", "<thinker> is a tag"),
        ("<thi", "", "<thi"),
        ("  Plain.", "", "  Plain."),
        ("A <think> later", "", "A <think> later"),
    ],
)
def test_reasoning_between_tags_is_kept_apart(text: str, thought: str, said: str, size: int) -> None:
    pieces = [chunk({"content": text[n : n + size]}) for n in range(0, len(text), size)]
    message, deltas = assemble(*pieces)
    assert text_of(message) == said
    assert "".join(part.thinking.text for part in message.parts) == thought
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == said


def test_tags_can_be_implied_or_left_alone() -> None:
    for tags, thought, said in (
        (ThinkTags("think", opened=True), "Hm.", "Done."),
        (ThinkTags(""), "", "Hm.</think>Done."),
    ):
        built = OpenAIReader(MessageAssembler("m", lambda: "x"), tags)
        built.read(chunk({"content": "Hm.</think>Done."}))
        built.finish()
        message = built.assembler.message(done=True)
        assert text_of(message) == said
        assert "".join(part.thinking.text for part in message.parts) == thought


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


def test_the_first_choice_is_read_wherever_it_stands_with_its_usage() -> None:
    ours = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop", "usage": {"completion_tokens": 4}}
    message, _ = assemble({"choices": [None, {"index": 1, "delta": {"content": "other"}}, ours]})
    assert (text_of(message), message.usage.output_tokens) == ("ok", 4)


def test_bytes_that_are_no_utf8_are_replaced_and_the_answer_goes_on() -> None:
    events = [b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text for text in (b"a\xffb", b"\xe6\x9d", b"c")]
    message, _ = assemble_bytes([*events, b"data: [DONE]\n\n"])
    assert text_of(message) == "a�b�c"


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


def test_a_later_label_does_not_hide_a_length_cut() -> None:
    message, _ = assemble(chunk({"content": "x"}, "length"), chunk({}, "stop"))
    assert message.finish_reason == FinishReason.FINISH_REASON_LENGTH


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_text_in_order(key: str) -> None:
    message, deltas = assemble(
        chunk({key: "Let me "}), chunk({key: "think.", "content": None}), chunk({"content": "Done."}), chunk({}, "stop")
    )
    assert deltas == [ThinkingDelta("Let me "), ThinkingDelta("think."), TextDelta("Done.")]
    assert [part.WhichOneof("part") for part in message.parts] == ["thinking", "text"]
    assert message.parts[0].thinking.text == "Let me think."
    assert text_of(message) == "Done."


def test_reasoning_that_comes_under_both_names_is_taken_once() -> None:
    _, deltas = assemble(chunk({"reasoning": "x", "reasoning_content": "x"}))
    assert deltas == [ThinkingDelta("x")]


def test_content_in_parts_is_read() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "ok"}, 3]
    _, deltas = assemble(chunk({"content": parts}))
    assert deltas == [ThinkingDelta("hm"), TextDelta("ok")]


def test_halves_of_one_character_are_joined_across_chunks() -> None:
    first, second = json.loads(r'"a\ud83d"'), json.loads(r'"\ude86b"')
    message, deltas = assemble(chunk({"content": first}), chunk({"content": second}))
    assert deltas == [TextDelta("a"), TextDelta("🚆b")]
    assert text_of(message) == "a🚆b"


def test_halves_of_one_character_are_joined_in_arguments() -> None:
    first, second = json.loads(r'"{\"q\":\"\ud83d"'), json.loads(r'"\ude86\"}"')
    message, _ = assemble(fragment(0, first, id="x", name="f"), fragment(0, second))
    assert called(message) == [("f", '{"q":"🚆"}')]


def test_usage_is_taken_from_a_chunk_without_choices() -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    message, _ = assemble(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage})
    got = message.usage
    assert (got.input_tokens, got.output_tokens, got.cached_input_tokens, got.reasoning_tokens) == (30, 7, 20, 5)


@pytest.mark.parametrize(
    "usage", [None, [], "x", {"prompt_tokens": None, "completion_tokens": -1}, {"x": float("inf")}]
)
def test_odd_usage_counts_as_unknown(usage: object) -> None:
    message, _ = assemble(chunk({"content": "x"}, "stop", usage=usage))
    assert (message.usage.input_tokens, message.usage.output_tokens, message.usage.model_calls) == (0, 0, 1)


def test_a_stream_without_label_or_end_mark_is_an_error() -> None:
    with pytest.raises(ModelError, match="ended early") as caught:
        assemble(chunk({"content": "half"}), done=False)
    assert caught.value.retryable


def test_a_label_or_an_end_mark_alone_is_an_end() -> None:
    assert text_of(assemble(chunk({"content": "a"}, "stop"), done=False)[0]) == "a"
    assert text_of(assemble(chunk({"content": "a"}), done=True)[0]) == "a"


@pytest.mark.parametrize(
    ("error", "retryable", "words"),
    [
        ({"type": "server_error", "code": 503, "message": "canary"}, True, "(server_error, 503)"),
        ({"type": "invalid_request_error", "code": "context_length_exceeded"}, False, "context_length_exceeded"),
        ({"code": 400, "message": "canary"}, False, "(400)"),
        ({"code": 429}, True, "(429)"),
        ({"code": "canary-1234", "type": "canary 2"}, True, "stream"),
        ("canary in words", True, "stream"),
    ],
)
def test_an_error_object_in_the_stream_is_told_without_the_providers_words(
    error: object, retryable: bool, words: str
) -> None:
    with pytest.raises(ModelError) as caught:
        assemble(chunk({"content": "x"}), {"error": error})
    assert caught.value.retryable is retryable
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("label", ["error", "abort"])
def test_a_label_that_says_failure_is_an_error(label: str) -> None:
    with pytest.raises(ModelError, match="with an error"):
        assemble(chunk({"content": "x"}, label))


@pytest.mark.parametrize("odd", [[], 3, "x", None])
def test_a_chunk_that_is_no_object_is_an_error(odd: object) -> None:
    with pytest.raises(ModelError, match="not a JSON object"):
        assemble(odd)


def test_other_choices_and_odd_shapes_are_passed_over() -> None:
    message, _ = assemble(
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        {"choices": [None]},
        {"choices": {}},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, 4]}}]},
        {},
        chunk({"content": "ok"}, "stop"),
    )
    assert text_of(message) == "ok"
    assert called(message) == []
