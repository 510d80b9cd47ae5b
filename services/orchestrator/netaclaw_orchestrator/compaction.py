"""Compaction of a session's path: before a turn's model calls where it is due, and after an overflow.

compaction_start → model call → the empty entry that was made for the answer becomes the COMPACTION entry (one append
with compaction_done) → the answer gets a new entry behind it. An owner that dies on the way leaves the empty entry, and
the next owner starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netaclaw.chat.v1.event_pb2 import CompactionDone, CompactionError, CompactionStart
from netaclaw.session.v1.entry_pb2 import CompactionBody, Entry
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import EntryWrite, UsageWrite, Write
from netaclaw_agent.compaction import (
    THRESHOLD,
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
from netaclaw_agent.model import Model, ModelError
from netaclaw_agent.usage import add_usage
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.prelude import Prelude
from netaclaw_orchestrator.summary_call import call_for_summary

CANCELLED = "the compaction was cancelled"
CUT_CALL = Usage(model_calls=1, estimated_calls=1)
"""What is known of the cost of a call for a summary that was cut."""


class NotCompacted(Exception):
    """There is no compaction; the text says why and is safe to show."""

    def __init__(self, message: str, usage: Usage | None = None, reason: str = "NOT_COMPACTED") -> None:
        super().__init__(message)
        self.usage = usage if usage is not None else Usage()
        """What the attempt has cost."""
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for."""

    instructions: str


async def compacted(model: Model, cut: Cut, wish: Wish | None = None) -> CompactionBody:
    """Let the model sum up what is cut off. Raises NotCompacted; when cancelled, nothing has been written."""
    instructions = wish.instructions if wish is not None else ""
    try:
        summary = await call_for_summary(model, summary_call(cut, model.context_window, instructions))
    except ModelError as error:
        raise NotCompacted(f"no summary: {error}", error.usage, error.reason) from error
    try:
        text = finished_summary(summary.text, cut)
        body = cut.body(text, manual=wish is not None, instructions=instructions)
    except NothingToCompact as nothing:
        raise NotCompacted(str(nothing), summary.usage) from nothing
    body.usage.CopyFrom(summary.usage)
    return body


class Compactor:
    """Decides on one session's automatic compactions and makes them."""

    def __init__(self, threshold: float = THRESHOLD) -> None:
        """`threshold`: part of the model's window; 0 leaves only those after an overflow."""
        self._threshold = threshold
        self._guard = Guard()

    def is_due(self, path: Sequence[Entry], prelude: Prelude, window: int, more: int = 0) -> bool:
        """Whether to compact before the next model call on the path, with `more` tokens that are not in it yet."""
        if not self._threshold:
            return False
        size = context_tokens(path, prelude.system, prelude.tools) + more
        return is_due(size, window, self._threshold) and self._guard.may_compact(size, window)

    async def compact(
        self, anchor: AnchorEntry, path: Sequence[Entry], prelude: Prelude, model: Model, writer: JournalWriter
    ) -> Entry | None:
        """Turn the empty anchor behind the path into a compaction; None when it stays what it is.

        What a failed attempt has cost is added to the anchor; why it failed is told by an event, once.
        """
        size = context_tokens(path, prelude.system, prelude.tools)
        self._guard.tried(size)
        try:
            cut = find_cut(path, model.context_window)
        except NothingToCompact as nothing:
            writer.post(anchor.event_write(compaction_error=CompactionError(message=str(nothing))))
            return None
        entry = await self._run(anchor, cut, model, writer)
        if entry is not None:
            self._guard.tried(size - entry.compaction.tokens_before + entry.compaction.tokens_after)
        return entry

    async def compact_overflow(
        self, anchor: AnchorEntry, path: Sequence[Entry], model: Model, writer: JournalWriter
    ) -> Entry | None:
        """The same after a provider has refused the prompt, whatever window and counts say; silent when there is
        nothing to cut off, since the refusal itself is told."""
        try:
            cut = find_cut(path, model.context_window, kept_tokens=recent_tokens(path, model.context_window))
        except NothingToCompact:
            return None
        return await self._run(anchor, cut, model, writer)

    async def _run(self, anchor: AnchorEntry, cut: Cut, model: Model, writer: JournalWriter) -> Entry | None:
        try:
            body = await announced(writer, anchor.event_write, model, cut)
        except NotCompacted as failed:
            anchor.spent(failed.usage)
            return None
        except asyncio.CancelledError:
            anchor.spent(CUT_CALL)
            raise
        add_usage(body.usage, anchor.entry.assistant.usage)  # of attempts that overflowed
        entry = anchor.as_compaction(body)
        writer.post(Write(entry=EntryWrite(entry=entry)), anchor.event_write(compaction_done=done_event(entry)))
        return entry


async def announced(
    writer: JournalWriter, event_write: Callable[..., Write], model: Model, cut: Cut, wish: Wish | None = None
) -> CompactionBody:
    """As `compacted`, with the events of its beginning and of its failure.

    What a failed one has cost is counted here where a person asked for it, and no turn does.
    """
    manual = wish is not None
    writer.post(event_write(compaction_start=CompactionStart(manual=manual, tokens_before=cut.tokens_before)))

    def failed(why: str, spent: Usage) -> None:
        counted = [Write(usage=UsageWrite(usage=spent))] if manual else []
        writer.post(event_write(compaction_error=CompactionError(message=why)), *counted)

    try:
        return await compacted(model, cut, wish)
    except NotCompacted as error:
        failed(str(error), error.usage)
        raise
    except asyncio.CancelledError:
        failed(CANCELLED, CUT_CALL)
        raise


def done_event(entry: Entry) -> CompactionDone:
    """What is told of a compaction that is written."""
    body = entry.compaction
    return CompactionDone(
        compaction_entry_id=entry.entry_id, tokens_before=body.tokens_before, tokens_after=body.tokens_after
    )
