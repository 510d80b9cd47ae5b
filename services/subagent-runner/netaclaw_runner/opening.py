"""How a task's conversation begins: the worker says it, and the runner knows it before."""

from __future__ import annotations

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw_agent.guidance import subagent_user_message
from netaclaw_agent.loop import user_message


def opening(envelope: SubagentTaskEnvelope) -> list[Message]:
    """The messages of the first model request: the history, and the task as a user message."""
    return [*envelope.history, user_message(subagent_user_message(envelope.task.goal, envelope.task.context))]


def for_worker(envelope: SubagentTaskEnvelope) -> SubagentTaskEnvelope:
    """The task line, without what is no concern of the worker's."""
    task = SubagentTaskEnvelope()
    task.CopyFrom(envelope)
    task.ClearField("owner_id")
    task.task.ClearField("tool_runtime_routes")  # they stand in its policy
    return task
