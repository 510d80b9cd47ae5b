"""The catalogue and its settings."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netaclaw.model.v1.model_pb2 import (
    MODEL_AVAILABILITY_AVAILABLE,
    MODEL_AVAILABILITY_KEY_MISSING,
    MODEL_AVAILABILITY_NOT_INSTALLED,
    ModelPrices,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.loop import user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, TextDelta
from netaclaw_agent.models.anthropic_request import AnthropicOptions
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.openai_request import OpenAIOptions
from netaclaw_agent.models.thinking import LEVELS, ThinkingStyle
from tests.fakes.openai_server import FakeOpenAI, Reply, Text, Tokens, Wait

ASKED = ModelCall(system="", messages=[user_message("Hi")])


async def test_without_a_base_url_the_scripted_model_is_the_default() -> None:
    catalogue = ModelCatalogue(ModelSettings.from_environ({"NETACLAW_OPENAI_API_KEY": "k"}))
    assert catalogue.names == ["scripted", "local"]
    assert catalogue.default_name == "scripted"
    assert catalogue.get("").name == "scripted"
    await catalogue.close()


async def test_with_a_base_url_the_openai_model_is_the_default_and_scripted_stays() -> None:
    settings = ModelSettings.from_environ({"NETACLAW_OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    catalogue = ModelCatalogue(settings)
    assert catalogue.names == ["openai", "local", "scripted"]
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


async def test_the_local_model_says_what_is_missing() -> None:
    with pytest.raises(ModelError, match="not installed") as caught:
        await anext(ModelCatalogue(ModelSettings()).get("local").stream(ASKED, new_id=lambda: "x").__aiter__())
    assert (caught.value.reason, caught.value.retryable) == ("MODEL_REFUSED", False)


FILE = """
default = "deep"

[providers.claude]
kind = "anthropic"
key_env = "CANARY_KEY"
max_concurrent = 2
first_token_timeout_s = 7.5

[providers.deepseek]
kind = "openai"
url = "https://api.deepseek.com/v1"

[providers.rules]
kind = "scripted"

[models.sonnet]
provider = "claude"
model = "claude-sonnet"
window = 200000
input_price = 3
output_price = 15.0
cached_input_price = 0.3
max_output_tokens = 32000
thinking = "adaptive"

[models.deep]
provider = "deepseek"
model = "deepseek-reasoner"
window = 64000
tools = false
efforts = { off = "none" }

[models.canned]
provider = "rules"
"""


def read(tmp_path: Path, text: str, **environ: str) -> ModelSettings:
    path = tmp_path / "models.toml"
    path.write_text(text, encoding="utf-8")
    return ModelSettings.from_environ({"NETACLAW_MODELS_FILE": str(path), **environ})


async def test_a_file_names_providers_and_models(tmp_path: Path) -> None:
    settings = read(tmp_path, FILE, CANARY_KEY="canary", NETACLAW_MODEL_IDLE_TIMEOUT_S="9")
    catalogue = ModelCatalogue(settings)
    assert catalogue.names == ["deep", "canned", "local", "scripted", "sonnet"]
    assert catalogue.get("").name == "deep"
    assert catalogue.get("sonnet").context_window == 200_000
    claude = settings.file.providers["claude"]
    assert (claude.url, claude.key, claude.max_concurrent) == ("https://api.anthropic.com", "canary", 2)
    assert claude.limits == StreamLimits(7.5, 9.0, 600.0)
    sonnet, deep = settings.file.models["sonnet"].options, settings.file.models["deep"].options
    assert isinstance(sonnet, AnthropicOptions)
    assert (sonnet.thinking.style, sonnet.max_output_tokens) == (ThinkingStyle.ADAPTIVE, 32_000)
    assert isinstance(deep, OpenAIOptions)
    assert (deep.thinking.style, deep.sends_reasoning, deep.has_tools) == (ThinkingStyle.TYPE, True, False)
    assert deep.thinking.efforts[LEVELS["off"]] == "none"
    usage = Usage(input_tokens=1_000_000, cached_input_tokens=500_000, output_tokens=100_000)
    assert catalogue.cost("sonnet", usage) == 1_500_000 + 150_000 + 1_500_000
    assert catalogue.cost("deep", usage) == 0
    assert "canary" not in repr(settings)
    await catalogue.close()


async def test_a_missing_key_is_named_when_the_model_is_asked(tmp_path: Path) -> None:
    catalogue = ModelCatalogue(read(tmp_path, FILE))
    with pytest.raises(ModelError, match="CANARY_KEY is not set") as caught:
        await anext(catalogue.get("sonnet").stream(ASKED, new_id=lambda: "x").__aiter__())
    assert not caught.value.retryable
    await catalogue.close()


async def test_what_is_told_of_models_is_what_the_file_says_and_no_secret(tmp_path: Path) -> None:
    catalogue = ModelCatalogue(read(tmp_path, FILE))
    listed = {model.name: model for model in catalogue.listed()}
    assert list(listed) == ["canned", "deep", "local", "scripted", "sonnet"]
    assert [name for name, model in listed.items() if model.is_default] == ["deep"]
    sonnet, deep, canned = listed["sonnet"], listed["deep"], listed["canned"]
    assert (sonnet.provider, sonnet.context_window, sonnet.max_output_tokens) == ("claude", 200_000, 32_000)
    assert (sonnet.takes_tools, sonnet.takes_thinking_level) == (True, True)
    assert sonnet.prices == ModelPrices(input_micros=3_000_000, output_micros=15_000_000, cached_input_micros=300_000)
    assert sonnet.availability == MODEL_AVAILABILITY_KEY_MISSING
    assert "CANARY_KEY is not set" in sonnet.unavailable_reason
    assert (deep.takes_tools, deep.max_output_tokens, deep.HasField("prices")) == (False, 0, False)
    assert (canned.takes_tools, canned.takes_thinking_level, canned.context_window) == (True, False, 128_000)
    assert listed["local"].availability == MODEL_AVAILABILITY_NOT_INSTALLED
    for name in ("deep", "canned", "scripted"):
        assert listed[name].availability == MODEL_AVAILABILITY_AVAILABLE
        assert not listed[name].unavailable_reason
    await catalogue.close()
    with_key = ModelCatalogue(read(tmp_path, FILE, CANARY_KEY="canary"))
    told = with_key.listed()
    assert [model.availability for model in told if model.name == "sonnet"] == [MODEL_AVAILABILITY_AVAILABLE]
    assert not [word for word in ("canary", "://") if word in str(told)]
    await with_key.close()


async def test_the_environments_model_stands_beside_the_file(tmp_path: Path) -> None:
    settings = read(tmp_path, FILE, NETACLAW_OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    catalogue = ModelCatalogue(settings)
    assert catalogue.names == ["deep", "canned", "local", "openai", "scripted", "sonnet"]
    await catalogue.close()


PROVIDER = '[providers.p]\nkind = "openai"\nurl = "http://127.0.0.1:9/v1"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[", "not TOML"),
        ("colour = 1", "the file: colour is not known"),
        ('default = "x"', r"default: there is no \[models.x\]"),
        ("providers = 1", "the file: providers must be a table"),
        ("[providers]\np = 1", "p must be a table"),
        ('[providers.p]\nkind = "smoke"', "kind must be one of openai"),
        ('[providers.p]\nkind = "openai"', r"\[providers.p\]: url is required"),
        ('[providers.p]\nkind = "openai"\nurl = "ftp://x"', "url must be an http"),
        ('[providers.p]\nkind = "openai"\nurl = "http://u:canary@x/v1"', "without credentials"),
        (PROVIDER + 'key = "canary"', "key_env"),
        (PROVIDER + "max_concurrent = -1", "max_concurrent must be from 0"),
        (PROVIDER + "idle_timeout_s = 0", "idle_timeout_s must be above 0"),
        (PROVIDER + "idle_timeout_s = nan", "idle_timeout_s must be"),
        ("[models.m]\nwindow = 1", r"\[models.m\]: provider is required"),
        ('[models.m]\nprovider = "q"\nwindow = 1', "names no"),
        (PROVIDER + '[models.m]\nprovider = "p"', "window is required"),
        (PROVIDER + '[models.m]\nprovider = "p"\nwindow = true', "window must be a whole number"),
        (PROVIDER + '[models.m]\nprovider = "p"\nwindow = 1\ninput_price = -1', "input_price must be from 0"),
        (PROVIDER + '[models.m]\nprovider = "p"\nwindow = 1\nthinking = "budget"', "thinking must be one of"),
        (PROVIDER + '[models.m]\nprovider = "p"\nwindow = 1\nefforts = {huge = "x"}', "efforts: huge is not known"),
        (PROVIDER + '[models.m]\nprovider = "p"\nwindow = 1\nprice = 1', "price is not known"),
        (PROVIDER + '[models." "]\nprovider = "p"\nwindow = 1', "printable"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read(tmp_path, text)
    assert "NETACLAW_MODELS_FILE" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NETACLAW_MODELS_FILE cannot be read: No such file"):
        ModelSettings.from_environ({"NETACLAW_MODELS_FILE": str(tmp_path / "none")})
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        ModelSettings.from_environ({"NETACLAW_MODELS_FILE": str(tmp_path / "binary")})


async def test_the_models_of_one_provider_share_its_slots(tmp_path: Path) -> None:
    more, running = asyncio.Event(), []

    async def rule(body: dict[str, Any]) -> Reply:
        running.append(body["model"])
        return Reply([Text("ok"), Wait(more)])

    async with FakeOpenAI(rule) as server:
        text = f'[providers.p]\nkind = "openai"\nurl = "{server.base_url}"\nmax_concurrent = 1\n'
        for name in ("a", "b"):
            text += f'[models.{name}]\nprovider = "p"\nwindow = 1000\n'
        catalogue = ModelCatalogue(read(tmp_path, text))

        async def ask(name: str) -> None:
            async for _ in catalogue.get(name).stream(ASKED, new_id=lambda: "x"):
                pass

        first = catalogue.get("a").stream(ASKED, new_id=lambda: "x").__aiter__()
        assert await anext(first) == TextDelta("ok")
        second = asyncio.create_task(ask("b"))
        more.set()
        assert isinstance(await anext(first), Finished)
        assert running == ["a"]
        with pytest.raises(StopAsyncIteration):
            await anext(first)
        await second
        assert running == ["a", "b"]
        await catalogue.close()


async def test_cost_is_part_of_what_a_call_reports(tmp_path: Path) -> None:
    async with FakeOpenAI(lambda _: Reply([Text("ok"), Tokens(100, 10)])) as server:
        text = f'[providers.p]\nkind = "openai"\nurl = "{server.base_url}"\n'
        text += '[models.m]\nprovider = "p"\nwindow = 1000\ninput_price = 2\noutput_price = 5\n'
        catalogue = ModelCatalogue(read(tmp_path, text))
        events = [event async for event in catalogue.get("m").stream(ASKED, new_id=lambda: "x")]
        assert isinstance(events[-1], Finished)
        assert events[-1].message.usage.cost_micros == 250
        await catalogue.close()
