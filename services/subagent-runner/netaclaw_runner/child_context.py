"""What a child's model gets to see of its transcript: all of it, until it becomes too large for the model's window.

Then a model call sums up its beginning, by the rules of a session's compaction. Worker and caller keep the transcript
whole; only what is sent is shorter: the goal as it was given, the summary, and the recent messages as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing

from netaclaw.session.v1.entry_pb2 import (
    AssistantBody,
    CompactionBody,
    Entry,
    EntryKind,
    EntryState,
    Message,
    MessageRole,
    UserBody,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1.runner_service_pb2 import RunCompaction, RunEvent
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.compaction import (
    Cut,
    Guard,
    NothingToCompact,
    context_tokens,
    find_cut,
    finished_summary,
    is_due,
    recent_tokens,
    summary_call,
)
from netaclaw_agent.loop import text_of, user_message
from netaclaw_agent.model import Finished, Model, ModelError, NewId
from netaclaw_runner.run_parts import RunVoice

_CUT_CALL = Usage(model_calls=1, estimated_calls=1)
"""What is known of the cost of a call for a summary that was cut."""


class ChildContext:
    """One child's. Its methods are for the one call that runs at a time."""

    def __init__(
        self,
        run: RunVoice,
        model: Model,
        system: str,
        tools: Sequence[ToolManifest],
        *,
        goal_at: int,
        threshold: float,
        account: Callable[[Usage], None],
        new_id: NewId,
    ) -> None:
        """`goal_at`: place of the message with the goal. `threshold`: part of the model's window from which on it is
        compacted; 0 leaves that to an overflow. `account` is told what a summary has cost."""
        self._run = run
        self._model = model
        self._system = system
        self._tools = tools
        self._goal_at = goal_at
        self._threshold = threshold
        self._account = account
        self._new_id = new_id
        self._guard = Guard()
        self._entries: list[tuple[Message, Entry]] = []
        """What was made of each message; a message that changes is another one."""
        self._made = 0
        self._compaction: Entry | None = None
        self._made_at = 0
        """How many messages the transcript had when the last compaction was made."""

    def is_due(self, messages: Sequence[Message]) -> bool:
        """Whether the next model call is to be preceded by a compaction."""
        if not self._threshold:
            return False
        window = self._model.context_window
        size = context_tokens(self._path(messages), self._system, self._tools)
        return is_due(size, window, self._threshold) and self._guard.may_compact(size, window)

    async def prepared(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages as the model is to see them, compacted before where that is due."""
        if self.is_due(messages):
            path = self._path(messages)
            size = context_tokens(path, self._system, self._tools)
            self._guard.tried(size)
            try:
                cut = find_cut(path, self._model.context_window)
            except NothingToCompact as nothing:
                self._tell(RunCompaction(error=str(nothing)))
            else:
                body = await self._compact(cut, len(messages))
                if body is not None:
                    self._guard.tried(size - body.tokens_before + body.tokens_after)
        return self._shown(messages)

    async def shortened(self, messages: Sequence[Message]) -> tuple[Message, ...] | None:
        """The messages after the provider has found them too long, whatever window and counts say; None when nothing
        can be cut off, or the summary failed."""
        path = self._path(messages)
        window = self._model.context_window
        try:
            cut = find_cut(path, window, kept_tokens=recent_tokens(path, window))
        except NothingToCompact:
            return None
        return self._shown(messages) if await self._compact(cut, len(messages)) is not None else None

    async def _compact(self, cut: Cut, made_at: int) -> CompactionBody | None:
        """Make it and tell of it, or tell why there is none."""
        try:
            text = await self._summary(cut)
            body = cut.body(finished_summary(text, cut))
        except (ModelError, NothingToCompact) as error:
            self._tell(RunCompaction(tokens_before=cut.tokens_before, error=str(error)))
            return None
        self._compaction = Entry(kind=EntryKind.ENTRY_KIND_COMPACTION, compaction=body)
        self._made_at = made_at
        self._tell(
            RunCompaction(summary=body.summary, tokens_before=body.tokens_before, tokens_after=body.tokens_after)
        )
        return body

    async def _summary(self, cut: Cut) -> str:
        """Raises ModelError. Its cost is counted in any case."""
        call = summary_call(cut, self._model.context_window)
        spent, text = _CUT_CALL, ""
        try:
            async with aclosing(self._model.stream(call, new_id=self._new_id)) as events:  # type: ignore[type-var]  # a generator
                async for event in events:
                    self._run.progress()
                    if isinstance(event, Finished):
                        spent, text = event.message.usage, text_of(event.message)
        except ModelError as error:
            spent = error.usage
            raise
        finally:
            self._account(spent)
        return text

    def _tell(self, made: RunCompaction) -> None:
        self._made += 1
        made.n = self._made
        self._run.emit(RunEvent(compaction=made))

    def _shown(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        if self._compaction is None:
            return tuple(messages)
        body = self._compaction.compaction
        kept = int(body.first_kept_entry_id)
        summary = f"Summary of the conversation so far:\n\n{body.summary}"
        if kept > self._goal_at:
            summary = f"{text_of(messages[self._goal_at])}\n\n{summary}"
        return (user_message(summary), *messages[kept:])

    def _path(self, messages: Sequence[Message]) -> list[Entry]:
        """The transcript as a session's path, so that the same rules apply; ids are places."""
        known = self._entries
        self._entries = [
            known[place] if place < len(known) and known[place][0] is message else (message, _entry(place, message))
            for place, message in enumerate(messages)
        ]
        path = [entry for _, entry in self._entries]
        if self._compaction is not None:
            path.insert(self._made_at, self._compaction)
        return path


def _entry(place: int, message: Message) -> Entry:
    entry = Entry(entry_id=str(place), state=EntryState.ENTRY_STATE_COMPLETE)
    if message.role == MessageRole.MESSAGE_ROLE_USER:
        entry.kind = EntryKind.ENTRY_KIND_USER
        entry.user.CopyFrom(UserBody(text=text_of(message)))
    else:
        entry.kind = EntryKind.ENTRY_KIND_ASSISTANT
        entry.assistant.CopyFrom(
            AssistantBody(parts=message.parts, usage=message.usage, finish_reason=message.finish_reason)
        )
    return entry
