"""A real language model, on a real llama.cpp server from wheels that nobody here wrote. `make test-local` runs this.

Which words the model says is its business; that they come as a stream, are counted, and that a call is a call, is ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.entry_pb2 import FinishReason, Message, ToolCallPart, ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import LoopLimits, calls_of, run_loop, text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, TextDelta
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_chassis.ids import new_id
from netaclaw_cli import local_server
from netaclaw_cli.local_model import LocalModel
from tests.scenarios.conftest import open_suite, workspace  # noqa: F401  # fixtures
from tests.scenarios.reading import chat, of_kind
from tests.scenarios.suites import OpenSuite

TEMPLATE = Path(__file__).parent / "tools.jinja"
MARK = "<jupyter_code>"
END = "<|im_end|>"
"""Single tokens of the model's vocabulary: the template begins a call with the one and ends the answer with the other.
The server's grammar allows no end before a call, so that weight on both gives exactly one call."""
WEATHER = ToolManifest(
    tool_name="get_weather",
    description="The weather of a city",
    parameters_json=json.dumps(
        {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"]}
    ),
)

pytestmark = pytest.mark.timeout(240)  # a small machine under load gives a few tokens in a second


@pytest.fixture(autouse=True)
def _installed() -> None:
    lack = local_server.missing()
    if lack and os.environ.get("NETACLAW_TEST_LOCAL"):
        pytest.fail(lack)
    if lack:
        pytest.skip(f"{lack}: run `make test-local`")


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Base URL of a server whose template knows tools."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", local_server.__name__, "--chat-template", str(TEMPLATE)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield json.loads(await process.stdout.readline())["url"]
    process.stdin.close()
    assert await process.wait() == 0


async def catalogue(url: str, tmp_path: Path) -> ModelCatalogue:
    """`plain` just talks; `calling` begins with a call where one is demanded."""
    async with aiohttp.ClientSession() as session:
        asked = {"content": MARK + END, "parse_special": True}
        async with session.post(f"{url.removesuffix('/v1')}/tokenize", json=asked) as response:
            mark, end = (await response.json())["tokens"]
    file = tmp_path / "models.toml"
    file.write_text(
        f"""
        default = "plain"
        [providers.llama]
        kind = "openai"
        url = "{url}"
        max_concurrent = 1
        [models.plain]
        provider = "llama"
        window = 8192
        max_output_tokens = 16
        extra = {{ temperature = 0.0 }}
        [models.calling]
        provider = "llama"
        window = 8192
        max_output_tokens = 64
        extra = {{ temperature = 0.0, logit_bias = [[{mark}, 100], [{end}, 200]] }}
        """
    )
    return ModelCatalogue(ModelSettings.from_environ({"NETACLAW_MODELS_FILE": str(file)}))


class Port:
    """A loop whose first call has to be a tool call, and whose tool knows the weather."""

    def __init__(self, models: ModelCatalogue) -> None:
        self._models = models

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        first = len(transcript) == 1
        model = self._models.get("calling" if first else "plain")
        call = ModelCall(system="", messages=transcript, tools=[WEATHER], must_call_tool=first)
        events = [event async for event in model.stream(call, new_id=new_id)]
        assert isinstance(events[-1], Finished)
        return events[-1].message

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        for call in calls:
            call.state = ToolCallState.TOOL_CALL_STATE_COMPLETED
            call.result.content = "sunny"
        return list(calls)

    async def take_steering(self) -> list[str]:
        return []


async def test_a_real_server_completes_a_turn_with_a_forced_tool_call(server: str, tmp_path: Path) -> None:
    models = await catalogue(server, tmp_path)
    transcript = [user_message("What is the weather in Paris?")]
    end = await run_loop(Port(models), transcript, LoopLimits(max_rounds=2))
    await models.close()
    _, asking, answering = transcript
    [call] = calls_of(asking)
    assert call.tool_name == "get_weather"
    assert json.loads(call.arguments_json)["city"] in ("Paris", "Rome")
    assert call.provider_call_id
    assert asking.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS
    assert end.state in (
        SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED,
        SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL,  # it may ramble beyond its few tokens
    )
    assert text_of(answering).strip()
    for message in (asking, answering):
        assert message.usage.input_tokens > 0
        assert 0 < message.usage.output_tokens <= 64
        assert not message.usage.estimated_calls


async def test_a_real_stream_comes_in_pieces_and_a_prompt_that_does_not_fit_says_so(
    server: str, tmp_path: Path
) -> None:
    models = await catalogue(server, tmp_path)
    call = ModelCall(system="You are brief.", messages=[user_message("Count from one to ten.")])
    events = [event async for event in models.get("").stream(call, new_id=new_id)]
    assert isinstance(events[-1], Finished)
    deltas = [event.text for event in events[:-1] if isinstance(event, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == text_of(events[-1].message)
    long = ModelCall(system="", messages=[user_message("word " * 9000)])
    with pytest.raises(ModelError) as caught:
        await anext(models.get("").stream(long, new_id=new_id).__aiter__())
    assert (caught.value.reason, caught.value.retryable) == ("CONTEXT_TOO_LONG", False)
    await models.close()


async def test_the_suite_starts_the_local_model_with_the_first_call(
    open_suite: OpenSuite,  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        """
        default = "tiny"
        [providers.here]
        kind = "local"
        [models.tiny]
        provider = "here"
        window = 8192
        tools = false
        max_output_tokens = 12
        """
    )
    async with open_suite("four_processes", NETACLAW_MODELS_FILE=str(file)) as suite, suite.client() as client:
        assert suite.processes is not None
        assert suite.processes.local_model_pid is None
        events = [event async for event in chat(client, ChatRequest(content="Say hello."))]
        pid = suite.processes.local_model_pid
        assert pid is not None
    assert not of_kind(events, "error")
    [done] = of_kind(events, "done")
    assert 0 < done.done.usage.output_tokens <= 12
    text = "".join(event.assistant_stream_delta.text for event in of_kind(events, "assistant_stream_delta"))
    assert text.strip()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_nobody_connected_for_a_while_ends_the_process_and_the_next_call_starts_it_again() -> None:
    async with LocalModel(os.environ, idle_s=0.01) as model, aiohttp.ClientSession() as session:
        pids = []
        for _ in range(2):
            async with session.get(f"{model.url}/models", headers={"Connection": "close"}) as response:
                assert response.status == 200
                pids.append(model.pid)
            async with asyncio.timeout(30):
                while model.pid is not None:  # noqa: ASYNC110  # another process makes it true
                    await asyncio.sleep(0.01)  # a bounded poll
        assert len(set(pids)) == 2
