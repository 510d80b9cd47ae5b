"""Cards of delegations, as a table for a terminal and as plain lines; the same from events and from the tree."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from netaclaw.session.v1.entry_pb2 import Entry, EntryKind
from netaclaw.session.v1.subagent_pb2 import SubagentBatch, SubagentTask
from netaclaw_cli.wording import FAILURE_MARK, TASK_MARKS, clean, elapsed_s, one_line, task_state, tokens

_STYLES = {
    "unknown": "dim",
    "RUNNING": "cyan",
    "COMPLETED": "green",
    "QUEUED": "dim",
    "CANCELLED": "dim",
    "PARTIAL": "yellow",
}
_SUMMARY_WIDTH = 110
_EVIDENCE_SHOWN = 3


def batch_of(entry: Entry) -> SubagentBatch:
    """The delegation that a batch or result entry holds."""
    if entry.kind == EntryKind.ENTRY_KIND_SUBAGENT_RESULT:
        return entry.subagent_result.batch
    return entry.subagent_batch.batch


def card(entry: Entry, now: float | None = None) -> RenderableType:
    """A delegation as a table; running tasks are timed to `now`."""
    batch = batch_of(entry)
    table = Table(title=Text(_title(batch)), title_justify="left", expand=True, box=SIMPLE_HEAD)
    table.add_column("", width=1)
    table.add_column("task", ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column("state", width=10)
    table.add_column("tools", justify="right", width=5)
    table.add_column("time", justify="right", width=7)
    table.add_column("tokens", justify="right", width=7)
    table.add_column("now, or its answer", ratio=3, no_wrap=True, overflow="ellipsis")
    for task in batch.items:
        state = task_state(task.state)
        table.add_row(
            *(_mark(state), one_line(task.name, 80), state, str(task.tool_call_count)),
            *(f"{elapsed_s(task, now):.1f} s", str(tokens(task.usage)), one_line(_doing(task), 160)),
            style=_STYLES.get(state, "red"),
        )
    return Group(table, *(Text(f"  {line}", style="dim") for line in _evidence(entry)))


def card_lines(entry: Entry) -> list[str]:
    """A delegation as plain lines."""
    batch = batch_of(entry)
    lines = [_title(batch)]
    for task in batch.items:
        state = task_state(task.state)
        figures = f"{task.tool_call_count} tools, {elapsed_s(task):.1f} s, {tokens(task.usage)} tokens"
        lines.append(f"  {_mark(state)} {one_line(task.name, 60)}: {state} ({figures})")
        if doing := one_line(_doing(task), _SUMMARY_WIDTH):
            lines.append(f"      {doing}")
    return lines + [f"  {line}" for line in _evidence(entry)]


def _title(batch: SubagentBatch) -> str:
    counts = batch.counts
    ended = counts.total - counts.queued - counts.running
    return f"{one_line(batch.title, 80) or 'Subagents'}: {ended} of {counts.total} ended, {tokens(batch.usage)} tokens"


def _doing(task: SubagentTask) -> str:
    return task.activity or task.summary or task.error or task.partial_text or task.goal


def _evidence(entry: Entry) -> list[str]:
    """The first facts of each task's panel, as the store projected them."""
    lines = []
    for panel in entry.subagent_projection.task_panels:
        for fact in panel.evidence_summaries[:_EVIDENCE_SHOWN]:
            lines.append(one_line(f"{panel.task.name}: {fact.title} – {fact.detail}", _SUMMARY_WIDTH))
    return lines + _diagnostics(entry)


def _diagnostics(entry: Entry) -> list[str]:
    """What a reader should know; what is said of every task is said once."""
    names = {task.name for task in batch_of(entry).items}
    said: dict[str, list[str]] = {}
    for line in entry.subagent_projection.diagnostics:
        name = next((name for name in names if line.startswith(f"{name}: ")), "")
        said.setdefault(line.removeprefix(f"{name}: "), []).append(name)
    lines = []
    for what, of in said.items():
        prefixes = ["all tasks: "] if len(of) > 1 and set(of) == names else [f"{name}: " if name else "" for name in of]
        lines += [clean(f"{prefix}{what}") for prefix in prefixes]
    return lines


def _mark(state: str) -> str:
    return TASK_MARKS.get(state, FAILURE_MARK)
