"""The OpenAI-compatible provider against a real streaming server on loopback."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.session.v1.entry_pb2 import (
    FinishReason,
    Message,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import calls_of, text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, TextDelta, ThinkingDelta
from netaclaw_agent.models.faults import ProviderError
from netaclaw_agent.models.openai import OpenAIModel
from tests.fakes.openai_server import Call, FakeOpenAI, Hang, Raw, Reply, Text, Thinking, Tokens, Wait
from tests.unit.netaclaw_agent.models.openai_calls import (
    KEY,
    PROMPT,
    failure,
    finished,
    make_model,
    raw,
    stream,
)
from tests.unit.netaclaw_agent.models.test_openai_request import answered

CASES = Path(__file__).parents[3] / "cases"


async def test_deltas_come_in_order_then_one_finished_message(server: FakeOpenAI, model: OpenAIModel) -> None:
    server.rule = lambda _: Reply(
        [Thinking("Hm."), Text("Hello "), Text("wörld"), Call("f", '{"a": 1}', "k"), Tokens(12, 5, 4, 2)]
    )
    events = [event async for event in stream(model)]
    assert events[:-1] == [ThinkingDelta("Hm."), TextDelta("Hello "), TextDelta("wörld")]
    assert isinstance(events[-1], Finished)
    message = events[-1].message
    assert text_of(message) == "Hello wörld"
    assert [(c.call_id, c.provider_call_id, c.arguments_json) for c in calls_of(message)] == [
        ("ours-1", "k", '{"a": 1}')
    ]
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens) == (12, 5, 4, 2)
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS


async def test_the_request_has_key_model_stream_and_usage(server: FakeOpenAI, model: OpenAIModel) -> None:
    await finished(model, ModelCall(system="Be brief.", messages=[user_message("Hi")], max_output_tokens=9))
    [request] = server.requests
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
    }


async def test_a_thinking_level_becomes_an_effort(server: FakeOpenAI, model: OpenAIModel) -> None:
    for level in (ThinkingLevel.THINKING_LEVEL_HIGH, ThinkingLevel.THINKING_LEVEL_OFF):
        await finished(model, ModelCall(system="", messages=[user_message("Hi")], thinking_level=level))
    assert [request.body.get("reasoning_effort") for request in server.requests] == ["high", None]


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded"},
        {"type": "exceed_context_size_error", "code": 400},
        {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000 canary"},
        {"message": "the request exceeds the available context size. try increasing the context size canary"},
    ],
)
async def test_a_prompt_that_does_not_fit_has_a_reason_of_its_own(
    server: FakeOpenAI, model: OpenAIModel, error: dict[str, Any]
) -> None:
    server.rule = lambda _: Reply(status=400, error=error)
    told = await failure(model)
    assert (told.reason, told.retryable) == ("CONTEXT_TOO_LONG", False)
    assert "does not fit" in str(told)


async def test_a_prompt_that_does_not_fit_is_known_in_googles_words_too(server: FakeOpenAI, model: OpenAIModel) -> None:
    words = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
    error = {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}
    server.rule = lambda _: Reply(status=400, error=error, error_in_list=True)
    assert (await failure(model)).reason == "CONTEXT_TOO_LONG"


async def test_tools_are_sent_with_their_schema(server: FakeOpenAI, model: OpenAIModel) -> None:
    tool = ToolManifest(tool_name="f", description="Does f.", parameters_json='{"type":"object"}')
    await finished(model, ModelCall(system="", messages=[user_message("Hi")], tools=[tool]))
    function = {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}
    assert server.requests[0].body["tools"] == [{"type": "function", "function": function}]


async def test_every_call_goes_back_under_our_id_with_exactly_one_result(
    server: FakeOpenAI, model: OpenAIModel
) -> None:
    spoken = Message(
        role=MessageRole.MESSAGE_ROLE_ASSISTANT,
        parts=[
            Part(thinking=ThinkingPart(text="secret thought")),
            Part(text=TextPart(text="Looking.")),
            answered("id-1", '{"b":1,"a":2,"b":3}', result=ToolResult(content="one")),
            answered("id-2", '{"n": 1e400}', result=ToolResult(content="bad", is_error=True)),
            answered("id-3", "", state=ToolCallState.TOOL_CALL_STATE_IN_DOUBT),
            answered("id-4", "{broken", state=ToolCallState.TOOL_CALL_STATE_PENDING),
        ],
    )
    silent = Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT)
    await finished(model, ModelCall(system="", messages=[user_message("Go"), spoken, silent, user_message("On")]))
    _, assistant, *results, last = server.requests[0].body["messages"]
    assert assistant["content"] == "Looking."
    assert [(c["id"], c["function"]["arguments"]) for c in assistant["tool_calls"]] == [
        ("id-1", '{"b":1,"a":2,"b":3}'),
        ("id-2", '{"n": 1e400}'),
        ("id-3", "{}"),
        ("id-4", '{"invalid_arguments": "{broken"}'),
    ]
    assert [(r["role"], r["tool_call_id"]) for r in results] == [("tool", f"id-{n}") for n in (1, 2, 3, 4)]
    assert [r["content"] for r in results[:2]] == ["one", "Error: bad"]
    assert "not known" in results[2]["content"]
    assert "never began" in results[3]["content"]
    assert last == {"role": "user", "content": "On"}
    assert "secret thought" not in json.dumps(server.requests[0].body)


async def test_case_07_arrives_whole_over_a_real_connection(server: FakeOpenAI, model: OpenAIModel) -> None:
    case = json.loads((CASES / "model-stream-07.chunks.json").read_text(encoding="utf-8"))
    server.rule = raw(*(bytes.fromhex(piece) for piece in case["chunks_hex"]))
    message = await finished(model)
    assert text_of(message) == case["expect"]["text"]
    assert json.loads(calls_of(message)[0].arguments_json) == case["expect"]["arguments"]


@pytest.mark.parametrize(
    ("name", "tools", "text"),
    [
        ("model-stream-03.sse", ["add_numbers", "read_note"], ""),
        ("model-stream-04-round1.sse", ["lookup", "lookup"], ""),
        ("model-stream-05.sse", ["read_note", "read_note"], "Let me look."),
        ("model-stream-09.sse", [], "ok then"),
    ],
)
async def test_case_bodies_arrive_as_stated(
    server: FakeOpenAI, model: OpenAIModel, name: str, tools: list[str], text: str
) -> None:
    server.rule = raw((CASES / name).read_bytes())
    message = await finished(model)
    assert [call.tool_name for call in calls_of(message)] == tools
    assert text_of(message) == text


async def test_a_finished_call_leaves_its_connection_for_the_next(server: FakeOpenAI, model: OpenAIModel) -> None:
    for _ in range(3):
        await finished(model)
    assert len({request.client_port for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("status", "retryable", "reason"),
    [
        (400, False, "MODEL_REFUSED"),
        (401, False, "MODEL_REFUSED"),
        (302, False, "MODEL_REFUSED"),
        (408, True, "MODEL_UNAVAILABLE"),
        (429, True, "MODEL_UNAVAILABLE"),
        (500, True, "MODEL_UNAVAILABLE"),
        (503, True, "MODEL_UNAVAILABLE"),
    ],
)
async def test_http_errors_are_typed_and_echo_nothing(
    server: FakeOpenAI, model: OpenAIModel, status: int, retryable: bool, reason: str
) -> None:
    echo = {"message": f"{PROMPT} {KEY}", "type": "some_error", "code": KEY, "param": PROMPT}
    server.rule = lambda _: Reply(status=status, error=echo, headers={"Location": "http://127.0.0.1:1/"})
    error = await failure(model)
    assert (error.retryable, error.reason) == (retryable, reason)
    assert str(error) == f"the model provider answered HTTP {status} (some_error)"
    assert len(server.requests) == 1


async def test_an_account_without_credit_is_no_busy_provider(server: FakeOpenAI, model: OpenAIModel) -> None:
    """OpenAI gives both the same status."""
    server.rule = lambda _: Reply(status=429, error={"type": "insufficient_quota", "code": "insufficient_quota"})
    error = await failure(model)
    assert (error.retryable, error.reason) == (False, "MODEL_REFUSED")
    assert "insufficient_quota" in str(error)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 +9999999999999999", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
async def test_the_wait_that_a_provider_asks_for_is_kept(
    server: FakeOpenAI, model: OpenAIModel, value: str, seconds: float | None
) -> None:
    server.rule = lambda _: Reply(status=429, headers={"Retry-After": value})
    error = await failure(model)
    assert isinstance(error, ProviderError)
    assert error.retry_after_s == seconds


async def test_a_server_that_is_not_there_is_a_retryable_error(server: FakeOpenAI) -> None:
    gone = make_model("http://127.0.0.1:1/v1")
    error = await failure(gone)
    assert error.retryable
    assert error.reason == "MODEL_UNAVAILABLE"
    await gone.close()


@pytest.mark.parametrize("url", ["http://user:canary-pass@127.0.0.1:1/v1", "http://", "nonsense"])
async def test_an_address_that_cannot_be_used_is_a_final_error(url: str) -> None:
    model = make_model(url)
    error = await failure(model)
    assert not error.retryable
    await model.close()


async def test_an_answer_that_is_no_stream_is_read_as_one(server: FakeOpenAI, model: OpenAIModel) -> None:
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    server.rule = lambda _: Reply(
        [Raw(json.dumps(body).encode())], raw_body=True, headers={"Content-Type": "application/json"}
    )
    message = await finished(model)
    assert text_of(message) == "whole"
    assert message.usage.input_tokens == 3


async def test_text_is_given_out_before_the_answer_is_whole(server: FakeOpenAI, model: OpenAIModel) -> None:
    more = asyncio.Event()
    server.rule = lambda _: Reply([Text("first"), Wait(more), Text(" last")])
    events = stream(model)
    assert await anext(events) == TextDelta("first")
    more.set()
    assert [event async for event in events if isinstance(event, TextDelta)] == [TextDelta(" last")]


async def test_closing_the_iterator_closes_the_connection(server: FakeOpenAI, model: OpenAIModel) -> None:
    left = asyncio.Event()

    class Leaving(asyncio.Event):
        async def wait(self) -> Any:
            try:
                return await super().wait()
            except asyncio.CancelledError:
                left.set()
                raise

    server.rule = lambda _: Reply([Text("first"), Wait(Leaving())])
    events = stream(model)
    assert await anext(events) == TextDelta("first")
    await events.aclose()
    await asyncio.wait_for(left.wait(), 10)


async def test_cancelling_the_reader_closes_the_connection(server: FakeOpenAI, model: OpenAIModel) -> None:
    asked = asyncio.Event()

    def rule(_: dict[str, Any]) -> Reply:
        asked.set()
        return Reply([Hang()])

    server.rule = rule
    reader = asyncio.create_task(finished(model))
    await asked.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    server.rule = lambda _: Reply([Text("ok")])
    assert text_of(await finished(model)) == "ok"


async def test_a_closed_model_refuses_calls(server: FakeOpenAI, model: OpenAIModel) -> None:
    await finished(model)
    await model.close()
    await model.close()
    assert "closed" in str(await failure(model))
