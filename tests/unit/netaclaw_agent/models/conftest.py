"""An OpenAI-compatible server, and a model that asks it."""

from collections.abc import AsyncIterator

import pytest

from netaclaw_agent.models.openai import OpenAIModel
from tests.fakes.openai_server import FakeOpenAI, Reply, Text
from tests.unit.netaclaw_agent.models.openai_calls import make_model


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(lambda _: Reply([Text("ok")])) as running:
        yield running


@pytest.fixture
async def model(server: FakeOpenAI) -> AsyncIterator[OpenAIModel]:
    made = make_model(server.base_url)
    yield made
    await made.close()
