"""C35, through every door: a tool that says 5 MiB, a session of 30 MiB, a message of 5 MiB; each time readers go on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import (
    ChatRequest,
    ChatResponse,
    ExecuteChatRequest,
    WatchRequest,
    WatchResponse,
    WatchTarget,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_service_pb2 import (
    GetSessionRequest,
    GetSessionResponse,
    GetSessionTreeRequest,
    GetSessionTreeResponse,
    ListSubagentEntriesRequest,
    ListSubagentEntriesResponse,
)
from netaclaw_client import Client, SessionView, equal
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.doors import Door, Refused, open_doors
from tests.scenarios.goals import CHILD_MARK
from tests.scenarios.suites import RunningSuite, in_process

MIB = 1024 * 1024
SAID = 5 * MIB
LARGEST_USER_TEXT = 256 * 1024
ENTRIES = 30 * MIB // LARGEST_USER_TEXT
CHAT, EXECUTE, WATCH = (f"/netaclaw.chat.v1.ChatService/{name}" for name in ("Chat", "ExecuteChat", "Watch"))
READS = "/netaclaw.session.v1.SessionService/"
COMMAND = Call("run_shell", json.dumps({"command": f"head -c {SAID} /dev/zero | tr '\\0' x"}))


@dataclass(frozen=True)
class Stage:
    suite: RunningSuite
    doors: Sequence[Door]
    client: Client
    agent_id: str

    async def session(self) -> str:
        """A session whose agent may run commands."""
        return await self.suite.new_session(self.client, agent_id=self.agent_id)


@pytest.fixture
async def stage(postgres_url: str, tmp_path: Path, workspace: Path, model_server: FakeOpenAI) -> AsyncIterator[Stage]:
    model_server.rule = rule
    environ = {
        "NETACLAW_OPENAI_BASE_URL": model_server.base_url,
        "NETACLAW_OPENAI_CONTEXT_WINDOW": "1000000",  # nothing is to be summed up
        "NETACLAW_WATCH_HEARTBEAT_SECONDS": "0.2",
        "NETACLAW_LOG_LEVEL": "WARNING",
    }
    async with AsyncExitStack() as stack:
        suite = await stack.enter_async_context(in_process(postgres_url, tmp_path / "data", workspace, environ))
        doors = await stack.enter_async_context(open_doors(suite, tmp_path))
        client = await stack.enter_async_context(suite.client())
        made = await client.agents.CreateAgent(CreateAgentRequest(agent=Agent(name="worker", shell_enabled=True)))
        yield Stage(suite, doors, client, made.agent.agent_id)


async def rule(request: dict[str, Any]) -> Reply:
    """The main agent delegates, then runs the command itself; its child runs it, too. Other messages are answered."""
    messages = request["messages"]
    asked = [message["content"] for message in messages if message["role"] == "user"][-1]
    results = sum(message["role"] == "tool" for message in messages)
    if CHILD_MARK in messages[0]["content"]:
        return Reply([Text("said it")] if results else [COMMAND])
    if asked != "say much":
        return Reply([Text("short")])
    delegate = Call("delegate_task", json.dumps({"goal": "say much"}))
    return Reply([[delegate], [COMMAND], [Text("done")]][results])


async def turn(door: Door, session_id: str) -> list[ChatEvent]:
    """A whole turn by one Chat call."""
    sent = ChatRequest(session_id=session_id, content="say much").SerializeToString()
    async with asyncio.timeout(60):
        return [event async for raw in door.messages(CHAT, sent) for event in ChatResponse.FromString(raw).events]


async def watched(door: Door, session_id: str, after_seq: int) -> AsyncGenerator[ChatEvent, None]:
    """What a reader gets that comes again."""
    request = WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=after_seq)])
    async with aclosing(door.messages(WATCH, request.SerializeToString())) as messages:
        async for raw in messages:
            for event in WatchResponse.FromString(raw).events:
                yield event


async def replayed(door: Door, session_id: str, after_seq: int) -> list[ChatEvent]:
    """All events from a number on, until there are no more; then the stream is left."""
    found: list[ChatEvent] = []
    async with asyncio.timeout(60), aclosing(watched(door, session_id, after_seq)) as events:
        async for event in events:
            if event.HasField("heartbeat"):
                break
            found.append(event)
    return [event for event in found if event.seq]


async def pages(door: Door, session_id: str) -> list[GetSessionTreeResponse]:
    """The session's tree."""
    found: list[GetSessionTreeResponse] = []
    while not found or found[-1].next_page_token:
        token = found[-1].next_page_token if found else ""
        request = GetSessionTreeRequest(session_id=session_id, page_token=token)
        raw = await door.ask(f"{READS}GetSessionTree", request.SerializeToString())
        found.append(GetSessionTreeResponse.FromString(raw))
    return found


def check_cut(result: str) -> None:
    """The stated rule: beginning and end are kept, with a word that says how much is missing."""
    told = re.search(r"\[… (\d+) of (\d+) bytes cut here …\]", result)
    assert told is not None, result[:200]
    assert int(told[2]) == SAID
    assert result.count("x") - result.count("exit") == SAID - int(told[1])
    assert len(result.encode()) <= 64 * 1024


async def test_output_of_5_mib_is_kept_by_rule_and_streams_in_pieces(stage: Stage) -> None:
    """Of the main agent's tool and of a child's; a reader that comes again, anywhere, gets what it does not have."""
    sessions = [await stage.session() for _ in stage.doors]
    turns = await asyncio.gather(*map(turn, stage.doors, sessions))
    for door, session_id, events in zip(stage.doors, sessions, turns, strict=True):
        assert events[-1].HasField("done"), door.name
        view = SessionView(session_id=session_id)
        assert all(view.apply(event) for event in events), door.name
        assert equal(view, SessionView.from_tree(await pages(door, session_id))) == [], door.name
        calls = [event.tool_call_completed.call for event in events if event.HasField("tool_call_completed")]
        check_cut(next(call.result.content for call in calls if call.tool_name == "run_shell"))
        check_cut(await childs_result(door, session_id, events))
        live = [event.tool_result_streamed for event in events if event.HasField("tool_result_streamed")]
        assert len(live) > 2, "in pieces, while it runs"
        numbers = [event.seq for event in events if event.seq]
        for after in (0, numbers[len(numbers) // 2], numbers[-1]):
            again = [event.seq for event in await replayed(door, session_id, after)]
            assert again == [number for number in numbers if number > after], (door.name, after)
        assert 64 * 1024 < door.largest < MIB, door.name


async def childs_result(door: Door, session_id: str, events: Sequence[ChatEvent]) -> str:
    """What the child's command has told it, by its transcript."""
    (task,) = {event.subagent_event.item.task_id for event in events if event.HasField("subagent_event")}
    request = ListSubagentEntriesRequest(session_id=session_id, task_id=task)
    raw = await door.ask(f"{READS}ListSubagentEntries", request.SerializeToString())
    messages = [entry.message for entry in ListSubagentEntriesResponse.FromString(raw).entries]
    (result,) = [part.tool_call.result.content for m in messages for part in m.parts if part.HasField("tool_call")]
    return result


async def test_a_session_of_30_mib_comes_in_pages_and_a_message_of_5_mib_is_refused_by_name(stage: Stage) -> None:
    """What is refused is not stored, and the session goes on: for readers, and for the next message."""
    session_id = await stage.session()
    first = await stage.client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="begin"))
    text = "y" * LARGEST_USER_TEXT
    for _ in range(ENTRIES):  # side by side, so that none is the context of another
        root = first.assistant_entry_id
        large = ExecuteChatRequest(session_id=session_id, content=text, leaf_entry_id=root)
        await stage.client.chat.ExecuteChat(large)
    last = 0
    for door in stage.doors:
        request = GetSessionRequest(session_id=session_id)
        session = GetSessionResponse.FromString(
            await door.ask(f"{READS}GetSession", request.SerializeToString())
        ).session
        listed = await pages(door, session_id)
        assert sum(len(entry.user.text) for page in listed for entry in page.entries) > 30 * MIB
        numbers = [event.seq for event in await replayed(door, session_id, 0)]
        assert numbers == list(range(1, session.seq + 1)), door.name

        sent = ChatRequest(session_id=session_id, content="z" * SAID).SerializeToString()
        with pytest.raises(Refused) as caught:
            await door.ask(CHAT, sent)
        assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED, door.name
        assert str(4 * MIB) in caught.value.words, (door.name, caught.value.words)

        assert await replayed(door, session_id, session.seq) == [], "nothing of it was stored"
        small = ExecuteChatRequest(session_id=session_id, content="go on", leaf_entry_id=first.assistant_entry_id)
        await door.ask(EXECUTE, small.SerializeToString())
        after = await replayed(door, session_id, session.seq)
        assert [event.seq for event in after] == list(range(session.seq + 1, session.seq + 1 + len(after)))
        assert after[-1].HasField("done"), door.name
        assert after[-1].seq > last, door.name
        last = after[-1].seq
        assert LARGEST_USER_TEXT < door.largest <= MIB, door.name
