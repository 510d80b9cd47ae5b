"""Streams of the OpenAI-compatible provider that end badly, or not at all."""

import asyncio
import json

import pytest

from netaclaw_agent.loop import text_of
from netaclaw_agent.model import ModelEvent, TextDelta
from netaclaw_agent.models.faults import ModelStalled
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.openai import OpenAIModel
from tests.fakes.openai_server import Cut, FakeOpenAI, Hang, Raw, Reply, Text
from tests.unit.netaclaw_agent.models.openai_calls import (
    failure,
    finished,
    make_model,
    raw,
)


async def test_a_cut_in_the_middle_is_an_error_after_the_partial_text(server: FakeOpenAI, model: OpenAIModel) -> None:
    server.rule = lambda _: Reply([Text("half"), Cut()])
    shown: list[ModelEvent] = []
    error = await failure(model, shown)
    assert error.retryable
    assert shown == [TextDelta("half")]


def _labelled(label: str) -> Raw:
    chunk = {"choices": [{"delta": {"content": "whole"}, "finish_reason": label}]}
    return Raw(b"data: " + json.dumps(chunk).encode() + b"\n\n")


@pytest.mark.parametrize("rest", [Cut(), Hang()])
async def test_a_whole_answer_is_not_lost_with_the_end_mark_behind_it(server: FakeOpenAI, rest: Cut | Hang) -> None:
    impatient = make_model(server.base_url, StreamLimits(first_token_s=30, idle_s=0.1, total_s=60))
    server.rule = lambda _: Reply([_labelled("stop"), rest], raw_body=True)
    async with asyncio.timeout(15):
        assert text_of(await finished(impatient)) == "whole"
    await impatient.close()


async def test_a_label_that_nobody_knows_does_not_make_a_cut_answer_whole(
    server: FakeOpenAI, model: OpenAIModel
) -> None:
    """Some servers write one into every chunk."""
    server.rule = lambda _: Reply([_labelled("null"), Cut()], raw_body=True)
    assert (await failure(model)).retryable


async def test_a_body_that_just_ends_is_an_error(server: FakeOpenAI, model: OpenAIModel) -> None:
    server.rule = raw(b'data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: {"choi')
    shown: list[ModelEvent] = []
    error = await failure(model, shown)
    assert "ended early" in str(error)
    assert shown == [TextDelta("half")]


async def test_a_broken_event_takes_nothing_from_those_before_it(server: FakeOpenAI, model: OpenAIModel) -> None:
    server.rule = raw(b'data: {"choices":[{"delta":{"content":"half"}}]}\n\ndata: {canary\n\n')
    shown: list[ModelEvent] = []
    error = await failure(model, shown)
    assert "not JSON" in str(error)
    assert shown == [TextDelta("half")]


async def test_an_error_in_the_stream_keeps_the_usage_that_was_reported(server: FakeOpenAI, model: OpenAIModel) -> None:
    server.rule = raw(b'data: {"choices":[],"usage":{"prompt_tokens":5}}\n\ndata: {"error":{"code":500}}\n\n')
    error = await failure(model)
    assert error.usage.input_tokens == 5
    assert error.usage.model_calls == 1


@pytest.mark.parametrize("first", [[], [Raw(b": ping\n\n"), Raw(b": ping\n\n")]])
async def test_silence_before_the_first_token_is_a_stall(server: FakeOpenAI, first: list[Raw]) -> None:
    impatient = make_model(server.base_url, StreamLimits(first_token_s=0.05, idle_s=30, total_s=60))
    server.rule = lambda _: Reply([*first, Hang()])
    try:
        error = await failure(impatient)
        assert isinstance(error, ModelStalled)
        assert "no first token" in str(error)
    finally:
        await impatient.close()


async def test_comments_alone_do_not_keep_a_stream_alive(server: FakeOpenAI) -> None:
    impatient = make_model(server.base_url, StreamLimits(first_token_s=30, idle_s=0.1, total_s=60))
    server.rule = lambda _: Reply([Text("a"), *[Raw(b": ping\n\n")] * 5, Hang()])
    shown: list[ModelEvent] = []
    try:
        async with asyncio.timeout(15):  # the patience with the first token is over
            error = await failure(impatient, shown)
        assert isinstance(error, ModelStalled)
        assert "sent nothing for" in str(error)
        assert shown == [TextDelta("a")]
    finally:
        await impatient.close()


async def test_the_whole_call_has_a_limit_of_its_own(server: FakeOpenAI) -> None:
    impatient = make_model(server.base_url, StreamLimits(first_token_s=30, idle_s=30, total_s=0.1))
    server.rule = lambda _: Reply([Text("a"), Hang()])
    try:
        error = await failure(impatient)
        assert "not finished within" in str(error)
    finally:
        await impatient.close()
