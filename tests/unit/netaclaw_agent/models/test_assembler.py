"""The assembler: whatever a provider's habits, one message."""

import json

import pytest

from netaclaw.session.v1.entry_pb2 import FinishReason
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelError, TextDelta, ThinkingDelta
from netaclaw_agent.models.assembler import MessageAssembler
from netaclaw_agent.models.openai_stream import OpenAIReader
from netaclaw_agent.models.think_tags import ThinkTags
from tests.unit.netaclaw_agent.models.chunks import CASES, assemble, assemble_bytes, called, chunk


def test_case_03_empty_ids_and_names_count_as_absent() -> None:
    message, deltas = assemble_bytes([(CASES / "model-stream-03.sse").read_bytes()])
    assert called(message) == [("add_numbers", '{"a":2,"b":3}'), ("read_note", '{"name":"beta"}')]
    assert [call.call_id for call in calls_of(message)] == ["ours-1", "ours-2"]
    assert [call.provider_call_id for call in calls_of(message)] == ["k1", ""]
    assert deltas == []
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS


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


def test_the_first_choice_is_read_wherever_it_stands_with_its_usage() -> None:
    ours = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop", "usage": {"completion_tokens": 4}}
    message, _ = assemble({"choices": [None, {"index": 1, "delta": {"content": "other"}}, ours]})
    assert (text_of(message), message.usage.output_tokens) == ("ok", 4)


def test_bytes_that_are_no_utf8_are_replaced_and_the_answer_goes_on() -> None:
    events = [b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text for text in (b"a\xffb", b"\xe6\x9d", b"c")]
    message, _ = assemble_bytes([*events, b"data: [DONE]\n\n"])
    assert text_of(message) == "a�b�c"


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


def test_a_chunk_that_is_itself_an_error_is_one() -> None:
    """As vLLM long wrote them, with the end mark behind."""
    words = "This model's maximum context length is 4096 tokens. However, you requested 5000."
    error = {"object": "error", "message": words, "type": "BadRequestError", "param": None, "code": 400}
    with pytest.raises(ModelError) as caught:
        assemble(error)
    assert (caught.value.reason, caught.value.retryable) == ("CONTEXT_TOO_LONG", False)


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
