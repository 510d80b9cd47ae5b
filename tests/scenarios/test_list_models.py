"""The catalogue as clients see it: what agents can name, and whether it can be asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.model.v1.model_pb2 import (
    MODEL_AVAILABILITY_AVAILABLE,
    MODEL_AVAILABILITY_KEY_MISSING,
    MODEL_AVAILABILITY_NOT_INSTALLED,
    Model,
)
from netaclaw.model.v1.model_service_pb2 import ListModelsRequest
from netaclaw.tool.v1.tool_service_pb2 import ListToolsRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_cli.__main__ import main
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI
from tests.scenarios.suites import OpenSuite

KEY = "secret-9b2f"
FILE = """
[providers.house]
kind = "openai"
url = "{url}"
key_env = "HOUSE_KEY"

[providers.elsewhere]
kind = "anthropic"
key_env = "ABSENT_KEY"

[models.fine]
provider = "house"
window = 64000
max_output_tokens = 4096
input_price = 0.5
output_price = 2

[models.far]
provider = "elsewhere"
window = 200000
tools = false
"""


async def _refused(client: Client, page_size: int, page_token: str) -> list[str]:
    """The fields that both lists of this kind complain of."""
    found = []
    for ask in (
        client.models.ListModels(ListModelsRequest(page_size=page_size, page_token=page_token)),
        client.tools.ListTools(ListToolsRequest(page_size=page_size, page_token=page_token)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        found.append([field for field, _ in from_rpc(caught.value).violations])
    assert found[0] == found[1]
    return found[0]


async def test_models_are_listed_in_pages_with_what_they_can_do_and_without_any_secret(
    open_suite: OpenSuite, model_server: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(FILE.format(url=model_server.base_url))
    environ = {"NETACLAW_MODELS_FILE": str(file), "HOUSE_KEY": KEY}
    async with open_suite("in_process", **environ) as suite, suite.client() as client:
        whole = await client.models.ListModels(ListModelsRequest())
        paged: list[Model] = []
        token = ""
        while True:
            page = await client.models.ListModels(ListModelsRequest(page_size=1, page_token=token))
            assert len(page.models) == 1
            paged += page.models
            token = page.next_page_token
            if not token:
                break
        assert await _refused(client, -1, "x") == ["page_size", "page_token"]
        assert await _refused(client, 1001, "") == ["page_size"]
        assert await _refused(client, 0, "9" * 5000) == ["page_token"]
        beyond = await client.models.ListModels(ListModelsRequest(page_token="999"))
        assert not beyond.models
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(content="hello"))
        assert await asyncio.to_thread(main, ["models", "--address", suite.gateway]) == 0
    assert paged == list(whole.models)
    assert not whole.next_page_token
    models = {model.name: model for model in whole.models}
    assert list(models) == ["far", "fine", "local", "scripted"]
    assert {name: model.availability for name, model in models.items()} == {
        "far": MODEL_AVAILABILITY_KEY_MISSING,
        "fine": MODEL_AVAILABILITY_AVAILABLE,
        "local": MODEL_AVAILABILITY_NOT_INSTALLED,
        "scripted": MODEL_AVAILABILITY_AVAILABLE,
    }
    fine = models["fine"]
    assert (fine.provider, fine.context_window, fine.max_output_tokens) == ("house", 64_000, 4_096)
    assert (fine.prices.input_micros, fine.prices.output_micros) == (500_000, 2_000_000)
    assert fine.is_default
    assert answer.usage.cost_micros > 0, "the default is the one that answered"
    assert not models["far"].takes_tools
    told = whole.SerializeToString()
    for secret in (KEY, model_server.base_url, "anthropic.com"):
        assert secret.encode() not in told
    shown = capsys.readouterr().out
    assert "fine (default)" in shown
    assert "0.5 / 2" in shown
    assert "ABSENT_KEY" in shown
