"""The assistant entry that a turn is writing: its content, and the writes and events that report on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import (
    AssistantBody,
    BatchReferencePart,
    CompactionBody,
    Entry,
    EntryKind,
    EntryState,
    Message,
    MessageRole,
    Part,
    TodoItem,
    ToolCallPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import EntryWrite, EventWrite, Write
from netaclaw_agent.usage import add_usage
from netaclaw_orchestrator.large_content import at_rest, inline_results, set_aside
from netaclaw_orchestrator.unrun import NEVER_BEGAN


class AnchorEntry:
    """Made, empty, before its model call; live events, rows and cards of that call hang on its id."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._settled = inline_results(entry)

    @property
    def entry_id(self) -> str:
        return self.entry.entry_id

    @property
    def streaming(self) -> bool:
        """Whether it is still being written."""
        return self.entry.state == EntryState.ENTRY_STATE_STREAMING

    @classmethod
    def placeholder(cls, entry_id: str, *, session_id: str, turn_id: str, parent_entry_id: str, agent_id: str) -> Self:
        """An empty entry, to be written before its model call."""
        return cls(
            Entry(
                entry_id=entry_id,
                session_id=session_id,
                parent_entry_id=parent_entry_id,
                turn_id=turn_id,
                kind=EntryKind.ENTRY_KIND_ASSISTANT,
                state=EntryState.ENTRY_STATE_STREAMING,
                assistant=AssistantBody(agent_id=agent_id, attempt=1),
            )
        )

    @property
    def attempt(self) -> int:
        """Which try of the model call this is."""
        return self.entry.assistant.attempt

    @property
    def open_calls(self) -> set[str]:
        """Ids of its calls that have no result."""
        calls = (part.tool_call for part in self.entry.assistant.parts if part.WhichOneof("part") == "tool_call")
        return {call.call_id for call in calls if not call.HasField("result")}

    def begin_again(self) -> None:
        """The model call is made once more in the same entry: its owner died in it, and what it cost died with it."""
        self.entry.assistant.attempt += 1
        self.spent(Usage(model_calls=1, estimated_calls=1))

    def spent(self, usage: Usage) -> None:
        """Add what an attempt at the model call has cost."""
        add_usage(self.entry.assistant.usage, usage)

    def message(self) -> Message:
        """The finished entry as the model's message, with the calls as they stand."""
        body = self.entry.assistant
        parts = [part for part in body.parts if part.WhichOneof("part") != "batch_reference"]
        return Message(
            role=MessageRole.MESSAGE_ROLE_ASSISTANT,
            parts=parts,
            finish_reason=body.finish_reason,
            usage=body.usage,
            model=body.model,
            entry_id=self.entry_id,
        )

    def complete(self, message: Message, agent_id: str, model: str) -> None:
        """Take the finished message."""
        body = self.entry.assistant
        del body.parts[:]
        body.parts.extend(message.parts)
        body.agent_id = agent_id
        body.model = message.model or model
        self.spent(message.usage)
        body.finish_reason = message.finish_reason
        self.entry.state = EntryState.ENTRY_STATE_COMPLETE

    def break_off(self, state: EntryState, parts: list[Part]) -> None:
        """End it unfinished, with what was streamed; a finished one stays as it is, but for calls that never began."""
        if self.streaming:
            self.entry.state = state
            del self.entry.assistant.parts[:]
            self.entry.assistant.parts.extend(parts)
        for part in self.entry.assistant.parts:
            if part.tool_call.state == ToolCallState.TOOL_CALL_STATE_PENDING:
                part.tool_call.state = ToolCallState.TOOL_CALL_STATE_CANCELLED
                part.tool_call.result.CopyFrom(ToolResult(content=NEVER_BEGAN, is_error=True))

    def as_compaction(self, body: CompactionBody) -> Entry:
        """The entry as the compaction that takes its place; the answer needs another one behind it."""
        return Entry(
            entry_id=self.entry_id,
            session_id=self.entry.session_id,
            parent_entry_id=self.entry.parent_entry_id,
            turn_id=self.entry.turn_id,
            kind=EntryKind.ENTRY_KIND_COMPACTION,
            state=EntryState.ENTRY_STATE_COMPLETE,
            compaction=body,
        )

    def call(self, call_id: str) -> ToolCallPart:
        """The part of a call, to be changed in place. Raises KeyError."""
        for part in self.entry.assistant.parts:
            if part.WhichOneof("part") == "tool_call" and part.tool_call.call_id == call_id:
                return part.tool_call
        raise KeyError(call_id)

    def write_todos(self, items: Sequence[TodoItem]) -> list[Write]:
        """Replace the todo list."""
        del self.entry.assistant.todos[:]
        self.entry.assistant.todos.extend(items)
        return self.writes()

    def attach(self, batch_entry_id: str, call_id: str) -> Write:
        """Put a delegation's card right behind its call."""
        parts = self.entry.assistant.parts
        reference = BatchReferencePart(batch_entry_id=batch_entry_id, call_id=call_id)
        if not any(part.batch_reference == reference for part in parts):
            place = next(n for n, part in enumerate(parts) if part.tool_call.call_id == call_id)
            parts.insert(place + 1, Part(batch_reference=reference))
        return self._write()

    def writes(self, *, quiet: bool = False) -> list[Write]:
        """The entry as it stands now, behind the large texts that it names for the first time."""
        contents = set_aside(self.entry, self._settled)
        self._settled = inline_results(self.entry)
        return [*contents, self._write(quiet=quiet)]

    def _write(self, *, quiet: bool = False) -> Write:
        return Write(entry=EntryWrite(entry=at_rest(self.entry), quiet=quiet))

    def event(self, **payload: object) -> ChatEvent:
        """An event that hangs on the entry; payload is one member of the event oneof."""
        return ChatEvent(
            session_id=self.entry.session_id,
            turn_id=self.entry.turn_id,
            entry_id=self.entry_id,
            **payload,  # type: ignore[arg-type]  # checked by protobuf
        )

    def event_write(self, **payload: object) -> Write:
        """The write of such an event."""
        return Write(event=EventWrite(event=self.event(**payload)))
