"""Models through the whole suite: thinking, a second provider, and what becomes of a provider's faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.agent.v1.agent_service_pb2 import ListAgentsRequest, UpdateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest, SetThinkingLevelRequest
from netaclaw.chat.v1.event_pb2 import StreamChannel, TurnOutcome
from netaclaw.session.v1.entry_pb2 import Entry, EntryState, FinishReason
from netaclaw_agent.models.http_model import HttpModel
from netaclaw_client.client import Client
from tests.fakes.anthropic_server import FakeAnthropic, Thought
from tests.fakes.openai_server import Call, Cut, FakeOpenAI, Raw, Reply, Text, Thinking, Tokens
from tests.scenarios.reading import chat, of_kind
from tests.scenarios.suites import OpenSuite, RunningSuite

THINKING = StreamChannel.STREAM_CHANNEL_THINKING


async def answers(suite: RunningSuite, client: Client, session_id: str) -> list[Entry]:
    """The stored assistant entries of a session."""
    pages = await suite.tree(client, session_id)
    return [entry for page in pages for entry in page.entries if entry.HasField("assistant")]


async def use_model(client: Client, name: str) -> None:
    """Let the default agent answer with a model."""
    await client.chat.ExecuteChat(ExecuteChatRequest(content="make the agent"))
    (agent,) = (await client.agents.ListAgents(ListAgentsRequest())).agents
    changed = Agent(agent_id=agent.agent_id, model=name)
    mask = FieldMask(paths=["model"])
    await client.agents.UpdateAgent(UpdateAgentRequest(agent=changed, update_mask=mask, etag=agent.etag))


async def test_thinking_is_asked_for_streamed_apart_and_stored(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = lambda _: Reply([Thinking("Let me "), Thinking("see."), Text("Four.")])
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        level = ThinkingLevel.THINKING_LEVEL_LOW
        await client.chat.SetThinkingLevel(SetThinkingLevelRequest(session_id=session_id, level=level))
        events = [event async for event in chat(client, ChatRequest(session_id=session_id, content="2 + 2?"))]
        [entry] = await answers(suite, client, session_id)
        replayed = of_kind(await suite.events(session_id), "thinking_done")
    assert model_server.requests[-1].body["reasoning_effort"] == "low"
    deltas = [event.assistant_stream_delta for event in of_kind(events, "assistant_stream_delta")]
    assert "".join(delta.text for delta in deltas if delta.channel == THINKING) == "Let me see."
    assert "".join(delta.text for delta in deltas if delta.channel != THINKING) == "Four."
    assert [event.thinking_done.text for event in of_kind(events, "thinking_done")] == ["Let me see."]
    assert [event.thinking_done.text for event in replayed] == ["Let me see."]
    thinking, text = entry.assistant.parts
    assert (thinking.thinking.text, text.text.text) == ("Let me see.", "Four.")


async def test_another_provider_of_the_catalogue_answers_and_gets_its_signed_thinking_back(
    open_suite: OpenSuite, tmp_path: Path
) -> None:
    def rule(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["content"][0]["type"] == "tool_result":
            return Reply([Text("There are files."), Tokens(200, 20, 100)])
        first = Thought("I look.", "c2ln")
        return Reply([first, Call("list_files", '{"path": "."}'), Tokens(100, 10)])  # type: ignore[list-item]  # its own

    async with FakeAnthropic(rule) as server:
        file = tmp_path / "models.toml"
        file.write_text(
            f"""
            [providers.claude]
            kind = "anthropic"
            url = "{server.base_url}"
            [models.sonnet]
            provider = "claude"
            window = 200000
            input_price = 3
            cached_input_price = 1
            output_price = 15
            """
        )
        async with (
            open_suite("in_process", NETACLAW_MODELS_FILE=str(file)) as suite,
            suite.client() as client,
        ):
            session_id = await suite.new_session(client)
            level = ThinkingLevel.THINKING_LEVEL_HIGH
            await client.chat.SetThinkingLevel(SetThinkingLevelRequest(session_id=session_id, level=level))
            request = ExecuteChatRequest(session_id=session_id, content="Which files?")
            answer = await client.chat.ExecuteChat(request)
            entries = await answers(suite, client, session_id)
    assert answer.final_content == "There are files."
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cached_input_tokens) == (300, 30, 100)
    assert answer.usage.cost_micros == 200 * 3 + 100 * 1 + 30 * 15
    assert [entry.assistant.model for entry in entries] == ["sonnet", "sonnet"]
    [_, spoken, results] = server.requests[1].body["messages"]
    assert spoken["content"][0] == {"type": "thinking", "thinking": "I look.", "signature": "c2ln"}
    assert [block["type"] for block in spoken["content"]] == ["thinking", "tool_use"]
    assert results["content"][0]["tool_use_id"] == spoken["content"][1]["id"]
    assert server.requests[1].body["thinking"]["type"] == "enabled"


async def test_a_model_that_is_not_in_the_catalogue_is_said_once(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        await use_model(client, "no-such-model")
        session_id = await suite.new_session(client)
        events = [event async for event in chat(client, ChatRequest(session_id=session_id, content="Hello"))]
        [entry] = await answers(suite, client, session_id)
    [error] = of_kind(events, "error")
    assert (error.error.reason, error.error.retryable) == ("MODEL_UNKNOWN", False)
    assert "no-such-model" in error.error.message
    assert entry.state == EntryState.ENTRY_STATE_FAILED
    assert entry.assistant.error == error.error.message


HALF = Raw(b'data: {"choices":[{"index":0,"delta":{"content":"Half an answer"}}]}\n\n')


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ([Cut()], "MODEL_UNAVAILABLE"),
        ([], "MODEL_UNAVAILABLE"),
        ([Raw(b"data: \xff\xfe{]\n\n")], "MODEL_UNAVAILABLE"),
        ([Raw(b'data: {"error":{"type":"server_error","message":"canary"}}\n\n')], "MODEL_UNAVAILABLE"),
        ([Raw(b'data: {"error":{"code":"context_length_exceeded"}}\n\n')], "CONTEXT_TOO_LONG"),
        ([Raw(b'data: {"choices":[{"finish_reason":"error"}]}\n\n')], "MODEL_UNAVAILABLE"),
    ],
)
async def test_a_providers_fault_ends_in_a_typed_state_with_the_partial_text_stored(
    after: list[Any], reason: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = lambda _: Reply([HALF, *after], raw_body=True)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        events = [event async for event in chat(client, ChatRequest(session_id=session_id, content="Hello"))]
        [entry] = await answers(suite, client, session_id)
        model_server.rule = lambda _: Reply([Text("fine")])
        again = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))
    [error] = of_kind(events, "error")
    assert error.error.reason == reason
    assert "canary" not in str(events)
    assert entry.state == EntryState.ENTRY_STATE_FAILED
    assert [part.text.text for part in entry.assistant.parts] == ["Half an answer"]
    assert entry.assistant.finish_reason in (FinishReason.FINISH_REASON_UNSPECIFIED, FinishReason.FINISH_REASON_ERROR)
    assert error.error.usage.estimated_calls == 1
    assert error.error.usage.output_tokens == 4
    assert again.final_content == "fine"


async def test_a_fault_of_ours_ends_the_turn_in_words_and_the_session_goes_on(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.rule = lambda _: Reply([Text("Well.")])
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        request = ExecuteChatRequest(session_id=session_id, content="hello")
        with monkeypatch.context() as broken:
            broken.setattr(HttpModel, "_open", None)  # any mistake in our own code
            failed = await client.chat.ExecuteChat(request)
        [entry] = await answers(suite, client, session_id)
        again = await client.chat.ExecuteChat(request)
    assert failed.outcome == TurnOutcome.TURN_OUTCOME_FAILED
    assert (failed.error.reason, failed.error.message) == ("INTERNAL", "internal error")
    assert entry.state == EntryState.ENTRY_STATE_FAILED
    assert again.final_content == "Well."
