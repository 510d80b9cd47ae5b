"""From a path to what a model sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.session.v1.entry_pb2 import (
    AssistantBody,
    BatchReferencePart,
    BranchSummaryBody,
    CompactionBody,
    Entry,
    EntryKind,
    EntryState,
    Message,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolCallState,
    ToolResult,
    UserBody,
)
from netaclaw_agent.context import ContextBuilder, build_context, missing_result
from netaclaw_agent.loop import calls_of, text_of

CASE = json.loads((Path(__file__).parents[2] / "cases" / "tree-06.json").read_text())


def user(entry_id: str, text: str) -> Entry:
    return Entry(entry_id=entry_id, kind=EntryKind.ENTRY_KIND_USER, user=UserBody(text=text))


def assistant(entry_id: str, *parts: Part, state: EntryState = EntryState.ENTRY_STATE_COMPLETE) -> Entry:
    return Entry(
        entry_id=entry_id, kind=EntryKind.ENTRY_KIND_ASSISTANT, state=state, assistant=AssistantBody(parts=parts)
    )


def compaction(entry_id: str, first_kept: str) -> Entry:
    body = CompactionBody(summary=f"summary {entry_id}", first_kept_entry_id=first_kept)
    return Entry(entry_id=entry_id, kind=EntryKind.ENTRY_KIND_COMPACTION, compaction=body)


def says(text: str) -> Part:
    return Part(text=TextPart(text=text))


def call(call_id: str, state: ToolCallState, result: str | None = None) -> Part:
    part = ToolCallPart(call_id=call_id, tool_name="read_file", arguments_json='{"b":1,"a":2,"b":3}', state=state)
    if result is not None:
        part.result.CopyFrom(ToolResult(content=result))
    return Part(tool_call=part)


def ids(messages: list[Message]) -> list[str]:
    return [message.entry_id for message in messages]


def test_users_and_answers_stand_in_path_order_with_their_entries() -> None:
    messages = build_context([user("u1", "q1"), assistant("a1", says("r1")), user("u2", "q2")])
    assert [(m.role, text_of(m), m.entry_id) for m in messages] == [
        (MessageRole.MESSAGE_ROLE_USER, "q1", "u1"),
        (MessageRole.MESSAGE_ROLE_ASSISTANT, "r1", "a1"),
        (MessageRole.MESSAGE_ROLE_USER, "q2", "u2"),
    ]


def test_every_call_of_a_stopped_turn_has_one_honest_result() -> None:
    answered, running, pending = CASE["entries"][1]["tool_calls"]
    calls = [
        call(answered, ToolCallState.TOOL_CALL_STATE_COMPLETED, CASE["entries"][2]["text"]),
        call(running, ToolCallState.TOOL_CALL_STATE_RUNNING),
        call(pending, ToolCallState.TOOL_CALL_STATE_PENDING),
    ]
    path = [user("e1", "q1"), assistant("e2", *calls, state=EntryState.ENTRY_STATE_CANCELLED), user("e4", "q2")]
    results = {part.call_id: part.result for part in calls_of(build_context(path)[1])}
    assert results[answered].content == "r1"
    assert not results[answered].is_error
    assert results[running].content == "This call was stopped while running and may have had effect."
    assert results[pending].content.startswith("This call never began")
    assert results[running].is_error
    assert results[pending].is_error


@pytest.mark.parametrize("state", list(ToolCallState.values()))
def test_a_call_without_result_gets_one_in_every_state(state: ToolCallState) -> None:
    (message,) = build_context([assistant("a", call("k", state))])
    assert [part.HasField("result") for part in calls_of(message)] == [True]


def test_a_cancelled_call_may_have_had_effect_only_if_it_began() -> None:
    cancelled = ToolCallPart(state=ToolCallState.TOOL_CALL_STATE_CANCELLED)
    assert "never began" in missing_result(cancelled)
    cancelled.start_time.CopyFrom(Timestamp(seconds=1))
    assert "may have had effect" in missing_result(cancelled)


def test_the_path_is_never_changed_and_arguments_stay_byte_for_byte() -> None:
    entry = assistant("a", call("k", ToolCallState.TOOL_CALL_STATE_RUNNING))
    before = entry.SerializeToString()
    (message,) = build_context([entry])
    assert entry.SerializeToString() == before
    assert calls_of(message)[0].arguments_json == '{"b":1,"a":2,"b":3}'


@pytest.mark.parametrize(
    "entry",
    [
        assistant("a", state=EntryState.ENTRY_STATE_STREAMING),
        assistant("a", says("half"), state=EntryState.ENTRY_STATE_STREAMING),
        assistant("a", state=EntryState.ENTRY_STATE_FAILED),
        assistant("a", Part(thinking=ThinkingPart(text="hm")), state=EntryState.ENTRY_STATE_CANCELLED),
        Entry(entry_id="x", kind=EntryKind.ENTRY_KIND_SUBAGENT_BATCH),
        Entry(entry_id="x", kind=EntryKind.ENTRY_KIND_SUBAGENT_RESULT),
        Entry(entry_id="x", kind=EntryKind.ENTRY_KIND_CLARIFY),
    ],
)
def test_placeholders_and_attachments_never_enter(entry: Entry) -> None:
    assert ids(build_context([user("u", "q"), entry])) == ["u"]


def test_partial_answers_of_ended_turns_enter() -> None:
    path = [user("u", "q"), assistant("a", says("half"), state=EntryState.ENTRY_STATE_INTERRUPTED)]
    assert ids(build_context(path)) == ["u", "a"]


def test_thinking_stays_apart_and_batch_references_stay_out() -> None:
    entry = assistant(
        "a",
        Part(thinking=ThinkingPart(text="hm", signature="s")),
        says("text"),
        Part(batch_reference=BatchReferencePart(batch_entry_id="b", call_id="k")),
    )
    (message,) = build_context([entry])
    assert [part.WhichOneof("part") for part in message.parts] == ["thinking", "text"]
    assert text_of(message) == "text"
    assert message.parts[0].thinking.signature == "s"


def test_a_compaction_stands_for_what_is_before_its_first_kept_entry() -> None:
    path = [user("u1", "q1"), assistant("a1", says("r1")), user("u2", "q2"), compaction("c", "u2"), user("u3", "q3")]
    messages = build_context(path)
    assert ids(messages) == ["c", "u2", "u3"]
    assert text_of(messages[0]).endswith("summary c")


def test_the_last_of_several_compactions_counts() -> None:
    path = [user("u1", "q"), compaction("c1", "u1"), user("u2", "q"), compaction("c2", "u1"), user("u3", "q")]
    assert ids(build_context(path)) == ["c2", "u1", "u2", "u3"]


@pytest.mark.parametrize("first_kept", ["", "gone", "u2", "c"])
def test_a_compaction_that_names_nothing_before_it_keeps_nothing(first_kept: str) -> None:
    assert ids(build_context([user("u1", "q"), compaction("c", first_kept), user("u2", "q")])) == ["c", "u2"]


def test_a_branch_summary_enters_as_a_users_words() -> None:
    entry = Entry(
        entry_id="b", kind=EntryKind.ENTRY_KIND_BRANCH_SUMMARY, branch_summary=BranchSummaryBody(summary="they tried x")
    )
    (message,) = build_context([entry])
    assert message.role == MessageRole.MESSAGE_ROLE_USER
    assert "they tried x" in text_of(message)


ENTRIES = st.sampled_from(["user", "assistant", "compaction", "branch", "streaming", "attachment"])


def made(kind: str, number: int, path: list[Entry]) -> Entry:
    name = f"e{number}"
    if kind == "compaction":
        return compaction(name, path[number % len(path)].entry_id if path else "")
    if kind == "branch":
        summary = BranchSummaryBody(summary=name)
        return Entry(entry_id=name, kind=EntryKind.ENTRY_KIND_BRANCH_SUMMARY, branch_summary=summary)
    if kind == "streaming":
        return assistant(name, says(name), state=EntryState.ENTRY_STATE_STREAMING)
    if kind == "attachment":
        return Entry(entry_id=name, kind=EntryKind.ENTRY_KIND_SUBAGENT_BATCH)
    return user(name, name) if kind == "user" else assistant(name, says(name))


@given(st.lists(st.tuples(st.integers(0, 8), st.lists(ENTRIES, max_size=3)), max_size=12))
def test_a_growing_or_changing_path_gives_what_a_full_build_gives(steps: list[tuple[int, list[str]]]) -> None:
    builder, path, number = ContextBuilder(), list[Entry](), 0
    for left, kinds in steps:  # go back some entries, then on in another way
        path = path[: max(0, len(path) - left)]
        for kind in kinds:
            number += 1
            path = [*path, made(kind, number, path)]
        built = builder.build(path)
        assert built == build_context(path)
        built.append(Message())  # the caller's own list


def test_an_unfinished_entry_is_looked_at_again() -> None:
    builder, entry = ContextBuilder(), assistant("a", state=EntryState.ENTRY_STATE_STREAMING)
    assert ids(builder.build([user("u", "q"), entry])) == ["u"]
    entry.state = EntryState.ENTRY_STATE_COMPLETE
    entry.assistant.parts.append(says("done"))
    assert ids(builder.build([user("u", "q"), entry])) == ["u", "a"]


def test_a_longer_path_costs_only_what_it_has_more() -> None:
    builder, path = ContextBuilder(), [user(f"u{n}", "q") for n in range(50)]
    first = builder.build(path)
    second = builder.build([*path, user("u50", "q")])
    assert all(a is b for a, b in zip(first, second, strict=False))
    assert len(second) == 51
