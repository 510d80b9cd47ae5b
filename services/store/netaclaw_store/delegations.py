"""Batch and result entries, filled from the rows of their delegation: tasks, outcomes and process events.

The stored body of such an entry names its batch and no more. Everything shown is bounded by the number of tasks, so
that an entry with its projection fits a message; the whole is read by GetSubagentResult and ListProcessEvents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import asyncpg

from netaclaw.chat.v1.event_pb2 import SubagentEvent
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.entry_pb2 import (
    ENTRY_KIND_SUBAGENT_BATCH,
    ENTRY_KIND_SUBAGENT_RESULT,
    ENTRY_STATE_COMPLETE,
    ENTRY_STATE_STREAMING,
    Entry,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_store.codec import Row
from netaclaw_store.projection import ENDED
from netaclaw_store.queries import SQL

SHOWN_EVENTS = 200
"""Process events that an entry shows: the last ones."""
_SHOWN_BYTES = 384 * 1024
"""What the texts of all tasks may take, and the results of all tasks; each has an equal share of it."""
_MOST, _LEAST = 64 * 1024, 4 * 1024

VIEW_KINDS = frozenset({ENTRY_KIND_SUBAGENT_BATCH, ENTRY_KIND_SUBAGENT_RESULT})
"""Entries that are filled from rows."""
_TASK_SHARES = {"error": 8, "goal": 8, "context": 8, "summary": 3, "partial_text": 4}
"""Of a task's share, the part that each of its texts may have: one divided by this."""


@dataclass(slots=True)
class Delegation:
    """A batch as its rows have it."""

    batch: s.SubagentBatch
    """Whole; its title is not in the rows."""
    outcome: s.SubagentResultBody = field(default_factory=s.SubagentResultBody)
    """Final results and evidence of the tasks that ended, in task order, whole."""
    events: list[s.ProcessEvent] = field(default_factory=list)
    """The last SHOWN_EVENTS."""
    event_count: int = 0


def batch_id_of(entry: Entry) -> str:
    """The batch that the entry is a view of; empty for entries of other kinds."""
    if entry.kind == ENTRY_KIND_SUBAGENT_BATCH:
        return entry.entry_id
    return entry.subagent_result.batch_entry_id if entry.kind == ENTRY_KIND_SUBAGENT_RESULT else ""


async def load(connection: asyncpg.Connection, session_id: str, batch_ids: Iterable[str]) -> dict[str, Delegation]:
    """Delegations by the id of their batch entry; those without rows are left out."""
    ids = list(dict.fromkeys(each for each in batch_ids if each))
    found: dict[str, Delegation] = {}
    if not ids:
        return found
    for row in await connection.fetch(SQL["delegated_tasks"], session_id, ids):
        batch_id = row["batch_entry_id"]
        if batch_id not in found:
            found[batch_id] = Delegation(_header(batch_id, row))
        found[batch_id].batch.items.add().MergeFromString(row["task"])
        if row["outcome"]:
            found[batch_id].outcome.MergeFromString(row["outcome"])  # concatenates the lists
    for row in await connection.fetch(SQL["last_steps"], session_id, ids, SHOWN_EVENTS):
        delegation = found.get(row["batch_entry_id"])
        if delegation is not None:
            delegation.events.append(s.ProcessEvent.FromString(row["body"]))
            delegation.event_count = row["n"] + 1
    for delegation in found.values():
        set_sums(delegation.batch)
    return found


async def fill(connection: asyncpg.Connection, session_id: str, entries: Sequence[Entry]) -> None:
    """Fill the batch and result entries among these, as the rows stand."""
    loaded = await load(connection, session_id, (batch_id_of(entry) for entry in entries))
    for entry in entries:
        delegation = loaded.get(batch_id_of(entry))
        if delegation is not None:
            fill_entry(entry, delegation)


def fill_entry(entry: Entry, delegation: Delegation) -> None:
    """Show a delegation in its batch or result entry. An entry of another kind stays as it is."""
    if entry.kind == ENTRY_KIND_SUBAGENT_BATCH:
        body = entry.subagent_batch
        title = body.batch.title
        body.Clear()
        body.batch.CopyFrom(shown_batch(delegation.batch, title))
        body.events.extend(delegation.events)
        if delegation.events:
            body.latest_event.CopyFrom(delegation.events[-1])
        body.process_event_count = delegation.event_count
        body.final_results.extend(_shown_results(delegation, body.batch))
        body.evidence_summaries.extend(delegation.outcome.evidence_summaries)
    elif entry.kind == ENTRY_KIND_SUBAGENT_RESULT:
        result = entry.subagent_result
        title = result.batch.title
        result.Clear()
        result.batch_entry_id = delegation.batch.batch_entry_id
        result.batch.CopyFrom(shown_batch(delegation.batch, title))
        result.final_results.extend(_shown_results(delegation, result.batch))
        result.evidence_summaries.extend(delegation.outcome.evidence_summaries)
        result.process_events.extend(delegation.events)
        result.process_event_count = delegation.event_count


def restored(session_id: str, anchor: Entry, delegation: Delegation) -> Entry:
    """A batch entry made from rows alone, for an anchor that refers to one that is not there."""
    batch = delegation.batch
    running = any(task.state not in ENDED for task in batch.items)
    entry = Entry(
        entry_id=batch.batch_entry_id,
        session_id=session_id,
        parent_entry_id=anchor.entry_id,
        turn_id=anchor.turn_id,
        kind=ENTRY_KIND_SUBAGENT_BATCH,
        state=ENTRY_STATE_STREAMING if running else ENTRY_STATE_COMPLETE,
        tool_call_id=batch.tool_call_id,
        updated_seq=anchor.updated_seq,
        create_time=anchor.create_time,
        update_time=anchor.update_time,
    )
    entry.subagent_batch.batch.title = batch.items[0].name if len(batch.items) == 1 else f"{len(batch.items)} tasks"
    fill_entry(entry, delegation)
    return entry


def shown_batch(batch: s.SubagentBatch, title: str) -> s.SubagentBatch:
    """The batch as entries and events show it."""
    shown = s.SubagentBatch()
    shown.CopyFrom(batch)
    shown.title = title
    for task in shown.items:
        shorten_task(task, len(shown.items))
    return shown


def shorten_task(task: s.SubagentTask, total: int) -> None:
    """Make previews of the task's texts, for a batch of `total` tasks."""
    share = _share(total)
    for name, part in _TASK_SHARES.items():
        text = getattr(task, name)
        if len(text) * 4 > share // part:  # only then it can be too long
            setattr(task, name, preview(text, share // part))


def complete_step(event: SubagentEvent, write: j.SubagentTaskWrite) -> None:
    """Give a reported step the task, as its row is written, and what the task left behind."""
    total = event.counts.total
    event.item.CopyFrom(write.task)
    shorten_task(event.item, total)
    if event.HasField("result") and write.HasField("result"):
        event.result.CopyFrom(shown_result(write.result, event.item, total))
        event.result.resume_handle = write.task.task_id
        del event.evidence_summaries[:]  # those of an attempt that lost a race
        event.evidence_summaries.extend(write.evidence_summaries)


def set_sums(batch: s.SubagentBatch) -> None:
    """Counts per state and the sum of usage, from the batch's tasks."""
    counts = batch.counts
    counts.Clear()
    counts.total = len(batch.items)
    batch.usage.Clear()
    for task in batch.items:
        name = _STATE_FIELDS.get(task.state)
        if name is not None:
            setattr(counts, name, getattr(counts, name) + 1)
        for usage_field in _USAGE_FIELDS:
            setattr(batch.usage, usage_field, getattr(batch.usage, usage_field) + getattr(task.usage, usage_field))


def preview(text: str, limit: int) -> str:
    """The text, or its first `limit` bytes of UTF-8 with a mark that there is more."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"


def _header(batch_id: str, row: Row) -> s.SubagentBatch:
    return s.SubagentBatch(
        parent_entry_id=row["parent_entry_id"], batch_entry_id=batch_id, tool_call_id=row["tool_call_id"]
    )


def _shown_results(delegation: Delegation, shown: s.SubagentBatch) -> list[s.SubagentFinalResult]:
    tasks = {task.task_id: task for task in shown.items}
    return [
        shown_result(final, tasks[final.resume_handle], len(shown.items))
        for final in delegation.outcome.final_results
        if final.resume_handle in tasks
    ]


def shown_result(final: s.SubagentFinalResult, task: s.SubagentTask, total: int) -> s.SubagentFinalResult:
    """The result as entries and events show it, for a batch of `total` tasks; `task` is the shown one."""
    shown = _shortened(final, total)
    shown.task.CopyFrom(s.SubagentTask(task_id=task.task_id, name=task.name, state=task.state))
    return shown


def _shortened(final: s.SubagentFinalResult, total: int) -> s.SubagentFinalResult:
    shown = s.SubagentFinalResult()
    shown.CopyFrom(final)
    shown.ClearField("task")
    share = _share(total)
    if shown.ByteSize() <= share:
        return shown
    shown.shortened = True
    shown.final_output = preview(shown.final_output, share // 2)
    shown.raw_final_content = preview(shown.raw_final_content, share // 8)
    room = share // 4 // max(len(shown.tool_results), 1)
    for result in shown.tool_results:
        result.preview = preview(result.preview, max(room, 80))
    while len(shown.tool_results) > 1 and shown.ByteSize() > share:
        del shown.tool_results[: (len(shown.tool_results) + 1) // 2]
    return shown


def _share(total: int) -> int:
    return max(_LEAST, min(_MOST, _SHOWN_BYTES // max(total, 1)))


_STATE_FIELDS: Mapping[int, str] = {
    value.number: value.name.removeprefix("SUBAGENT_TASK_STATE_").lower()
    for value in s.SubagentTaskState.DESCRIPTOR.values
    if value.number
}
_USAGE_FIELDS = tuple(each.name for each in Usage.DESCRIPTOR.fields)
