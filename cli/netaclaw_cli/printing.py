"""A turn as it happens, in plain text: for pipes, logs and the chat."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState, StreamChannel
from netaclaw.session.v1.entry_pb2 import ClarifyBody, EntryKind, EntryState, ToolCallPart
from netaclaw_cli.cards import batch_of, card_lines
from netaclaw_cli.wording import (
    call_state,
    clarify_state,
    clean,
    one_line,
    route,
    seconds,
    task_state,
    usage_line,
)
from netaclaw_client import SessionView

Write = Callable[[str], None]

_STEP_WIDTH = 100
_NAME_WIDTH = 40
_MOST_ARGUMENTS = 4000
"""Of a call that a person is to judge, so that they see it whole unless it holds a file."""
_MEANINGS = {"always": " (in this session)"}
"""What answers to an approval mean, where the word alone does not say it."""
_TODO_MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑", "cancelled": "☒"}
_RECEIPTS = {
    ReceiptState.RECEIPT_STATE_QUEUED: "your message waits",
    ReceiptState.RECEIPT_STATE_TAKEN: "your message is read",
    ReceiptState.RECEIPT_STATE_MISSED: "your message came too late",
    ReceiptState.RECEIPT_STATE_RETRACTED: "your message was taken back",
}


class TurnPrinter:
    """Writes what each event adds. Give it every event after the view has taken it."""

    def __init__(self, view: SessionView, write: Write) -> None:
        self._view = view
        self._write = write
        self._shown: dict[str, str] = {}
        """Text that was written per assistant entry of this turn."""
        self._thought_lines: dict[str, int] = {}
        """How many lines of reasoning were written per assistant entry of this turn."""
        self._states: dict[str, int] = {}
        self._open = False
        """The cursor stands behind text, not at the begin of a line."""

    def show(self, event: ChatEvent) -> None:
        """Write what the event adds, if anything."""
        kind = event.WhichOneof("event")
        show = _SHOWN.get(kind) if kind else None
        if show is not None:
            show(self, event)

    def line(self, text: str) -> None:
        """Write a line of its own."""
        if self._open:
            self._write("\n")
            self._open = False
        self._write(f"{text}\n")

    def _text(self, event: ChatEvent) -> None:
        if event.task_id:
            return
        if event.assistant_stream_delta.channel == StreamChannel.STREAM_CHANNEL_THINKING:
            draft = self._view.drafts.get((event.entry_id, ""))
            if draft is not None:
                self._think(event.entry_id, draft.thinking, whole=False)
        else:
            self._catch_up(event.entry_id)

    def _started(self, event: ChatEvent) -> None:
        if not event.task_id:
            self._catch_up(event.entry_id)

    def _entry(self, event: ChatEvent) -> None:
        entry = self._view.entries.get(event.entry_id)
        if entry is None or entry.kind != EntryKind.ENTRY_KIND_ASSISTANT:
            return
        if entry.state != EntryState.ENTRY_STATE_STREAMING:
            self._catch_up(event.entry_id)
            if self._open:
                self.line("")

    def _catch_up(self, entry_id: str) -> None:
        """Write what the entry's text has more than what was written; all of it when it changed."""
        text = clean(self._view.text_of(entry_id))
        draft = self._view.drafts.get((entry_id, ""))
        if text and draft is not None:
            self._think(entry_id, draft.thinking)
        shown = self._shown.get(entry_id, "")
        if not text.startswith(shown):
            self.line("")
            self.line("(the answer was begun anew)")
            shown = ""
        if len(text) > len(shown):
            self._write(text[len(shown) :])
            self._open = not text.endswith("\n")
        self._shown[entry_id] = text

    def _call_started(self, event: ChatEvent) -> None:
        call = event.tool_call_started.call
        self.line(f"→ {call.tool_name} [{route(call)}] {one_line(call.arguments_json, _STEP_WIDTH)}")

    def _call_completed(self, event: ChatEvent) -> None:
        call = event.tool_call_completed.call
        mark = "✗" if call.result.is_error else "✓"
        said = f": {one_line(call.result.content, _STEP_WIDTH)}" if call.result.is_error else ""
        self.line(f"{mark} {call.tool_name} {call_state(call.state)}{_took(call)}{said}")

    def _task(self, event: ChatEvent) -> None:
        change = event.subagent_event
        task, step = change.item, change.process_event
        if self._states.get(task.task_id) != task.state:
            self._states[task.task_id] = task.state
            self.line(f"  [{one_line(task.name, _NAME_WIDTH)}] {task_state(task.state)}")
        if step.type in ("tool_call", "proxy_tool_call"):
            detail = one_line(step.arguments_json, _STEP_WIDTH)
            self.line(f"  [{one_line(task.name, _NAME_WIDTH)}] → {step.tool_name} {detail}")
        elif step.type == "compaction":
            words = f"could not sum up its context: {step.content}" if step.is_error else "summed up its context"
            self.line(f"  [{one_line(task.name, _NAME_WIDTH)}] ({one_line(words, _STEP_WIDTH)})")

    def _batch_ended(self, event: ChatEvent) -> None:
        entry = self._view.entries.get(event.subagent_run_completed.result_entry_id)
        for line in card_lines(entry) if entry is not None else []:
            self.line(line)

    def _question(self, event: ChatEvent) -> None:
        for line in question_lines(event.clarify_request.entry.clarify, self._view):
            self.line(line)

    def _resolved(self, event: ChatEvent) -> None:
        body = event.clarify_resolved.entry.clarify
        answer = f": {one_line(body.answer, _STEP_WIDTH)}" if body.answer else ""
        self.line(f"({clarify_state(body.state).lower()}{answer})")

    def _thought(self, event: ChatEvent) -> None:
        if not event.task_id:
            self._think(event.entry_id, event.thinking_done.text)

    def _think(self, entry_id: str, thinking: str, *, whole: bool = True) -> None:
        """Reasoning stands before its answer, each line once and as soon as it is whole."""
        lines = clean(thinking).strip().splitlines()
        shown = self._thought_lines.get(entry_id, 0)
        ready = lines if whole else lines[:-1]
        for line in ready[shown:]:
            self.line(f"  ~ {line}")
        self._thought_lines[entry_id] = max(shown, len(ready))

    def _todos(self, event: ChatEvent) -> None:
        if event.task_id:
            return
        if not event.todo_update.todos:
            self.line("  (the todo list is empty now)")
        for item in event.todo_update.todos:
            self.line(f"  {_TODO_MARKS.get(item.status, '?')} {one_line(item.text, _STEP_WIDTH)}")

    def _compacting(self, event: ChatEvent) -> None:
        self.line(f"(summing up the conversation, {event.compaction_start.tokens_before} tokens)")

    def _compacted(self, event: ChatEvent) -> None:
        done = event.compaction_done
        self.line(f"(summed up: {done.tokens_before} tokens are {done.tokens_after} now)")

    def _not_compacted(self, event: ChatEvent) -> None:
        self.line(f"(not summed up: {one_line(event.compaction_error.message, _STEP_WIDTH)})")

    def _receipt(self, event: ChatEvent) -> None:
        kind = event.WhichOneof("event")
        state = event.message_receipt.state if kind == "message_receipt" else event.steer_receipt.state
        self.line(f"({_RECEIPTS.get(state, 'your message: unknown')})")

    def _done(self, event: ChatEvent) -> None:
        self._shown.clear()
        self._thought_lines.clear()
        self._states.clear()
        usage = event.done.usage if event.WhichOneof("event") == "done" else event.error.usage
        if usage.model_calls:
            self.line(f"({usage_line(usage)}{self._context()})")

    def _context(self) -> str:
        tokens = self._view.tokens
        if not tokens.context_window or not tokens.context_used:
            return ""
        return f"; context {100 * tokens.context_used / tokens.context_window:.0f} %"

    def _error(self, event: ChatEvent) -> None:
        self.line(f"The turn failed: {clean(event.error.message)} ({event.error.reason})")
        self._done(event)


def question_lines(body: ClarifyBody, view: SessionView) -> Iterator[str]:
    """An open question with its choices, or the call that waits for an approval."""
    if body.HasField("approval"):
        call = body.approval
        yield f"? may {_asking(body, view)} call {call.tool_name} {one_line(call.arguments_json, _MOST_ARGUMENTS)}"
    else:
        yield f"? {clean(body.question)}"
    for number, choice in enumerate(body.choices, start=1):
        yield f"  {number}  {clean(choice)}{_MEANINGS.get(choice, '') if body.HasField('approval') else ''}"
    if body.HasField("expire_time"):
        yield time.strftime("  (until %a %H:%M)", time.localtime(body.expire_time.seconds))


def _asking(body: ClarifyBody, view: SessionView) -> str:
    """Agent and subagent, as far as they are known."""
    agent = one_line(body.agent_name, _NAME_WIDTH) or "the agent"
    if not body.task_id:
        return agent
    items = (item for entry in view.batches() for item in batch_of(entry).items)
    name = next((one_line(item.name, _NAME_WIDTH) for item in items if item.task_id == body.task_id), "")
    return f"{agent} in subagent [{name}]" if name else f"{agent} in a subagent"


def _took(call: ToolCallPart) -> str:
    if not (call.HasField("start_time") and call.HasField("end_time")):
        return ""
    return f" ({seconds(call.end_time) - seconds(call.start_time):.1f} s)"


_SHOWN: Mapping[str, Callable[[TurnPrinter, ChatEvent], None]] = {
    "assistant_stream_start": TurnPrinter._started,
    "assistant_stream_delta": TurnPrinter._text,
    "session_entry_updated": TurnPrinter._entry,
    "tool_call_started": TurnPrinter._call_started,
    "tool_call_completed": TurnPrinter._call_completed,
    "subagent_event": TurnPrinter._task,
    "subagent_run_completed": TurnPrinter._batch_ended,
    "clarify_request": TurnPrinter._question,
    "clarify_resolved": TurnPrinter._resolved,
    "thinking_done": TurnPrinter._thought,
    "todo_update": TurnPrinter._todos,
    "compaction_start": TurnPrinter._compacting,
    "compaction_done": TurnPrinter._compacted,
    "compaction_error": TurnPrinter._not_compacted,
    "message_receipt": TurnPrinter._receipt,
    "steer_receipt": TurnPrinter._receipt,
    "done": TurnPrinter._done,
    "error": TurnPrinter._error,
}
