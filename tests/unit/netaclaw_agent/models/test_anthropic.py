"""The Messages API provider against a real streaming server on loopback."""

import json
from collections.abc import AsyncIterator
from itertools import count
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
    ToolCallPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import calls_of, text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, TextDelta, ThinkingDelta
from netaclaw_agent.models.anthropic import AnthropicModel
from netaclaw_agent.models.anthropic_request import AnthropicOptions
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.thinking import ThinkingStyle, ThinkingWords
from tests.fakes.anthropic_server import FakeAnthropic, Redacted, Thought, body_of
from tests.fakes.openai_server import Call, Cut, Raw, Reply, Text, Tokens

KEY = "canary-key-0123"
PATIENT = StreamLimits(first_token_s=30, idle_s=30, total_s=60)
TOOL = ToolManifest(tool_name="f", description="Does f.", parameters_json='{"type":"object"}')
HIGH = ThinkingLevel.THINKING_LEVEL_HIGH


@pytest.fixture
async def server() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic(lambda _: Reply([Text("ok")])) as running:
        yield running


@pytest.fixture
async def model(server: FakeAnthropic) -> AsyncIterator[AnthropicModel]:
    made = make(server)
    yield made
    await made.close()


def make(server: FakeAnthropic, **options: Any) -> AnthropicModel:
    return AnthropicModel(
        name="claude",
        base_url=server.base_url,
        api_key=KEY,
        model="m",
        context_window=1000,
        limits=PATIENT,
        options=AnthropicOptions(**options),
    )


async def ask(model: AnthropicModel, call: ModelCall | None = None) -> list[ModelEvent]:
    numbers = count(1)
    asked = call or ModelCall(system="", messages=[user_message("Hi")])
    return [event async for event in model.stream(asked, new_id=lambda: f"ours-{next(numbers)}")]


async def finished(model: AnthropicModel, call: ModelCall | None = None) -> Message:
    events = await ask(model, call)
    assert isinstance(events[-1], Finished)
    return events[-1].message


def spoken(*parts: Part, model: str = "m") -> Message:
    return Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, parts=parts, model=model)


def called(call_id: str, arguments: str = "{}", content: str = "done", **more: Any) -> Part:
    result = ToolResult(content=content, **more)
    return Part(tool_call=ToolCallPart(call_id=call_id, tool_name="f", arguments_json=arguments, result=result))


async def test_deltas_come_in_order_then_one_finished_message(server: FakeAnthropic, model: AnthropicModel) -> None:
    server.rule = lambda _: Reply(
        [Thought("Hm. ", "c2ln"), Redacted("aGlk"), Text("Hallo, Wörld"), Call("f", '{"a": 1}', "t1"), Tokens(12, 5, 4)]  # type: ignore[list-item]  # this server's blocks
    )
    events = await ask(model)
    assert [event for event in events[:-1] if isinstance(event, ThinkingDelta)] == [ThinkingDelta("Hm. ")]
    assert "".join(event.text for event in events[:-1] if isinstance(event, TextDelta)) == "Hallo, Wörld"
    assert isinstance(events[-1], Finished)
    message = events[-1].message
    assert [part.WhichOneof("part") for part in message.parts] == ["thinking", "thinking", "text", "tool_call"]
    assert message.parts[0].thinking == ThinkingPart(text="Hm. ", signature="c2ln")
    assert message.parts[1].thinking == ThinkingPart(redacted="aGlk")
    [call] = calls_of(message)
    assert (call.call_id, call.provider_call_id, call.arguments_json) == ("ours-1", "t1", '{"a": 1}')
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.model_calls) == (12, 5, 4, 1)


async def test_a_signature_without_visible_reasoning_is_kept(server: FakeAnthropic, model: AnthropicModel) -> None:
    server.rule = lambda _: Reply([Thought("", "c2ln"), Text("ok")])  # type: ignore[list-item]  # this server's blocks
    message = await finished(model)
    assert message.parts[0].thinking == ThinkingPart(signature="c2ln")


async def test_a_call_without_input_has_an_empty_object(server: FakeAnthropic, model: AnthropicModel) -> None:
    server.rule = lambda _: Reply([Call("f", ""), Call("f", "")])
    assert [call.arguments_json for call in calls_of(await finished(model))] == ["{}", "{}"]


async def test_the_request_has_key_version_system_and_tools(server: FakeAnthropic, model: AnthropicModel) -> None:
    call = ModelCall(system="Be brief.", messages=[user_message("Hi")], tools=[TOOL], max_output_tokens=9)
    await finished(model, call)
    [request] = server.requests
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    cached = {"cache_control": {"type": "ephemeral"}}
    assert request.body == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", **cached}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **cached}]}],
        "tools": [{"name": "f", "description": "Does f.", "input_schema": {"type": "object"}}],
    }


async def test_calls_go_back_with_results_first_and_steering_behind_them(
    server: FakeAnthropic, model: AnthropicModel
) -> None:
    said = spoken(Part(text=TextPart(text="Looking.")), called("a"), called("b", content="bad", is_error=True))
    await finished(model, ModelCall(system="", messages=[user_message("Go"), said, user_message("Faster")]))
    first, assistant, results = server.requests[0].body["messages"]
    assert first["role"] == "user"
    assert [block["type"] for block in assistant["content"]] == ["text", "tool_use", "tool_use"]
    assert [block.get("tool_use_id") for block in results["content"]] == ["a", "b", None]
    assert [block.get("is_error", False) for block in results["content"]] == [False, True, False]
    assert results["content"][2]["text"] == "Faster"


async def test_calls_without_a_result_say_the_truth(server: FakeAnthropic, model: AnthropicModel) -> None:
    lost = Part(tool_call=ToolCallPart(call_id="a", tool_name="f", state=ToolCallState.TOOL_CALL_STATE_IN_DOUBT))
    await finished(model, ModelCall(system="", messages=[user_message("Go"), spoken(lost)]))
    [result] = server.requests[0].body["messages"][-1]["content"]
    assert "not known" in result["content"]
    assert result["is_error"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"zeta": 1, "alpha": 2, "price": 1.10, "ticket": 9007199254740993}', None),
        ('{"b":1,"a":2,"b":3}', None),
        ('{"n": 1e400}', None),
        ('{"10":"ten","9":"nine"}', None),
        ("", "{}"),
        ('{"n": NaN}', '{"invalid_arguments": "{\\"n\\": NaN}"}'),
        ("[1]", '{"invalid_arguments": "[1]"}'),
        ("{broken", '{"invalid_arguments": "{broken"}'),
    ],
)
async def test_arguments_go_back_byte_for_byte(
    server: FakeAnthropic, model: AnthropicModel, arguments: str, sent: str | None
) -> None:
    await finished(model, ModelCall(system="", messages=[user_message("Go"), spoken(called("a", arguments))]))
    assert f'"input": {arguments if sent is None else sent}}}' in server.bodies[0]


async def test_reasoning_goes_back_with_its_signature_to_the_model_that_made_it(
    server: FakeAnthropic, model: AnthropicModel
) -> None:
    thoughts = [
        Part(thinking=ThinkingPart(text="Hm.", signature="c2ln")),
        Part(thinking=ThinkingPart(redacted="aGlk")),
        Part(thinking=ThinkingPart(text="unsigned")),
    ]
    path = [user_message("Go"), spoken(*thoughts, called("a")), spoken(*thoughts, called("b"), model="other")]
    await finished(model, ModelCall(system="", messages=path))
    own, other = (message["content"] for message in server.requests[0].body["messages"] if message["role"] != "user")
    assert own[:2] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "aGlk"},
    ]
    assert [block["type"] for block in own[2:]] == ["tool_use"]
    assert [block["type"] for block in other] == ["tool_use"]


async def test_messages_that_say_nothing_are_left_out(server: FakeAnthropic, model: AnthropicModel) -> None:
    blank = [spoken(Part(text=TextPart(text=" \n"))), spoken(Part(thinking=ThinkingPart(text="x", signature="s")))]
    await finished(model, ModelCall(system="", messages=[user_message("Go"), *blank, user_message("On")]))
    [message] = server.requests[0].body["messages"]
    assert [block["text"] for block in message["content"]] == ["Go", "On"]


@pytest.mark.parametrize(
    ("style", "level", "max_tokens", "fields"),
    [
        (ThinkingStyle.BUDGET, HIGH, 64_000, {"thinking": {"type": "enabled", "budget_tokens": 24_576}}),
        (ThinkingStyle.BUDGET, HIGH, 4_096, {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
        (ThinkingStyle.BUDGET, HIGH, 2_000, {}),
        (ThinkingStyle.BUDGET, ThinkingLevel.THINKING_LEVEL_OFF, 64_000, {}),
        (ThinkingStyle.BUDGET, ThinkingLevel.THINKING_LEVEL_UNSPECIFIED, 64_000, {}),
        (
            ThinkingStyle.ADAPTIVE,
            ThinkingLevel.THINKING_LEVEL_LOW,
            64_000,
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        (ThinkingStyle.ADAPTIVE, ThinkingLevel.THINKING_LEVEL_OFF, 64_000, {}),
        (ThinkingStyle.NONE, HIGH, 64_000, {}),
    ],
)
async def test_a_thinking_level_becomes_the_models_own_words(
    server: FakeAnthropic, style: ThinkingStyle, level: ThinkingLevel, max_tokens: int, fields: dict[str, Any]
) -> None:
    model = make(server, thinking=ThinkingWords(style), max_output_tokens=max_tokens)
    await finished(model, ModelCall(system="", messages=[user_message("Hi")], thinking_level=level))
    await model.close()
    body = server.requests[0].body
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == fields


async def test_in_the_middle_of_calls_that_began_without_reasoning_none_is_asked_for(
    server: FakeAnthropic, model: AnthropicModel
) -> None:
    path = [user_message("Go"), spoken(called("a"))]
    await finished(model, ModelCall(system="", messages=path, thinking_level=HIGH))
    assert "thinking" not in server.requests[0].body
    path = [user_message("Go"), spoken(Part(thinking=ThinkingPart(text="x", signature="s")), called("a"))]
    await finished(model, ModelCall(system="", messages=path, thinking_level=HIGH))
    assert "thinking" in server.requests[1].body


async def test_a_call_can_be_demanded(server: FakeAnthropic, model: AnthropicModel) -> None:
    call = ModelCall(system="", messages=[user_message("Go")], tools=[TOOL], must_call_tool=True, thinking_level=HIGH)
    await finished(model, call)
    body = server.requests[0].body
    assert body["tool_choice"] == {"type": "any"}
    assert "thinking" not in body


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("end_turn", FinishReason.FINISH_REASON_STOP),
        ("stop_sequence", FinishReason.FINISH_REASON_STOP),
        ("something_new", FinishReason.FINISH_REASON_STOP),
        ("max_tokens", FinishReason.FINISH_REASON_LENGTH),
        ("model_context_window_exceeded", FinishReason.FINISH_REASON_LENGTH),
        ("refusal", FinishReason.FINISH_REASON_CONTENT_FILTER),
    ],
)
async def test_stop_reasons_are_understood(
    server: FakeAnthropic, model: AnthropicModel, stop_reason: str, reason: FinishReason
) -> None:
    server.rule = lambda _: Reply([Text("ok")], finish_reason=stop_reason)
    assert (await finished(model)).finish_reason == reason


async def test_an_error_event_after_text_is_typed_and_keeps_what_was_said(
    server: FakeAnthropic, model: AnthropicModel
) -> None:
    body = body_of(Reply([Text("half an answer"), Tokens(7, 3)])).partition(b"event: message_delta")[0]
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"canary"}}\n\n'
    server.rule = lambda _: Reply([Raw(body + error)], raw_body=True)
    shown: list[str] = []

    async def read() -> None:
        async for event in model.stream(ModelCall(system="", messages=[user_message("Hi")]), new_id=lambda: "x"):
            assert not isinstance(event, Finished)
            shown.append(event.text)

    with pytest.raises(ModelError, match="overloaded_error") as caught:
        await read()
    assert "".join(shown) == "half an answer"
    assert caught.value.retryable
    assert caught.value.usage.input_tokens == 7
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (529, {"type": "overloaded_error"}, "MODEL_UNAVAILABLE"),
        (429, {"type": "rate_limit_error"}, "MODEL_UNAVAILABLE"),
        (401, {"type": "authentication_error"}, "MODEL_REFUSED"),
        (413, {"type": "request_too_large"}, "CONTEXT_TOO_LONG"),
        (
            400,
            {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum canary"},
            "CONTEXT_TOO_LONG",
        ),
    ],
)
async def test_http_errors_are_typed_and_echo_nothing(
    server: FakeAnthropic, model: AnthropicModel, status: int, error: dict[str, str], reason: str
) -> None:
    server.rule = lambda _: Reply(status=status, error=error)
    with pytest.raises(ModelError) as caught:
        await ask(model)
    assert (caught.value.reason, caught.value.retryable) == (reason, reason == "MODEL_UNAVAILABLE")
    assert "canary" not in str(caught.value)


async def test_a_stream_without_its_end_is_an_error(server: FakeAnthropic, model: AnthropicModel) -> None:
    body = body_of(Reply([Text("half")])).partition(b"event: message_delta")[0]
    for items in ([Raw(body)], [Raw(body), Cut()]):
        server.rule = lambda _, items=items: Reply(items, raw_body=True)  # type: ignore[misc]  # a default binds it
        with pytest.raises(ModelError, match=r"ended early|connection") as caught:
            await ask(model)
        assert caught.value.retryable


async def test_an_answer_that_is_no_stream_is_read_as_one(server: FakeAnthropic, model: AnthropicModel) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "whole"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    server.rule = lambda _: Reply(
        [Raw(json.dumps(body).encode())], raw_body=True, headers={"Content-Type": "application/json"}
    )
    message = await finished(model)
    assert text_of(message) == "whole"
    assert [call.arguments_json for call in calls_of(message)] == ['{"a": 1}']
    assert message.usage.input_tokens == 3
