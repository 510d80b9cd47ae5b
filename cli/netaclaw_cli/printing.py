"""A turn as it happens, in plain text: for pipes, logs and the chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netaclaw.chat.v1.event_pb2 import ChatEvent, StreamChannel
from netaclaw.session.v1.entry_pb2 import EntryKind, EntryState, ToolCallPart
from netaclaw_cli.cards import card_lines
from netaclaw_cli.wording import call_state, clean, one_line, route, seconds, task_state
from netaclaw_client import SessionView

Write = Callable[[str], None]

_STEP_WIDTH = 100


class TurnPrinter:
    """Writes what each event adds. Give it every event after the view has taken it."""

    def __init__(self, view: SessionView, write: Write) -> None:
        self._view = view
        self._write = write
        self._shown: dict[str, str] = {}
        """Text that was written per assistant entry of this turn."""
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
        if not event.task_id and event.assistant_stream_delta.channel != StreamChannel.STREAM_CHANNEL_THINKING:
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
            self.line(f"  [{one_line(task.name, 40)}] {task_state(task.state)}")
        if step.type in ("tool_call", "proxy_tool_call"):
            detail = one_line(step.arguments_json, _STEP_WIDTH)
            self.line(f"  [{one_line(task.name, 40)}] → {step.tool_name} {detail}")

    def _batch_ended(self, event: ChatEvent) -> None:
        entry = self._view.entries.get(event.subagent_run_completed.result_entry_id)
        for line in card_lines(entry) if entry is not None else []:
            self.line(line)

    def _question(self, event: ChatEvent) -> None:
        self.line(f"? {clean(event.clarify_request.entry.clarify.question)}")

    def _done(self, event: ChatEvent) -> None:
        self._shown.clear()
        self._states.clear()

    def _error(self, event: ChatEvent) -> None:
        self._done(event)
        self.line(f"The turn failed: {clean(event.error.message)} ({event.error.reason})")


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
    "done": TurnPrinter._done,
    "error": TurnPrinter._error,
}
