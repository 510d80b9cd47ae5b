"""From a session's path to the messages that a model sees."""

from __future__ import annotations

from collections.abc import Sequence

from netaclaw.session.v1.entry_pb2 import (
    Entry,
    EntryKind,
    EntryState,
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
)

_MISSING_RESULTS = {
    ToolCallState.TOOL_CALL_STATE_PENDING: "This call never began: the turn was stopped before it.",
    ToolCallState.TOOL_CALL_STATE_WAITING: "This call never began: it waited for approval when the turn was stopped.",
    ToolCallState.TOOL_CALL_STATE_RUNNING: "This call was stopped while running and may have had effect.",
    ToolCallState.TOOL_CALL_STATE_REFUSED: "This call was refused by policy and never began.",
    ToolCallState.TOOL_CALL_STATE_IN_DOUBT: (
        "The process that ran this call died; whether it took effect is not known. It may have had effect."
    ),
}
_NEVER_BEGAN = "This call was cancelled and never began."
_LOST_RESULT = "This call ended, but its result was not kept. It may have had effect."


def build_context(path: Sequence[Entry]) -> list[Message]:
    """The messages of a path, root first, in one pass; entries are never changed.

    A compaction stands for what is before its first kept entry; of several, the last one counts. Attachments never
    enter, nor do assistant entries without text and calls, nor those whose model call has not finished. Every call has
    exactly one result. Thinking stays in parts of its own. Messages carry the id of their entry.
    """
    messages: list[Message] = []
    for entry in _kept(path):
        message = _message(entry)
        if message is not None:
            messages.append(message)
    return messages


class ContextBuilder:
    """Builds the contexts of one session, whose path mostly grows: what was built is kept, so that a longer path costs
    only what it has more. Not for concurrent use."""

    def __init__(self) -> None:
        self._count = 0
        self._last: Entry | None = None
        self._messages: list[Message] = []

    def build(self, path: Sequence[Entry]) -> list[Message]:
        """As build_context, in a list of the caller's own; messages are shared and are treated as frozen.

        What was built is taken where the path leads through the same entry at the same place: an entry has one way to
        the root, and entries on a path do not change any more.
        """
        known = self._count
        grows = 0 < known <= len(path) and path[known - 1] is self._last
        new = path[known:] if grows else path
        if grows and not any(_is_compaction(entry) for entry in new):
            self._messages.extend(message for entry in new if (message := _message(entry)) is not None)
        else:
            self._messages = build_context(path)
        if path and path[-1].state != EntryState.ENTRY_STATE_STREAMING:
            self._count, self._last = len(path), path[-1]
        else:  # an unfinished entry will say more
            self._count, self._last = 0, None
        return list(self._messages)


def missing_result(call: ToolCallPart) -> str:
    """What a model is told about a call that has no result: the truth about whether it began."""
    if call.state == ToolCallState.TOOL_CALL_STATE_CANCELLED:
        began = call.HasField("start_time")
        return _MISSING_RESULTS[ToolCallState.TOOL_CALL_STATE_RUNNING] if began else _NEVER_BEGAN
    return _MISSING_RESULTS.get(call.state, _LOST_RESULT)


def _kept(path: Sequence[Entry]) -> list[Entry]:
    """The last compaction, then what it keeps, then what follows it; the whole path when there is none."""
    at = next((index for index in range(len(path) - 1, -1, -1) if _is_compaction(path[index])), None)
    if at is None:
        return list(path)
    first_kept = path[at].compaction.first_kept_entry_id
    # An id that is not before the compaction keeps nothing: the summary stands for all of it.
    start = next((index for index in range(at) if path[index].entry_id == first_kept), at)
    # An older compaction among the kept entries is part of what the last one summed up.
    kept = [entry for entry in path[start:at] if not _is_compaction(entry)]
    return [path[at], *kept, *path[at + 1 :]]


def _is_compaction(entry: Entry) -> bool:
    return entry.kind == EntryKind.ENTRY_KIND_COMPACTION


def _message(entry: Entry) -> Message | None:
    if entry.kind == EntryKind.ENTRY_KIND_USER:
        return _user(entry, entry.user.text) if entry.user.text else None
    if entry.kind == EntryKind.ENTRY_KIND_ASSISTANT:
        return _assistant(entry)
    if entry.kind == EntryKind.ENTRY_KIND_COMPACTION:
        return _user(entry, f"Summary of the conversation so far:\n\n{entry.compaction.summary}")
    if entry.kind == EntryKind.ENTRY_KIND_BRANCH_SUMMARY:
        return _user(
            entry, f"Summary of a branch of this conversation that was left:\n\n{entry.branch_summary.summary}"
        )
    return None


def _user(entry: Entry, text: str) -> Message:
    part = Part(text=TextPart(text=text))
    return Message(role=MessageRole.MESSAGE_ROLE_USER, parts=[part], entry_id=entry.entry_id)


def _assistant(entry: Entry) -> Message | None:
    body = entry.assistant
    kinds = [part.WhichOneof("part") for part in body.parts]
    has_calls = "tool_call" in kinds
    # Calls enter an entry when its model call has finished; without them a streaming entry is a placeholder.
    if entry.state == EntryState.ENTRY_STATE_STREAMING and not has_calls:
        return None
    if not has_calls and not any(part.text.text for part in body.parts if part.HasField("text")):
        return None
    message = Message(
        role=MessageRole.MESSAGE_ROLE_ASSISTANT,
        finish_reason=body.finish_reason,
        model=body.model,
        entry_id=entry.entry_id,
    )
    if body.HasField("usage"):
        message.usage.CopyFrom(body.usage)
    for part, kind in zip(body.parts, kinds, strict=True):
        if kind in ("text", "thinking", "tool_call"):
            added = message.parts.add()
            added.CopyFrom(part)
            if kind == "tool_call" and not part.tool_call.HasField("result"):
                added.tool_call.result.content = missing_result(part.tool_call)
                added.tool_call.result.is_error = True
    return message
