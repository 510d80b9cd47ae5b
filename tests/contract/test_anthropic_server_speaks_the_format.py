"""The test server streams what Anthropic documents: one set of assertions over its bytes, over documented ones, and,
where ANTHROPIC_API_KEY and NETACLAW_TEST_ANTHROPIC_MODEL are set, over the real thing's."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from netaclaw_agent.models.anthropic import API_VERSION
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.openai_server import Call, Reply, Text, Tokens

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
QUESTION = {
    "model": "m",
    "max_tokens": 1024,
    "stream": True,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Say one word, then get Paris's weather."}]}],
    "tools": [TOOL],
    "tool_choice": {"type": "any"},
}
# The shape of the API's streaming examples: text, a tool call whose input comes in fragments, pings in between.
DOCUMENTED = "".join(
    f"event: {kind}\ndata: {data}\n\n"
    for kind, data in [
        (
            "message_start",
            '{"type":"message_start","message":{"id":"msg_014p7gG3wDgGV9EUtLvnow3U","type":"message","role":"assistant",'
            '"model":"m","stop_sequence":null,"usage":{"input_tokens":472,"output_tokens":2},"content":[],'
            '"stop_reason":null}}',
        ),
        (
            "content_block_start",
            '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        ),
        ("ping", '{"type": "ping"}'),
        (
            "content_block_delta",
            '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Okay"}}',
        ),
        ("content_block_delta", '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":":"}}'),
        ("content_block_stop", '{"type":"content_block_stop","index":0}'),
        (
            "content_block_start",
            '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use",'
            '"id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"get_weather","input":{}}}',
        ),
        (
            "content_block_delta",
            '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}',
        ),
        (
            "content_block_delta",
            '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"city\\":"}}',
        ),
        (
            "content_block_delta",
            '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta",'
            '"partial_json":" \\"Paris\\"}"}}',
        ),
        ("content_block_stop", '{"type":"content_block_stop","index":1}'),
        (
            "message_delta",
            '{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}',
        ),
        ("message_stop", '{"type":"message_stop"}'),
    ]
).encode()


async def documented() -> bytes:
    return DOCUMENTED


async def served() -> bytes:
    reply = Reply([Text("Okay:"), Call("get_weather", '{"city": "Paris"}', "toolu_1"), Tokens(472, 89)])
    async with FakeAnthropic(lambda _: reply) as server:
        return await ask(server.base_url, QUESTION, {})


async def real() -> bytes:
    key, model = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("NETACLAW_TEST_ANTHROPIC_MODEL")
    if not key or not model:
        pytest.skip("needs ANTHROPIC_API_KEY and NETACLAW_TEST_ANTHROPIC_MODEL")
    return await ask("https://api.anthropic.com", {**QUESTION, "model": model}, {"x-api-key": key})


async def ask(base_url: str, question: dict[str, Any], key: dict[str, str]) -> bytes:
    headers = {"anthropic-version": API_VERSION, **key}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/v1/messages", json=question, headers=headers) as response,
    ):
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        return await response.read()


def events_of(body: bytes) -> list[dict[str, Any]]:
    events = []
    for block in body.decode().split("\n\n"):
        if not block:
            continue
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    return events


@pytest.mark.parametrize("body_of", [documented, served, real])
async def test_a_stream_has_the_documented_shape(body_of: Callable[[], Awaitable[bytes]]) -> None:
    events = [event for event in events_of(await body_of()) if event["type"] != "ping"]
    assert events[0]["type"] == "message_start"
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] > 0
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [start["index"] for start in starts] == list(range(len(starts)))
    call = starts[-1]["content_block"]
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "get_weather", {})
    deltas = [event["delta"] for event in events if event.get("index") == len(starts) - 1 and "delta" in event]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"}
    assert json.loads("".join(delta["partial_json"] for delta in deltas))["city"] == "Paris"
