"""What a card shows of a SUBAGENT_BATCH or SUBAGENT_RESULT entry: a pure function of the entry.

Deterministic, and total: odd input gives odd panels and a diagnostic, never an exception. Nothing here is stored and
nobody else computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import subagent_pb2 as s

MAX_ENTRY_BYTES = 960 * 1024
"""Body and projection together: an entry always fits a message of 1 MiB with its framing."""

_CALLS = ("tool_call", "proxy_tool_call")
_RESULT = "tool_result"

ENDED = frozenset(range(s.SUBAGENT_TASK_STATE_COMPLETED, s.SUBAGENT_TASK_STATE_IN_DOUBT + 1))
"""The end states of a task."""


def project(entry: e.Entry) -> None:
    """Set the entry's subagent_projection from its body; entries of other kinds stay without one."""
    body = entry.WhichOneof("body")
    if body == "subagent_batch":
        batch = entry.subagent_batch
        projection = _projection(batch.batch.items, batch.events, batch.final_results, batch.evidence_summaries)
    elif body == "subagent_result":
        result = entry.subagent_result
        projection = _projection(
            _tasks_of(result), result.process_events, result.final_results, result.evidence_summaries
        )
        projection.diagnostics.extend(_missing_results(result))
    else:
        entry.ClearField("subagent_projection")
        return
    _fit(projection, MAX_ENTRY_BYTES - entry.ByteSize())
    entry.subagent_projection.CopyFrom(projection)


def _tasks_of(result: s.SubagentResultBody) -> Sequence[s.SubagentTask]:
    if result.batch.items:
        return result.batch.items
    return [final.task for final in result.final_results]


def _projection(
    tasks: Iterable[s.SubagentTask],
    events: Iterable[s.ProcessEvent],
    results: Iterable[s.SubagentFinalResult],
    evidence: Iterable[s.EvidenceSummary],
) -> s.SubagentProjection:
    projection = s.SubagentProjection()
    panels: dict[str, _Panel] = {}
    for task in sorted(tasks, key=lambda each: each.sort_order):
        if task.task_id not in panels:
            panels[task.task_id] = _Panel(task)
    for event in events:
        owner = panels.get(event.task_id)
        if owner is None:
            projection.process_events.append(event)
        else:
            owner.add(event)
    for final in results:
        if final.task.task_id in panels:
            panels[final.task.task_id].message.final_output = final.final_output
            panels[final.task.task_id].notes.extend(final.diagnostics)
    for fact in evidence:
        if fact.task_id in panels:
            panels[fact.task_id].message.evidence_summaries.append(fact)
    for panel in panels.values():
        projection.task_panels.append(panel.message)
        projection.diagnostics.extend(dict.fromkeys(panel.diagnostics()))
    return projection


class _Panel:
    """Collects one task's panel; tool executions stand in the order of their calls."""

    def __init__(self, task: s.SubagentTask) -> None:
        self.message = s.SubagentTaskPanel(task=task)
        self._name = task.name or task.task_id
        self._ended = task.state in ENDED
        self._executions: dict[str, s.ToolExecution] = {}
        self._unmatched: list[str] = []
        self._missing: list[str] = []
        self.notes: list[str] = []
        """What the task's result says of its run."""

    def add(self, event: s.ProcessEvent) -> None:
        if event.type in _CALLS:
            self._begin(event)
        elif event.type == _RESULT:
            self._complete(event)
        else:
            self.message.process_events.append(event)
            self._missing.extend(each for each in event.sandbox_missing if each not in self._missing)

    def _begin(self, event: s.ProcessEvent) -> None:
        known = self._executions.get(event.call_id)
        if known is not None:
            # A proxied call is reported by the worker and again where it runs: one execution, the later route.
            known.route = event.route or known.route
            return
        execution = self.message.tool_executions.add(
            call_id=event.call_id,
            tool_name=event.tool_name,
            route=event.route,
            arguments_json=event.arguments_json,
        )
        if event.HasField("time"):
            execution.start_time.CopyFrom(event.time)
        self._executions[event.call_id] = execution

    def _complete(self, event: s.ProcessEvent) -> None:
        execution = self._executions.get(event.call_id)
        if execution is None or execution.completed:
            self._unmatched.append(event.tool_name or event.call_id)
            self.message.process_events.append(event)
            return
        execution.content = event.content
        execution.is_error = event.is_error
        execution.completed = True
        if event.HasField("time"):
            execution.end_time.CopyFrom(event.time)

    def diagnostics(self) -> Iterable[str]:
        if self._missing:
            yield f"{self._name}: not in force: {', '.join(self._missing)}"
        yield from (f"{self._name}: {note}" for note in self.notes)
        for name in self._unmatched:
            yield f"{self._name}: a result of {name} has no call"
        if self._ended:
            for execution in self.message.tool_executions:
                if not execution.completed:
                    yield f"{self._name}: the call of {execution.tool_name or execution.call_id} has no result"


def _missing_results(result: s.SubagentResultBody) -> Iterable[str]:
    have = {final.task.task_id for final in result.final_results}
    for task in sorted(result.batch.items, key=lambda each: each.sort_order):
        if task.task_id not in have:
            yield f"{task.name or task.task_id}: no result was recorded"
    known = {task.task_id for task in result.batch.items}
    if known:
        for final in result.final_results:
            if final.task.task_id not in known:
                yield f"{final.task.name or final.task.task_id}: a result of a task that is not in the batch"


def _fit(projection: s.SubagentProjection, limit: int) -> None:
    """Leave out what also stands in the body until the projection fits, and say so."""
    if projection.ByteSize() <= limit:
        return
    note = "shortened: too large to show at once; the whole stands in the entry's body"
    projection.diagnostics.append(note)
    for panel in projection.task_panels:
        panel.ClearField("final_output")
        panel.ClearField("process_events")
        for execution in panel.tool_executions:
            execution.ClearField("arguments_json")
            execution.ClearField("content")
    if projection.ByteSize() > limit:
        projection.ClearField("process_events")
        for panel in projection.task_panels:
            panel.ClearField("tool_executions")
            panel.ClearField("evidence_summaries")
    if projection.ByteSize() > limit:
        projection.Clear()
        projection.diagnostics.append(note)
