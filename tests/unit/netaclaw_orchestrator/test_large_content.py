"""Texts that rest apart from their entry."""

from __future__ import annotations

import pytest

from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, Part, TextPart, ThinkingPart, ToolCallPart, ToolResult
from netaclaw_agent.models.assembler import MAX_CALLS
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.answer import MAX_CALLS_BYTES
from netaclaw_orchestrator.large_content import INLINE_BYTES, PIECE_BYTES, at_rest, pieces, set_aside

KIB = 1024


def _entry(*parts: Part) -> Entry:
    entry = Entry(entry_id="e", kind=EntryKind.ENTRY_KIND_ASSISTANT)
    entry.assistant.parts.extend(parts)
    return entry


def _result(content: str) -> Part:
    return Part(tool_call=ToolCallPart(call_id="c", result=ToolResult(content=content)))


def test_a_text_at_the_limit_stays_and_one_beyond_it_goes() -> None:
    entry = _entry(
        Part(text=TextPart(text="x" * INLINE_BYTES)), Part(text=TextPart(text="é" * (INLINE_BYTES // 2) + "x"))
    )
    writes = set_aside(entry)
    stays, goes = (part.text for part in entry.assistant.parts)
    assert (stays.content_id, goes.size_bytes) == ("", INLINE_BYTES + 1)
    assert [write.content.content_id for write in writes] == [goes.content_id]
    assert {write.content.entry_id for write in writes} == {"e"}


def test_the_whole_stays_in_memory_and_its_first_bytes_are_written() -> None:
    whole = "漢" * 100_000
    entry = _entry(
        Part(text=TextPart(text=whole)), Part(thinking=ThinkingPart(text=whole, signature="s")), _result(whole)
    )
    writes = set_aside(entry)
    written = at_rest(entry)
    text, thinking, call = written.assistant.parts
    shown = (text.text.text, thinking.thinking.text, call.tool_call.result.content)
    assert [len(each.encode()) for each in shown] == [32 * KIB - 2, 2 * KIB - 2, 2 * KIB - 2]
    assert all(whole.startswith(each) for each in shown)
    assert thinking.thinking.signature == "s"
    assert entry.assistant.parts[2].tool_call.result.content == whole
    for holder in (text.text, thinking.thinking, call.tool_call.result):
        assert holder.size_bytes == 300_000
        assert "".join(w.content.text for w in writes if w.content.content_id == holder.content_id) == whole


def test_what_was_stored_is_not_stored_again() -> None:
    entry = _entry(_result("x" * 70 * KIB))
    assert len(set_aside(entry)) == 1
    entry.assistant.parts.append(_result("y" * 70 * KIB))
    (again,) = set_aside(entry)
    assert again.content.text.startswith("y")
    assert at_rest(at_rest(entry)) == at_rest(entry)


def test_an_entry_that_is_full_takes_further_results_as_previews_and_leaves_the_others_alone() -> None:
    anchor = AnchorEntry(_entry())
    parts = anchor.entry.assistant.parts
    shown: list[Entry] = []
    for n in range(40):
        call = ToolCallPart(call_id=f"c{n}", result=ToolResult(content=f"{n:02}" * 31 * KIB))
        parts.append(Part(tool_call=call))
        *contents, last = anchor.writes(quiet=True)
        assert last.entry.entry.assistant.parts[:n] == (shown[-1].assistant.parts if shown else [])
        assert bool(contents) == bool(call_result(last.entry.entry, n).content_id)
        shown.append(last.entry.entry)
    assert [bool(call_result(shown[-1], n).content_id) for n in range(40)] == [False] * 10 + [True] * 30
    assert shown[-1].ByteSize() <= 896 * KIB
    assert {len(part.tool_call.result.content) for part in parts} == {62 * KIB}


def test_an_entry_with_as_many_calls_as_there_may_be_fits_into_one_message() -> None:
    anchor = AnchorEntry(_entry())
    for n in range(MAX_CALLS):
        call = ToolCallPart(call_id=f"c{n}", arguments_json="a" * (MAX_CALLS_BYTES // MAX_CALLS))
        anchor.entry.assistant.parts.append(Part(tool_call=call))
    for n in range(MAX_CALLS):
        anchor.call(f"c{n}").result.content = "x" * 3 * KIB
        *_, last = anchor.writes(quiet=True)
    assert last.ByteSize() <= 960 * KIB
    assert {len(part.tool_call.result.content) for part in anchor.entry.assistant.parts} == {3 * KIB}


def test_results_left_by_a_dead_owner_stay_where_they_were_shown() -> None:
    left = _entry(
        *(Part(tool_call=ToolCallPart(call_id=f"c{n}", result=ToolResult(content="x" * 60 * KIB))) for n in range(12))
    )
    (written,) = AnchorEntry(left).writes()
    assert written.entry.entry == left


def call_result(entry: Entry, n: int) -> ToolResult:
    return entry.assistant.parts[n].tool_call.result


def test_entries_without_long_texts_are_written_as_they_are() -> None:
    user = Entry(entry_id="u", kind=EntryKind.ENTRY_KIND_USER)
    user.user.text = "x" * 200 * KIB
    assert (set_aside(user), at_rest(user)) == ([], user)
    assert set_aside(_entry(Part(text=TextPart(text="short")))) == []


@pytest.mark.parametrize("text", ["", "a", "漢" * 10, "a漢" * 7, "😀" * 9])
def test_pieces_are_cut_between_characters(text: str) -> None:
    cut = list(pieces(text, limit=8))
    assert "".join(cut) == text
    assert all(0 < len(piece.encode()) <= 8 for piece in cut)
    assert all(len(piece.encode()) > 4 for piece in cut[:-1])


def test_pieces_fit_a_message_beside_others() -> None:
    assert [len(piece) for piece in pieces("x" * 600 * KIB)] == [PIECE_BYTES, PIECE_BYTES, 88 * KIB]
