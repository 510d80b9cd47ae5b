"""The test server streams what OpenAI documents: one set of assertions over its bytes and over documented ones."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Tokens

ROOT = Path(__file__).parents[2]

QUESTION = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
}

# The shape of the API reference's streaming examples: text, a tool call in fragments, the usage chunk, the end mark.
_HEAD = '{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":'
DOCUMENTED = (
    "".join(
        f"data: {_HEAD}{choices}\n\n"
        for choices in [
            '[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}',
            '[{"index":0,"delta":{"content":"Looking "},"finish_reason":null}]}',
            '[{"index":0,"delta":{"content":"it up."},"finish_reason":null}]}',
            '[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_abc","type":"function","function":'
            '{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}',
            '[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"city\\":"}}]},"finish_reason":null}]}',
            '[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"Paris\\"}"}}]},"finish_reason":null}]}',
            '[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
            '[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,'
            '"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}',
        ]
    ).encode()
    + b"data: [DONE]\n\n"
)


async def documented() -> bytes:
    return DOCUMENTED


async def served() -> bytes:
    reply = Reply(
        [Text("Looking "), Text("it up."), Call("get_weather", '{"city":"Paris"}', "call_abc"), Tokens(19, 10)]
    )
    async with FakeOpenAI(lambda _: reply) as server:
        return await ask(server.base_url)


async def ask(base_url: str) -> bytes:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/chat/completions", json=QUESTION) as response,
    ):
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        return await response.read()


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    events = body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


@pytest.mark.parametrize("body_of", [documented, served])
async def test_a_stream_has_the_documented_shape(body_of: Callable[[], Awaitable[bytes]]) -> None:
    chunks = chunks_of(await body_of())
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    *talk, usage = chunks
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 29
    assert all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in talk)
    deltas = [chunk["choices"][0]["delta"] for chunk in talk]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Looking it up."
    fragments = [fragment for delta in deltas for fragment in delta.get("tool_calls", [])]
    assert [fragment["index"] for fragment in fragments] == [0, 0, 0]
    assert (fragments[0]["id"], fragments[0]["type"]) == ("call_abc", "function")
    assert fragments[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert "".join(fragment["function"]["arguments"] for fragment in fragments) == '{"city":"Paris"}'
    assert [chunk["choices"][0]["finish_reason"] for chunk in talk] == [None] * (len(talk) - 1) + ["tool_calls"]


async def test_as_a_process_it_prints_its_address_and_answers() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.openai_server", "--port", "0", stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        base_url = json.loads(await process.stdout.readline())["base_url"]
        chunks = chunks_of(await ask(base_url))
        assert "not an LLM" in "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    finally:
        process.terminate()
        assert await process.wait() == 0
