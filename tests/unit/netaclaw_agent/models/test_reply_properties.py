"""Whatever the cuts, the same message; whatever the bytes, a message or a typed fault with the text so far kept."""

import json
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelError, TextDelta, ThinkingDelta
from netaclaw_agent.models.anthropic_stream import AnthropicReader
from netaclaw_agent.models.assembler import Delta, MessageAssembler
from netaclaw_agent.models.openai_stream import OpenAIReader
from netaclaw_agent.models.reply import Reply
from tests.fakes.anthropic_server import Redacted, Thought, body_of
from tests.fakes.openai_server import Call, Text, Tokens
from tests.fakes.openai_server import Reply as Answer

Readers = Callable[[MessageAssembler], OpenAIReader | AnthropicReader]
FORMATS = [OpenAIReader, AnthropicReader]

TEXTS = st.text(max_size=12)
JSON = st.recursive(st.integers() | TEXTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3), max_leaves=4)
ARGUMENTS = st.builds(json.dumps, st.dictionaries(TEXTS, JSON, max_size=2), ensure_ascii=st.booleans())
CALLS = st.builds(Call, st.just("tool"), ARGUMENTS, st.sampled_from(["", "k0", "k1"]))
ITEMS = st.builds(Text, TEXTS) | CALLS | st.builds(Thought, TEXTS, TEXTS) | st.builds(Redacted, TEXTS)


def read(reader: Readers, pieces: list[bytes]) -> tuple[list[Delta], Message | ModelError]:
    """The deltas and the message, or what was given out before the fault and the fault."""
    numbers = count(1)
    reply = Reply(reader(MessageAssembler("m", lambda: f"ours-{next(numbers)}")))
    deltas: list[Delta] = []
    try:
        for piece in pieces:
            for delta in reply.feed(piece):
                deltas.append(delta)  # what came before a fault has to stay
        deltas += reply.end()
        return deltas, reply.message()
    except ModelError as error:
        return deltas, error


def cut(body: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(borders)]


@st.composite
def chunked(draw: st.DrawFn) -> bytes:
    """A valid chat completion stream: reasoning in fields or tags, text and calls in fragments, in random framing."""

    def chunk(delta: dict[str, object], label: str | None = None) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": label}]}

    def fragment(index: int, **function: str) -> dict[str, object]:
        more = {"id": function.pop("id")} if "id" in function else {}
        return chunk({"tool_calls": [{"index": index, **more, "function": function}]})

    field = draw(st.sampled_from(["reasoning_content", "reasoning"]))
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({field: text}) for text in draw(st.lists(TEXTS, max_size=2))]
    tagged = [f"<think>{draw(TEXTS)}</think>\n\n"] if draw(st.booleans()) else []
    chunks += [chunk({"content": text}) for text in [*tagged, *draw(st.lists(TEXTS, max_size=4))]]
    for index, call in enumerate(draw(st.lists(CALLS, max_size=3))):
        middle = draw(st.integers(0, len(call.arguments)))
        chunks += [fragment(index, id=call.call_id, name="tool", arguments="")]
        chunks += [
            fragment(index, arguments=call.arguments[:middle]),
            fragment(index, arguments=call.arguments[middle:], id="", name=""),
        ]
    chunks += [chunk({}, draw(st.sampled_from(["stop", "tool_calls", "length"])))]
    chunks += [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": draw(st.integers(0, 9))}}]
    end = draw(st.sampled_from(["\n\n", "\r\n\r\n", "\n: ping\n\n", "\r\r"]))
    escapes = draw(st.booleans())
    return "".join(f"data: {json.dumps(c, ensure_ascii=escapes)}{end}" for c in chunks).encode() + b"data: [DONE]\n\n"


BLOCKS = st.builds(
    lambda items, label: body_of(Answer([*items, Tokens(9, 4, 2)], finish_reason=label)),
    st.lists(ITEMS, max_size=5),
    st.sampled_from(["", "max_tokens", "refusal"]),
)
BODIES = st.tuples(st.just(OpenAIReader), chunked()) | st.tuples(st.just(AnthropicReader), BLOCKS)


@given(case=BODIES, places=st.lists(st.integers(0, 10_000), max_size=20))
def test_a_valid_reply_cut_at_any_bytes_gives_the_same_message(case: tuple[Readers, bytes], places: list[int]) -> None:
    reader, body = case
    deltas, message = read(reader, cut(body, places))
    assert isinstance(message, Message)
    assert (deltas, message) == read(reader, [body])
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == text_of(message)
    thoughts = "".join(part.thinking.text for part in message.parts)
    assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)) == thoughts


@given(items=st.lists(ITEMS, max_size=5))
def test_blocks_come_out_as_they_went_in(items: list[Text | Call | Thought | Redacted]) -> None:
    _, message = read(AnthropicReader, [body_of(Answer(items))])  # type: ignore[arg-type]  # this server's blocks
    assert isinstance(message, Message)
    wanted = [item for item in items if not (isinstance(item, Text) and not item.text)]
    wanted = [item for item in wanted if not (isinstance(item, Thought) and not (item.text or item.signature))]
    wanted = [item for item in wanted if not (isinstance(item, Redacted) and not item.data)]
    assert len(message.parts) == len(wanted)
    for part, item in zip(message.parts, wanted, strict=True):
        match item:
            case Text(text):
                assert part.text.text == text
            case Call(_, arguments):
                assert part.tool_call.arguments_json == arguments
            case Thought(text, signature):
                assert (part.thinking.text, part.thinking.signature) == (text, signature)
            case Redacted(data):
                assert part.thinking.redacted == data


KEYS = (
    "choices delta message content tool_calls function function_call name arguments index id usage finish_reason"
    " reasoning_content error type content_block text thinking signature partial_json input data stop_reason"
)
WORDS = (
    "content_block_start content_block_delta content_block_stop message_delta message_start message_stop message"
    " error text thinking redacted_thinking tool_use text_delta thinking_delta signature_delta input_json_delta"
    " stop length </think> <think>"
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**30)
    | st.floats()
    | st.sampled_from(WORDS.split())
    | st.text(st.characters(exclude_categories=()), max_size=5)
)
EVENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4),
    max_leaves=20,
).map(lambda event: b"data: " + json.dumps(event).encode() + b"\n\n")
PIECES = st.lists(
    EVENTS | st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n\n", b"data: [DONE]\n\n"]), max_size=8
)


@pytest.mark.parametrize("reader", FORMATS)
@given(pieces=PIECES, before=st.booleans())
def test_arbitrary_bytes_end_in_a_message_or_a_typed_fault_with_the_text_kept(
    reader: Readers, pieces: list[bytes], before: bool
) -> None:
    good = {
        OpenAIReader: b'data: {"choices":[{"delta":{"content":"half"}}]}\n\n',
        AnthropicReader: b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"half"}}\n\n',
    }[reader]  # type: ignore[index]  # a class is a callable
    deltas, end = read(reader, [good, *pieces] if before else pieces)
    if before:
        assert deltas[0] == TextDelta("half")
    for delta in deltas:
        delta.text.encode()
    if isinstance(end, Message):
        assert end.SerializeToString()
        assert len({call.call_id for call in calls_of(end)}) == len(calls_of(end))
    else:
        assert end.reason in ("MODEL_UNAVAILABLE", "MODEL_REFUSED", "CONTEXT_TOO_LONG")
        assert str(end)
