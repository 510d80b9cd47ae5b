"""The first model call is made while the turn begins; it must be the very call that the turn would make."""

from __future__ import annotations

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.agent.v1.agent_service_pb2 import ListAgentsRequest, UpdateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest, SetThinkingLevelRequest
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Reply, Text
from tests.scenarios.suites import OpenSuite


async def say(client: Client, content: str, session_id: str = "") -> tuple[str, int]:
    """Send a message; returns the session and the model calls that its usage counts."""
    answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=content))
    return answer.session_id, answer.usage.model_calls


async def change_prompt(client: Client, _session_id: str) -> None:
    (agent,) = (await client.agents.ListAgents(ListAgentsRequest())).agents
    changed = Agent(agent_id=agent.agent_id, system_prompt="Be brief.")
    mask = FieldMask(paths=["system_prompt"])
    await client.agents.UpdateAgent(UpdateAgentRequest(agent=changed, update_mask=mask, etag=agent.etag))


async def change_level(client: Client, session_id: str) -> None:
    level = ThinkingLevel.THINKING_LEVEL_HIGH
    await client.chat.SetThinkingLevel(SetThinkingLevelRequest(session_id=session_id, level=level))


@pytest.mark.parametrize("change", [change_prompt, change_level])
async def test_a_change_between_two_turns_reaches_the_next_call_and_the_dropped_one_is_counted(
    change: object, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    assert callable(change)

    async def rule(request: dict[str, object]) -> Reply:
        return Reply([Text("yes")])

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id, first = await say(client, "one")
        _, second = await say(client, "two", session_id)
        await change(client, session_id)
        _, third = await say(client, "three", session_id)
        stored = [entry for page in await suite.tree(client, session_id) for entry in page.entries]
    assert (first, second, third) == (1, 1, 2)
    told = model_server.requests[-1].body
    assert [message["content"] for message in told["messages"][-5:]] == ["one", "yes", "two", "yes", "three"]
    brief = str(told["messages"][0]["content"]).startswith("Be brief.")
    assert brief or told["reasoning_effort"] == "high"
    assert [entry.assistant.parts[0].text.text for entry in stored if entry.HasField("assistant")] == ["yes"] * 3
