"""What the page shows of a session, and the same of what is stored."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page

from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry, EntryKind, ToolCallPart
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse
from netaclaw.session.v1.subagent_pb2 import SubagentBatch, SubagentTaskState

TASK_WORDS = {
    SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED: "queued",
    SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING: "running",
    SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED: "completed",
    SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL: "partial",
    SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT: "timedOut",
    SubagentTaskState.SUBAGENT_TASK_STATE_FAILED: "failed",
    SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED: "cancelled",
    SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT: "inDoubt",
}
_QUESTION_WORDS = {
    ClarifyState.CLARIFY_STATE_OPEN: "open",
    ClarifyState.CLARIFY_STATE_ANSWERED: "answered",
    ClarifyState.CLARIFY_STATE_EXPIRED: "expired",
    ClarifyState.CLARIFY_STATE_CLOSED: "closed",
}
_ROLES = {
    EntryKind.ENTRY_KIND_USER: "user",
    EntryKind.ENTRY_KIND_ASSISTANT: "assistant",
    EntryKind.ENTRY_KIND_COMPACTION: "summary",
    EntryKind.ENTRY_KIND_BRANCH_SUMMARY: "summary",
}
_OWN_CARDS = ("delegate_task", "delegate_parallel", "clarify")
"""Tools whose calls show as cards of another kind."""


def words(text: str) -> str:
    """Letters and digits alone, without the numbers of lists: what Markdown leaves of a text."""
    return re.sub(r"[\W_]+", "", re.sub(r"(?m)^\s*\d+\. ", "", text))


def shown(page: Page) -> list[dict[str, Any]]:
    """Messages in the page's order, each with its cards, tool calls, questions, plan and text."""
    found: list[dict[str, Any]] = page.evaluate(
        """() => [...document.querySelectorAll('[data-entry]')].map((message) => ({
            entry: message.dataset.entry,
            role: message.dataset.role ?? 'summary',
            todos: [...message.querySelectorAll('[data-todo]')].map((item) => item.dataset.todo),
            calls: [...message.querySelectorAll('.calls [data-call]')].map(({ dataset }) => dataset.call),
            batches: [...message.querySelectorAll('[data-batch]')].map((batch) => ({
                id: batch.dataset.batch,
                tasks: [...batch.querySelectorAll('[data-task]')].map(({ dataset }) => [dataset.task, dataset.state]),
            })),
            questions: [...message.querySelectorAll('[data-clarify]')].map(({ dataset }) => [
                dataset.clarify, dataset.question]),
            text: (message.querySelector(':scope > [data-content], .bubble, :scope > .prose')?.textContent ?? ''),
        }))"""
    )
    return [{**message, "text": words(message["text"])} for message in found]


def batches(page: Page) -> list[dict[str, Any]]:
    """The page's cards, in order."""
    return [batch for message in shown(page) for batch in message["batches"]]


def stored(tree: GetSessionTreeResponse) -> list[dict[str, Any]]:
    """The same of a stored session."""
    return [_message(entry, tree.entries) for entry in path_of(tree)]


def path_of(tree: GetSessionTreeResponse) -> list[Entry]:
    """The entries from the root to the leaf."""
    entries = {entry.entry_id: entry for entry in tree.entries}
    path: list[Entry] = []
    at = entries.get(tree.session.leaf_entry_id)
    while at is not None:
        path.append(at)
        at = entries.get(at.parent_entry_id)
    return path[::-1]


def _message(entry: Entry, all_entries: Any) -> dict[str, Any]:
    attached = [each for each in all_entries if each.parent_entry_id == entry.entry_id]
    parts = entry.assistant.parts
    calls = [part.tool_call for part in parts if part.HasField("tool_call")]
    questions = [each.clarify for each in attached if each.HasField("clarify")]
    with_card = {each.tool_call_id for each in attached}
    text = entry.user.text or "".join(part.text.text for part in parts)
    return {
        "entry": entry.entry_id,
        "role": _ROLES[entry.kind],
        "todos": [item.status for item in entry.assistant.todos],
        "calls": [call.call_id for call in calls if not _has_own_card(call, entry, with_card)],
        "batches": [{"id": batch.batch_entry_id, "tasks": _tasks(batch)} for batch in _batches(attached)],
        "questions": [[question.request_id, _QUESTION_WORDS[question.state]] for question in questions],
        "text": words(text or entry.compaction.summary or entry.branch_summary.summary),
    }


def _has_own_card(call: ToolCallPart, entry: Entry, with_card: set[str]) -> bool:
    if call.tool_name == "todo_write":
        return bool(entry.assistant.todos)
    return call.tool_name in _OWN_CARDS and call.call_id in with_card


def _batches(attached: list[Entry]) -> list[SubagentBatch]:
    results = {e.subagent_result.batch_entry_id: e.subagent_result.batch for e in attached}
    running = [entry for entry in attached if entry.HasField("subagent_batch")]
    return [results.get(entry.entry_id, entry.subagent_batch.batch) for entry in running]


def _tasks(batch: SubagentBatch) -> list[list[str]]:
    return [[task.task_id, TASK_WORDS[task.state]] for task in batch.items]
