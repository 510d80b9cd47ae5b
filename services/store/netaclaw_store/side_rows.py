"""Rows that a batch writes beside entries and events: tasks, children's transcripts, large content."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import asyncpg
from google.protobuf.json_format import MessageToDict

from netaclaw.session.v1.subagent_pb2 import (
    SubagentFinalResult,
    SubagentResultBody,
    SubagentSource,
    SubagentTask,
    SubagentTaskState,
)
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_store.batch import Part, StepRow
from netaclaw_store.codec import moment, storable
from netaclaw_store.projection import ENDED
from netaclaw_store.queries import SQL
from netaclaw_store.usage_columns import usage_json

_JSON_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""NUL as JSON escapes it. Behind an odd number of backslashes the same letters are a text that speaks of it."""


async def write_side_rows(
    connection: asyncpg.Connection, session_id: str, owner_id: str, parts: Sequence[Part]
) -> None:
    """Write them within the batch's transaction; of several writes of a row the last one that may stand."""
    tasks: dict[str, j.SubagentTaskWrite] = {}
    steps: list[StepRow] = []
    transcripts: dict[str, _Transcript] = {}
    for kind, body in parts:
        if kind == "subagent_task":
            _take(tasks, body)
        elif kind == "process_event":
            steps.append(body)
        elif kind == "subagent_entry":
            transcripts.setdefault(body.task_id, _Transcript()).add(body)
        elif kind == "content":
            names = (session_id, body.content_id, owner_id, body.entry_id)
            await connection.execute(SQL["append_content"], *names, body.text.encode())
    if tasks:
        columns = zip(*(_task_columns(write) for write in tasks.values()), strict=True)
        await connection.execute(SQL["upsert_tasks"], session_id, owner_id, *(list(column) for column in columns))
    await _write_transcripts(connection, session_id, owner_id, transcripts)
    if steps:
        await connection.execute(
            SQL["insert_steps"],
            *(session_id, owner_id, [step.batch_entry_id for step in steps], [step.n for step in steps]),
            *([step.task_id for step in steps], [step.body for step in steps]),
        )


@dataclass(slots=True)
class _Transcript:
    """What a batch writes of one child's transcript."""

    messages: dict[int, j.SubagentEntryWrite] = field(default_factory=dict)
    cut_after: int | None = None
    """Messages behind this place, written before the batch, go."""

    def add(self, write: j.SubagentEntryWrite) -> None:
        if write.is_last:
            self.cut_after = write.n
            self.messages = {n: each for n, each in self.messages.items() if n < write.n}
        self.messages[write.n] = write


async def _write_transcripts(
    connection: asyncpg.Connection, session_id: str, owner_id: str, transcripts: Mapping[str, _Transcript]
) -> None:
    cut = {task_id: each.cut_after for task_id, each in transcripts.items() if each.cut_after is not None}
    if cut:
        await connection.execute(SQL["cut_transcripts"], session_id, list(cut), list(cut.values()))
    writes = [write for each in transcripts.values() for write in each.messages.values()]
    if writes:
        await connection.execute(
            SQL["upsert_subagent_entries"],
            *(session_id, owner_id, [write.task_id for write in writes], [write.n for write in writes]),
            [write.message.SerializeToString() for write in writes],
        )


def _take(tasks: dict[str, j.SubagentTaskWrite], write: j.SubagentTaskWrite) -> None:
    """The first end state wins here, too."""
    before = tasks.get(write.task.task_id)
    if before is None or before.task.state not in ENDED or before.task.state == write.task.state:
        tasks[write.task.task_id] = write


def _task_columns(write: j.SubagentTaskWrite) -> tuple[object, ...]:
    """A row of `upsert_tasks`: the columns of the source design, the exact task, and what it left behind."""
    task = write.task
    result = outcome = None
    if write.HasField("result"):
        final = SubagentFinalResult()
        final.CopyFrom(write.result)
        final.ClearField("task")
        result = storable(_json(MessageToDict(final, preserving_proto_field_name=True)))
        final.resume_handle = task.task_id
        body = SubagentResultBody(final_results=[final], evidence_summaries=write.evidence_summaries)
        outcome = body.SerializeToString()
    return (
        *(task.task_id, write.parent_entry_id, write.tool_call_id, write.parent_agent_id),
        *(write.batch_entry_id, source_name(task), task.preset_agent_id, storable(task.name), storable(task.goal)),
        *(storable(task.context), status_name(task), task.model, _json(list(task.tool_names))),
        *(storable(task.summary), result, storable(task.error), usage_json(task.usage), task.sort_order),
        moment(task.start_time) if task.HasField("start_time") else None,
        moment(task.end_time) if task.HasField("end_time") else None,
        task.SerializeToString(),
        outcome,
    )


def status_name(task: SubagentTask) -> str:
    """The state as the column spells it: queued, running, completed and so on."""
    return _short(SubagentTaskState.Name, task.state, "SUBAGENT_TASK_STATE_")


def source_name(task: SubagentTask) -> str:
    """preset or clone."""
    return _short(SubagentSource.Name, task.source_type, "SUBAGENT_SOURCE_")


def _short(name: object, value: int, prefix: str) -> str:
    try:
        return str(name(value)).removeprefix(prefix).lower()  # type: ignore[operator]  # an enum's Name
    except ValueError:
        return "unspecified"


def _json(value: object) -> str:
    return _JSON_NUL.sub(r"\1�", json.dumps(value, ensure_ascii=False))
