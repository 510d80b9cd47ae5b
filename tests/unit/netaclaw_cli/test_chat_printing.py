"""How a turn's events look in the chat, on recorded and on made events."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from netaclaw.chat.v1 import event_pb2 as e
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import (
    ClarifyBody,
    ClarifyState,
    CompactionBody,
    Entry,
    EntryKind,
    Part,
    TextPart,
    TodoItem,
    ToolCallPart,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_cli.printing import TurnPrinter
from netaclaw_cli.tree_lines import tree_lines
from netaclaw_client import SessionView

RECORDED = json.loads((Path(__file__).parents[2] / "cases" / "recorded-turn.json").read_text(encoding="utf-8"))


def shown(*events: ChatEvent, view: SessionView | None = None) -> str:
    """What is written while these events come."""
    view = view or SessionView()
    written: list[str] = []
    printer = TurnPrinter(view, written.append)
    for event in events:
        if not event.HasField("token_update"):  # a live one
            event.seq = view.seq + 1
        view.apply(event)
        printer.show(event)
    return "".join(written)


def question(**fields: object) -> Entry:
    body = ClarifyBody(request_id="r", state=ClarifyState.CLARIFY_STATE_OPEN, **fields)  # type: ignore[arg-type]  # of it
    return Entry(entry_id="q", kind=EntryKind.ENTRY_KIND_CLARIFY, clarify=body)


def test_a_recorded_delegation_shows_its_calls_its_tasks_the_answer_and_what_it_cost() -> None:
    events = [ParseDict(event, ChatEvent()) for event in RECORDED["events"]]
    view = SessionView(seq=events[0].seq - 1)
    written: list[str] = []
    printer = TurnPrinter(view, written.append)
    for event in events:
        view.apply(event)
        printer.show(event)
    text = "".join(written)
    assert "→ delegate_parallel" in text
    assert text.count("RUNNING") >= 3
    assert text.rstrip().splitlines()[-1].startswith("(")
    assert "tokens in" in text


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (ChatEvent(thinking_done=e.ThinkingDone(text="first\nthen")), "  ~ first\n  ~ then\n"),
        (
            ChatEvent(compaction_start=e.CompactionStart(tokens_before=900)),
            "(summing up the conversation, 900 tokens)\n",
        ),
        (
            ChatEvent(compaction_done=e.CompactionDone(tokens_before=900, tokens_after=90)),
            "(summed up: 900 tokens are 90 now)\n",
        ),
        (ChatEvent(compaction_error=e.CompactionError(message="no\x1b[31m use")), "(not summed up: no[31m use)\n"),
        (
            ChatEvent(todo_update=e.TodoUpdate(todos=[TodoItem(text="roof", status="in_progress")])),
            "  ▶ roof\n",
        ),
        (
            ChatEvent(message_receipt=e.MessageReceipt(state=e.RECEIPT_STATE_QUEUED)),
            "(your message waits)\n",
        ),
        (
            ChatEvent(clarify_request=e.ClarifyRequest(entry=question(question="Which?", choices=["red", "blue"]))),
            "? Which?\n  1  red\n  2  blue\n",
        ),
        (
            ChatEvent(
                clarify_request=e.ClarifyRequest(
                    entry=question(
                        approval=ToolCallPart(tool_name="run_shell", arguments_json='{"a": 1}'),
                        choices=["allow", "deny", "always"],
                        agent_name="worker",
                        task_id="t",
                    )
                )
            ),
            '? may worker in a subagent call run_shell {"a": 1}\n'
            "  1  allow\n  2  deny\n  3  always (in this session)\n",
        ),
        (ChatEvent(todo_update=e.TodoUpdate()), "  (the todo list is empty now)\n"),
    ],
)
def test_an_event_is_shown_in_words(event: ChatEvent, lines: str) -> None:
    assert shown(event) == lines


def test_a_question_says_until_when_it_waits() -> None:
    asked = question(question="Which?")
    asked.clarify.expire_time.FromSeconds(1_800_000_000)
    until = time.strftime("%a %H:%M", time.localtime(1_800_000_000))
    assert shown(ChatEvent(clarify_request=e.ClarifyRequest(entry=asked))) == f"? Which?\n  (until {until})\n"


def test_the_end_tells_tokens_cost_and_how_full_the_context_is() -> None:
    update = ChatEvent(token_update=e.TokenUpdate(context_used=250, context_window=1000))
    usage = Usage(input_tokens=10, output_tokens=5, model_calls=1, cost_micros=1500)
    done = ChatEvent(done=e.Done(outcome=e.TURN_OUTCOME_COMPLETED, usage=usage))
    assert shown(update, done) == "(10 tokens in, 5 out, 0.0015 $; context 25 %)\n"


def user(entry_id: str, parent: str, text: str) -> Entry:
    entry = Entry(entry_id=entry_id, parent_entry_id=parent, kind=EntryKind.ENTRY_KIND_USER)
    entry.user.text = text
    return entry


def test_a_tree_is_indented_where_it_branches_and_marks_the_leaf() -> None:
    answer = Entry(entry_id="a", parent_entry_id="u", kind=EntryKind.ENTRY_KIND_ASSISTANT)
    answer.assistant.parts.append(Part(text=TextPart(text="yes")))
    summary = Entry(entry_id="c", parent_entry_id="v", kind=EntryKind.ENTRY_KIND_COMPACTION)
    summary.compaction.CopyFrom(CompactionBody(summary="short"))
    entries = [user("u", "", "hello"), answer, question(), user("v", "a", "one"), user("w", "a", "two"), summary]
    assert list(tree_lines(entries, "c")) == [
        "  u you: hello",
        "  a agent: yes",
        "  v   you: one",
        "* c   (summary of what is above: short)",
        "  w   you: two",
    ]


def test_several_first_messages_branch_from_the_root_which_is_marked_when_one_stands_there() -> None:
    entries = [user("u", "", "hello"), user("v", "", "good day")]
    hello, good_day = "  u   you: hello", "  v   you: good day"
    assert list(tree_lines(entries, "u")) == ["  root         (before the first message)", f"*{hello[1:]}", good_day]
    assert list(tree_lines(entries, "")) == ["* root         (before the first message)", hello, good_day]
    assert list(tree_lines(entries[:1], "")) == ["* root         (before the first message)", "  u you: hello"]
    assert list(tree_lines([], "")) == []
