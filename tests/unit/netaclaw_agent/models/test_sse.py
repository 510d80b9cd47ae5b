"""The event parser: whatever the cuts, the same events."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw_agent.model import ModelError
from netaclaw_agent.models.sse import SseParser

CASES = Path(__file__).parents[3] / "cases"


def parse(chunks: list[bytes], parser: SseParser | None = None) -> list[bytes]:
    parser = parser or SseParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.finish()


def cut(body: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(borders)]


def test_keep_alives_ids_and_retries_give_no_events() -> None:
    events = parse([b": ping\n\nretry: 1000\n\nid: 7\n\ndata:\n\ndata\n\ndata:\ndata:\n\n"])
    assert events == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_all_line_ends_are_understood(end: bytes) -> None:
    body = end.join([b": hello", b"event: message", b"data: one", b"", b"data:two", b"", b""])
    assert parse([body]) == [b"one", b"two"]
    assert parse([body[n : n + 1] for n in range(len(body))]) == [b"one", b"two"]


def test_a_line_end_of_two_bytes_may_be_cut_in_two() -> None:
    assert parse([b"data: one\r", b"\n", b"data: two\r", b"\n\r", b"\n"]) == [b"one\ntwo"]


def test_several_data_lines_are_joined_by_a_line_feed() -> None:
    assert parse([b'data: {"a":\ndata: 1}\n\n']) == [b'{"a":\n1}']


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert parse([b"data:  x\n\ndata:y\n\n"]) == [b" x", b"y"]


def test_a_byte_order_mark_at_the_start_is_dropped_even_when_cut() -> None:
    assert parse([b"\xef", b"\xbb", b"\xbfdata: x\n\n"]) == [b"x"]


def test_nothing_is_given_out_after_the_end_mark() -> None:
    parser = SseParser()
    assert parser.feed(b"data: x\n\ndata: [DONE]\n\ndata: y\n\n") == [b"x"]
    assert parser.done
    assert parser.feed(b"data: z\n\n") == []
    assert parser.finish() == []


def test_an_end_mark_without_a_blank_line_counts_at_the_end() -> None:
    parser = SseParser()
    assert parser.feed(b"data: x\n\ndata:[DONE]") == [b"x"]
    assert not parser.done
    assert parser.finish() == []
    assert parser.done


@pytest.mark.parametrize("body", [b"data: " + b"x" * 101, b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60, b":" * 101])
def test_an_event_above_the_limit_is_refused(body: bytes) -> None:
    pieces = [body[place : place + 10] for place in range(0, len(body), 10)]
    with pytest.raises(ModelError, match="above 100 bytes") as caught:
        parse([*pieces, b"\n\n"], SseParser(max_event_bytes=100))
    assert not caught.value.retryable


def test_many_small_events_pass_a_small_limit() -> None:
    parser = SseParser(max_event_bytes=100)
    assert len(parser.feed(b"data: 0123456789\n\n" * 1000)) == 1000


def test_a_body_above_the_limit_is_refused() -> None:
    parser = SseParser(max_body_bytes=100)
    parser.feed(b": " + b"x" * 90 + b"\n")
    with pytest.raises(ModelError, match="too long"):
        parser.feed(b": " + b"x" * 90 + b"\n")


def test_case_07_cuts_inside_characters_and_separators_change_nothing() -> None:
    case = json.loads((CASES / "model-stream-07.chunks.json").read_text(encoding="utf-8"))
    chunks = [bytes.fromhex(piece) for piece in case["chunks_hex"]]
    assert parse(chunks) == parse([b"".join(chunks)])
    assert len(parse(chunks)) == 4


@given(st.data())
def test_any_body_cut_anywhere_gives_the_same_events(data: st.DataObject) -> None:
    lines = st.sampled_from([b"data: a\xc3\xaf", b"data:b", b"data", b": c", b"", b"", b"id: 1", b"event: x", b"x"])
    ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
    body = b"".join(data.draw(lines) + data.draw(ends) for _ in range(data.draw(st.integers(0, 12))))
    places = data.draw(st.lists(st.integers(0, 200), max_size=12))
    assert parse(cut(body, places)) == parse([body])


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_arbitrary_bytes_never_break_the_parser(chunks: list[bytes]) -> None:
    assert parse(chunks) == parse([b"".join(chunks)])
