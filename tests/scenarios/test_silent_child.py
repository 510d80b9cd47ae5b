"""A turn whose child says nothing for six minutes, and whose model thinks for 20 s before its first word, through every
door. Times are divided by NETACLAW_SILENCE_SCALE, all of them alike: heartbeats, pings, what both ends of a connection
allow, and the idle limits of both doors. `make test-silence` takes them as they are."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ChatResponse, ExecuteChatRequest, ExecuteChatResponse
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw_cli import envoy
from netaclaw_client import Client, SessionView, equal, run_turn
from netaclaw_gateway import web_server
from tests.conformance.test_cases import CHAT
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.faults.proxy import Proxy
from tests.scenarios.doors import Door, open_doors
from tests.scenarios.goals import CHILD_MARK, GOAL
from tests.scenarios.suites import RunningSuite, in_process

SCALE = float(os.environ.get("NETACLAW_SILENCE_SCALE", "36"))
SILENCE_S = 360 / SCALE
MODEL_WAIT_S = 20 / SCALE
HEARTBEAT_S = 15 / SCALE
PING_S = 30 / SCALE
WITHIN_S = SILENCE_S + MODEL_WAIT_S + 60

Request = dict[str, object]
EXECUTE = "/netaclaw.chat.v1.ChatService/ExecuteChat"


@dataclass
class Follower:
    """One reader of one turn."""

    name: str
    events: list[ChatEvent] = field(default_factory=list)
    heard: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def read(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """Read a turn to its end. Raises whatever cuts it."""
        async with asyncio.timeout(WITHIN_S), aclosing(events):
            async for event in events:
                async with self.heard:
                    self.events.append(event)
                    self.heard.notify_all()
                if event.WhichOneof("event") in ("done", "error"):
                    return
        raise AssertionError(f"{self.name}: the stream ended before its turn")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S), self.heard:
            await self.heard.wait_for(holds)

    def heartbeats(self) -> int:
        return sum(event.HasField("heartbeat") for event in self.events)

    async def until_heartbeats(self, count: int) -> None:
        await self.until(lambda: self.heartbeats() >= count)

    def child_works(self) -> bool:
        """Whether the child's silent command has begun."""
        return any(event.subagent_event.item.tool_call_count for event in self.events)


@dataclass
class Stage:
    """A scaled suite with both doors, and the roads between its services."""

    suite: RunningSuite
    doors: Sequence[Door]
    roads: dict[str, Proxy]
    workspace: Path

    async def silence(self, readers: Sequence[Follower], cut: Sequence[Proxy]) -> None:
        """Let it pass, by the heartbeats of all readers, with a cut of some roads in its middle. Every stream lives, no
        connection between services is closed, and pings have kept them open."""
        clock = asyncio.get_running_loop()
        began, heard = clock.time(), [reader.heartbeats() for reader in readers]
        accepted = {name: road.accepted for name, road in self.roads.items()}
        pieces = {name: road.pieces for name, road in self.roads.items()}
        beats = int(SILENCE_S / HEARTBEAT_S)
        for reader, before in zip(readers, heard, strict=True):
            await reader.until_heartbeats(before + beats // 2)
        for road in cut:
            road.cut()
        for reader, before in zip(readers, heard, strict=True):
            await reader.until_heartbeats(before + beats)
        lasted = clock.time() - began
        assert lasted >= 0.9 * SILENCE_S
        assert {name: road.accepted for name, road in self.roads.items()} == accepted
        for name in ("orchestrator", "runner"):
            assert self.roads[name].pieces - pieces[name] >= lasted / PING_S, name

    def release(self) -> None:
        """The child's silence is over."""
        (self.workspace / "go").touch()


@pytest.fixture
async def stage(
    postgres_url: str, tmp_path: Path, workspace: Path, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    monkeypatch.setattr(web_server, "IDLE_CLOSES_S", max(1.0, web_server.IDLE_CLOSES_S / SCALE))  # whole seconds
    monkeypatch.setattr(web_server, "UNREAD_ENDS_S", web_server.UNREAD_ENDS_S / SCALE)
    model_server.rule = rule
    environ = {
        "NETACLAW_OPENAI_BASE_URL": model_server.base_url,
        "NETACLAW_WATCH_HEARTBEAT_SECONDS": f"{HEARTBEAT_S}",
        "NETACLAW_PING_SECONDS": f"{PING_S}",
        "NETACLAW_SUBAGENT_STALL_SECONDS": "0",  # ends a child and no stream, and is not looked at here
        "NETACLAW_LOG_LEVEL": "WARNING",
    }
    roads: dict[str, Proxy] = {}
    async with AsyncExitStack() as stack:

        async def road(service: str, address: str) -> str:
            roads[service] = await stack.enter_async_context(Proxy(address))
            return roads[service].address

        suite = await stack.enter_async_context(in_process(postgres_url, tmp_path / "data", workspace, environ, road))
        idle = {"idle_s": envoy.IDLE_S / SCALE, "unread_s": envoy.UNREAD_S / SCALE}
        doors = await stack.enter_async_context(open_doors(suite, tmp_path, ping_s=PING_S, **idle))
        yield Stage(suite, doors, roads, workspace)


async def rule(request: Request) -> Reply:
    """The main agent delegates; a child thinks for a while, runs one silent command, and answers with its output."""
    messages = request["messages"]
    assert isinstance(messages, list)
    answered = [message["content"] for message in messages if message["role"] == "tool"]
    is_child = CHILD_MARK in messages[0]["content"]
    if not answered:
        await asyncio.sleep(MODEL_WAIT_S)  # the wait before the first token
        if not is_child:
            return Reply([Call("delegate_task", json.dumps({"goal": "wait for it"}))])
        assert any(str(message["content"]).startswith(GOAL) for message in messages)
        command = "until [ -e go ]; do sleep 0.05; done; echo it is there"  # says nothing until a file appears
        return Reply([Call("run_shell", json.dumps({"command": command, "timeout_s": 600}))])
    return Reply([Text(f"told: {answered[-1]}")])


async def turn(door: Door, session_id: str) -> AsyncGenerator[ChatEvent, None]:
    """The events of one Chat call, which nothing opens again."""
    sent = ChatRequest(session_id=session_id, content="go").SerializeToString()
    async with aclosing(door.messages(CHAT, sent)) as messages:
        async for message in messages:
            for event in ChatResponse.FromString(message).events:
                yield event


async def executed(door: Door, session_id: str) -> ExecuteChatResponse:
    """One ExecuteChat call: not a byte of its answer comes before the turn's end, and only pings tell of its life."""
    request = ExecuteChatRequest(session_id=session_id, content="go")
    patient = dataclasses.replace(door, wait_s=WITHIN_S)
    return ExecuteChatResponse.FromString(await patient.ask(EXECUTE, request.SerializeToString()))


@pytest.mark.timeout(2 * WITHIN_S)
async def test_a_silent_child_cuts_no_stream_and_who_is_cut_resumes(stage: Stage) -> None:
    """C29: no cut at any door, no inner connection closed; a reader whose road is cut goes on from its last number, and
    a call without a stream, which says nothing at all, has its answer."""
    suite = stage.suite
    gateway, *_, envoy_web = stage.doors
    async with suite.client() as client, AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        made = await client.agents.CreateAgent(CreateAgentRequest(agent=Agent(name="worker", shell_enabled=True)))
        sessions = [await suite.new_session(client, agent_id=made.agent.agent_id) for _ in range(10)]
        whole = [Follower(door.name) for door in stage.doors]
        resuming = [Follower("cut before the gateway"), Follower("cut before envoy")]
        for reader, door, session_id in zip(whole, stage.doors, sessions[:4], strict=True):
            tasks.create_task(reader.read(turn(door, session_id)))
        asked = [
            tasks.create_task(executed(door, session_id))
            for door, session_id in zip(stage.doors, sessions[6:], strict=True)
        ]
        roads = [await stack.enter_async_context(Proxy(door.address)) for door in (gateway, envoy_web)]
        for reader, road, session_id in zip(resuming, roads, sessions[4:6], strict=True):
            through = await stack.enter_async_context(Client(road.address))
            tasks.create_task(reader.read(run_turn(through, ChatRequest(session_id=session_id, content="go"))))
        for reader in (*whole, *resuming):
            await reader.until(reader.child_works)
        await stage.silence(whole, roads)
        assert not any(each.done() for each in asked)
        stage.release()

    for each, door in zip(asked, stage.doors, strict=True):
        assert "it is there" in each.result().final_content, door.name
    async with suite.client() as client:
        for reader, session_id in zip((*whole, *resuming), sessions[:6], strict=True):
            check(reader, await client.load(session_id))


def check(reader: Follower, stored: SessionView) -> None:
    """The whole turn, once and in order, as it is stored."""
    assert reader.events[-1].HasField("done"), reader.name
    view = SessionView(session_id=stored.session.session_id)
    for event in reader.events:
        assert view.apply(event), (reader.name, event)
    assert equal(view, stored) == [], reader.name
    answer = view.entries[reader.events[-1].done.assistant_entry_id]
    assert "it is there" in answer.assistant.parts[0].text.text, reader.name
