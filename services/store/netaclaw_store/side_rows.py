"""Rows that a batch writes beside entries and events: tasks, children's transcripts, large content."""

from __future__ import annotations

import json

import asyncpg
from google.protobuf.json_format import MessageToDict

from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.session.v1.subagent_pb2 import SubagentSource, SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_store.codec import moment, storable
from netaclaw_store.queries import SQL

_JSON_NUL = "\\u0000"


async def write_side_rows(connection: asyncpg.Connection, request: j.AppendRequest, owner_id: str) -> None:
    """Write them in order, within the batch's transaction."""
    session_id = request.session_id
    for write in request.writes:
        kind = write.WhichOneof("write")
        if kind == "subagent_task":
            await connection.execute(SQL["upsert_task"], *task_row(session_id, owner_id, write.subagent_task))
        elif kind == "subagent_entry":
            child = write.subagent_entry
            message = child.message.SerializeToString()
            await connection.execute(
                SQL["upsert_subagent_entry"], session_id, child.task_id, child.n, owner_id, message
            )
        elif kind == "content":
            large = write.content
            await connection.execute(
                SQL["append_content"], session_id, large.content_id, owner_id, large.entry_id, large.text.encode()
            )


def task_row(session_id: str, owner_id: str, write: j.SubagentTaskWrite) -> tuple[object, ...]:
    """Parameters of `upsert_task`: the columns of the source design, and the exact task."""
    task = write.task
    result = None
    if write.HasField("result"):
        result = storable(_json(MessageToDict(write.result, preserving_proto_field_name=True)))
    return (
        *(session_id, task.task_id, owner_id, write.parent_entry_id, write.tool_call_id, write.parent_agent_id),
        *(write.batch_entry_id, source_name(task), task.preset_agent_id, storable(task.name), storable(task.goal)),
        *(storable(task.context), status_name(task), task.model, _json(list(task.tool_names))),
        *(storable(task.summary), result, storable(task.error), usage_json(task.usage), task.sort_order),
        moment(task.start_time) if task.HasField("start_time") else None,
        moment(task.end_time) if task.HasField("end_time") else None,
        task.SerializeToString(),
    )


def status_name(task: SubagentTask) -> str:
    """The state as the column spells it: queued, running, completed and so on."""
    return _short(SubagentTaskState.Name, task.state, "SUBAGENT_TASK_STATE_")


def source_name(task: SubagentTask) -> str:
    """preset or clone."""
    return _short(SubagentSource.Name, task.source_type, "SUBAGENT_SOURCE_")


def usage_json(usage: Usage) -> str:
    """Token usage with the keys of the source design first."""
    return _json(
        {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cachedInputTokens": usage.cached_input_tokens,
            "reasoningTokens": usage.reasoning_tokens,
            "modelCalls": usage.model_calls,
            "costMicros": usage.cost_micros,
        }
    )


def entry_usage(entry: Entry) -> str | None:
    """Token usage of an assistant entry, if it has any."""
    if entry.WhichOneof("body") != "assistant" or not entry.assistant.HasField("usage"):
        return None
    return usage_json(entry.assistant.usage)


def _short(name: object, value: int, prefix: str) -> str:
    try:
        return str(name(value)).removeprefix(prefix).lower()  # type: ignore[operator]  # an enum's Name
    except ValueError:
        return "unspecified"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace(_JSON_NUL, "�")
