"""Reading event streams in scenarios."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, WatchRequest, WatchTarget
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw_client.client import Client


async def chat(client: Client, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
    """The events of a turn."""
    async for response in client.chat.Chat(request):
        for event in response.events:
            yield event


async def watch(client: Client, session_id: str, after_seq: int = 0) -> AsyncGenerator[ChatEvent, None]:
    """A session's events, for ever."""
    request = WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=after_seq)])
    async for response in client.chat.Watch(request):
        for event in response.events:
            yield event


async def until(events: AsyncIterator[ChatEvent], kind: str, count: int = 1) -> list[ChatEvent]:
    """Read until an event of the kind came so often."""
    seen: list[ChatEvent] = []
    async for event in events:
        seen.append(event)
        if event.WhichOneof("event") == kind:
            count -= 1
            if not count:
                return seen
    raise AssertionError(f"the stream ended before {kind}, with {seen[-1] if seen else 'nothing'}")


def of_kind(events: list[ChatEvent], kind: str) -> list[ChatEvent]:
    """The events of one kind."""
    return [event for event in events if event.WhichOneof("event") == kind]


def state_name(task: SubagentTask) -> str:
    """A task's state without its prefix."""
    return SubagentTaskState.Name(task.state).removeprefix("SUBAGENT_TASK_STATE_")
