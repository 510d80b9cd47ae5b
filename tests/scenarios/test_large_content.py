"""Texts that rest apart from their entry: what models read of them, and where they go."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.session.v1.session_command_service_pb2 import DeleteBranchRequest, ForkSessionRequest
from netaclaw_client import read_content
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Thinking
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite

LARGE = "漢字" * 100_000
"""600,000 bytes."""
REASONING = "因" * 100_000


def settings(model: FakeOpenAI) -> dict[str, str]:
    """A window that the large text fits into: nothing is to be summed up."""
    return {"NETACLAW_OPENAI_BASE_URL": model.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": "1000000"}


async def test_a_large_answer_reaches_the_model_whole_and_goes_where_its_entry_goes(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C46: what rests apart is read back for the next model call, is copied with a fork and deleted with its branch."""

    async def rule(request: dict[str, Any]) -> Reply:
        first = sum(message["role"] == "user" for message in request["messages"]) == 1
        return Reply([Text(LARGE)] if first else [Text("short")])

    model_server.rule = rule
    async with (
        open_suite("in_process", **settings(model_server)) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="one"))
        leaf = answer.assistant_entry_id
        # From a node: the path comes from the store, not from memory.
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="two", leaf_entry_id=leaf))
        asked = model_server.requests[-1].body["messages"]
        assert [m["content"] for m in asked if m["role"] == "assistant"] == [LARGE]
        assert answer.final_content == LARGE[: 512 * 1024 // 3]

        copy = (await client.commands.ForkSession(ForkSessionRequest(session_id=session_id))).session
        (name,) = [
            part.text.content_id
            for page in await suite.tree(client, copy.session_id)
            for entry in page.entries
            for part in entry.assistant.parts
            if part.text.content_id
        ]
        await client.commands.DeleteBranch(DeleteBranchRequest(session_id=session_id, entry_id=leaf))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_content(client, session_id, name)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert await read_content(client, copy.session_id, name) == LARGE


async def test_whoever_takes_a_turn_over_reads_large_texts_whole(
    open_suite: OpenSuite, model_server: FakeOpenAI, workspace: Path
) -> None:
    """The owner dies while a call runs, behind a large answer with large reasoning; the turn goes on elsewhere."""
    command = {"command": "echo ran >> ran.txt; exec sleep 300"}

    async def rule(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return Reply([Text("went on")])
        return Reply([Thinking(REASONING), Text(LARGE), Call("run_shell", json.dumps(command))])

    model_server.rule = rule
    settings = {"NETACLAW_LEASE_SECONDS": "2", "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        agent = Agent(name="worker", shell_enabled=True)
        made = await client.agents.CreateAgent(CreateAgentRequest(agent=agent))
        session_id = await suite.new_session(client, agent_id=made.agent.agent_id)
        async with followers(session_id, suite) as (follower,):
            events = chat(client, ChatRequest(session_id=session_id, content="go"))
            await until(events, "tool_call_started")
            async with asyncio.timeout(20):
                ran = workspace / "ran.txt"
                while not (ran.exists() and ran.read_text()):  # noqa: ASYNC110  # a process of its own writes it
                    await asyncio.sleep(0.02)  # nobody tells of it
            suite.kill("orchestrator")
            await events.aclose()
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            first, *_ = [entry for entry in follower.view.entries.values() if entry.HasField("assistant")]
            thinking, text = first.assistant.parts[0].thinking, first.assistant.parts[1].text
            for part, whole in ((thinking, REASONING), (text, LARGE)):
                assert part.size_bytes == len(whole.encode()) > len(part.text.encode())
                assert await read_content(client, session_id, part.content_id) == whole
    (assistant,) = [m for m in model_server.requests[-1].body["messages"] if m["role"] == "assistant"]
    assert assistant["content"] == LARGE
