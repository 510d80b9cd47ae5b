"""Calls of an OpenAI-compatible model, and what becomes of them."""

import traceback
from collections.abc import AsyncGenerator
from itertools import count

import pytest

from netaclaw.session.v1.entry_pb2 import (
    Message,
)
from netaclaw_agent.loop import user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.openai import OpenAIModel
from tests.fakes.openai_server import Raw, Reply, Rule

KEY = "canary-key-0123"
PROMPT = "canary-prompt-4567"
PATIENT = StreamLimits(first_token_s=30, idle_s=30, total_s=60)


def make_model(base_url: str, limits: StreamLimits = PATIENT) -> OpenAIModel:
    return OpenAIModel(name="openai", base_url=base_url, api_key=KEY, model="m", context_window=1000, limits=limits)


def stream(model: OpenAIModel, call: ModelCall | None = None) -> AsyncGenerator[ModelEvent, None]:
    numbers = count(1)
    events = model.stream(
        call or ModelCall(system="", messages=[user_message(PROMPT)]), new_id=lambda: f"ours-{next(numbers)}"
    )
    assert isinstance(events, AsyncGenerator)
    return events


async def finished(model: OpenAIModel, call: ModelCall | None = None) -> Message:
    events = [event async for event in stream(model, call)]
    assert isinstance(events[-1], Finished)
    return events[-1].message


async def failure(model: OpenAIModel, shown: list[ModelEvent] | None = None) -> ModelError:
    kept = shown if shown is not None else []

    async def read() -> None:
        async for event in stream(model):
            kept.append(event)

    with pytest.raises(ModelError) as caught:
        await read()
    told = "".join(traceback.format_exception(caught.value))
    assert "canary" not in told
    return caught.value


def raw(*data: bytes) -> Rule:
    return lambda _: Reply([Raw(piece) for piece in data], raw_body=True)
