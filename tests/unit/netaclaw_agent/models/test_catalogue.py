"""The catalogue and its settings."""

import subprocess
import sys

import pytest

from netaclaw_agent.loop import user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from tests.fakes.openai_server import FakeOpenAI, Reply, Text


async def test_without_a_base_url_the_scripted_model_is_the_only_one_and_the_default() -> None:
    catalogue = ModelCatalogue(ModelSettings.from_environ({"NETACLAW_OPENAI_API_KEY": "k"}))
    assert catalogue.names == ["scripted"]
    assert catalogue.default_name == "scripted"
    assert catalogue.get("").name == "scripted"
    await catalogue.close()


async def test_with_a_base_url_the_openai_model_is_the_default_and_scripted_stays() -> None:
    settings = ModelSettings.from_environ({"NETACLAW_OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    catalogue = ModelCatalogue(settings)
    assert catalogue.names == ["openai", "scripted"]
    assert catalogue.get("").name == catalogue.default_name == "openai"
    assert catalogue.get("scripted").name == "scripted"
    await catalogue.close()
    await catalogue.close()


def test_an_unknown_name_is_a_final_error() -> None:
    with pytest.raises(ModelError) as caught:
        ModelCatalogue(ModelSettings()).get("nope")
    assert caught.value.reason == "MODEL_UNKNOWN"
    assert not caught.value.retryable


def test_settings_are_read_from_the_environment() -> None:
    settings = ModelSettings.from_environ(
        {
            "NETACLAW_OPENAI_BASE_URL": " http://localhost:8080/v1 ",
            "NETACLAW_OPENAI_API_KEY": "k",
            "NETACLAW_OPENAI_MODEL": "big",
            "NETACLAW_OPENAI_CONTEXT_WINDOW": "32000",
            "NETACLAW_MODEL_FIRST_TOKEN_TIMEOUT_S": "1.5",
            "NETACLAW_MODEL_IDLE_TIMEOUT_S": "2",
            "NETACLAW_MODEL_TOTAL_TIMEOUT_S": "3",
            "NETACLAW_MODEL_MAX_TRIES": "1",
        }
    )
    assert settings == ModelSettings("http://localhost:8080/v1", "k", "big", 32000, 1.5, 2.0, 3.0, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NETACLAW_OPENAI_BASE_URL", "localhost:8080"),
        ("NETACLAW_OPENAI_BASE_URL", "http://[canary"),
        ("NETACLAW_MODEL_IDLE_TIMEOUT_S", "canary"),
        ("NETACLAW_MODEL_IDLE_TIMEOUT_S", "nan"),
        ("NETACLAW_OPENAI_CONTEXT_WINDOW", "-1"),
    ],
)
def test_a_bad_setting_is_named_but_not_shown(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        ModelSettings.from_environ({name: value})
    assert "canary" not in str(caught.value)


def test_credentials_in_the_address_beside_a_key_are_refused() -> None:
    with pytest.raises(ValueError, match="credentials"):
        ModelSettings(openai_base_url="http://user:canary@127.0.0.1/v1", openai_api_key="k")


def test_the_key_is_not_part_of_the_settings_words() -> None:
    assert "canary" not in repr(ModelSettings(openai_api_key="canary"))


@pytest.mark.parametrize("cut", ["/v1", ""])
async def test_a_bare_host_gets_the_usual_path(cut: str) -> None:
    async with FakeOpenAI(lambda _: Reply([Text("ok")])) as server:
        catalogue = ModelCatalogue(ModelSettings(openai_base_url=server.base_url.removesuffix("/v1") + cut))
        call = ModelCall(system="", messages=[user_message("Hi")])
        events = [event async for event in catalogue.get("").stream(call, new_id=lambda: "x")]
        assert isinstance(events[-1], Finished)
        assert "Authorization" not in server.requests[0].headers
        await catalogue.close()


async def test_a_server_error_is_tried_again() -> None:
    replies = [Reply(status=503, headers={"Retry-After": "0"}), Reply([Text("ok")])]
    async with FakeOpenAI(lambda _: replies.pop(0)) as server:
        catalogue = ModelCatalogue(ModelSettings(openai_base_url=server.base_url))
        call = ModelCall(system="", messages=[user_message("Hi")])
        events = [event async for event in catalogue.get("").stream(call, new_id=lambda: "x")]
        assert isinstance(events[-1], Finished)
        assert events[-1].message.usage.model_calls == 2
        await catalogue.close()


def test_an_http_client_is_imported_only_where_a_provider_needs_it() -> None:
    program = (
        "import sys, netaclaw_agent.models.catalogue as c; c.ModelCatalogue(c.ModelSettings()); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "netaclaw_agent.models.catalogue" in loaded
    assert not {"aiohttp", "grpc", "asyncpg", "netaclaw_chassis"} & set(loaded)
