"""The orchestrator's end of a tool host, before a real runner that goes, comes late or gives the host's place away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.subagent.v1.envelope_pb2 import ToolCall
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_agent.policy import Scene, main_policy
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator import tool_host as orchestrators_end
from netaclaw_orchestrator.tool_host import ToolHost
from netaclaw_runner import tool_host as runners_end
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import Rig, program, runner

SLOW = """
start()
call = receive()
send("tool_output", callId=call["callId"], text="half of it")
hang()
"""

STEADY = """
start()
while True:
    call = receive()
    pause(0.4)
    send("tool_result", callId=call["callId"], content="done")
"""


def _host(rig: Rig) -> ToolHost:
    policy = main_policy(Agent(name="main"), scene=Scene.SUPERVISOR, workspace="docs", settings=SubagentSettings())
    return ToolHost(rig.stub, owner_id="owner-1", session_id=new_id(), policy=policy)


def _write(call_id: str = "1", content: str = "x") -> ToolCallPart:
    arguments = json.dumps({"path": "out.txt", "content": content})
    return ToolCallPart(call_id=call_id, tool_name="write_file", arguments_json=arguments)


async def test_a_call_whose_runner_goes_while_it_runs_may_have_had_effect(tmp_path: Path) -> None:
    began = asyncio.Event()
    async with runner(tmp_path, launcher=program(SLOW)) as rig:
        host = _host(rig)
        running = asyncio.create_task(host.run(_write(), lambda _: began.set()))
        await began.wait()
    result = await running
    await host.close()

    assert result.is_error
    assert "may have had effect" in result.content


async def test_a_call_may_wait_for_those_before_it_however_long_they_take_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orchestrators_end, "CALL_TIMEOUT_S", 1.0)
    async with runner(tmp_path, launcher=program(STEADY)) as rig:
        host = _host(rig)
        calls = [host.run(_write(str(n)), lambda _: None) for n in range(4)]
        results = await asyncio.gather(*calls)
        await host.close()

    assert [result.content for result in results] == ["done"] * 4


async def test_a_call_that_its_host_never_answers_is_stopped_and_may_have_had_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orchestrators_end, "CALL_TIMEOUT_S", 0.3)
    async with runner(tmp_path, launcher=program(SLOW), limits=Limits(cancel_s=0.05, term_s=0.1)) as rig:
        host = _host(rig)
        result = await host.run(_write(), lambda _: None)
        await host.close()

    assert result.is_error
    assert "may have had effect" in result.content


async def test_a_host_that_cannot_be_opened_has_had_no_effect(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig:
        host = _host(rig)
        host.policy.workspace = "elsewhere"
        result = await host.run(_write(), lambda _: None)
        await host.close()

    assert result.is_error
    assert "could not run this" in result.content


async def test_a_call_that_crosses_with_the_end_of_its_idle_host_is_run_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = runners_end.ToolHost.call
    taken = 0

    async def give_up_before_the_second(host: runners_end.ToolHost, call: ToolCall) -> None:
        nonlocal taken
        taken += 1
        if taken == 2:
            host.give_up()
        await take(host, call)

    monkeypatch.setattr(runners_end.ToolHost, "call", give_up_before_the_second)
    async with runner(tmp_path) as rig:
        host = _host(rig)
        results = [await host.run(_write(str(n), str(n)), lambda _: None) for n in range(3)]
        await host.close()

    assert [result.is_error for result in results] == [False] * 3
    assert taken == 4
    assert (tmp_path / "docs" / "out.txt").read_text() == "2"


async def test_a_call_that_is_cancelled_while_its_host_is_being_opened_keeps_no_later_one_waiting(
    tmp_path: Path,
) -> None:
    reached, let = asyncio.Event(), asyncio.Event()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await let.wait()
        with contextlib.suppress(ConnectionError):
            inner = await asyncio.open_connection(*address.rsplit(":", 1))
            await asyncio.gather(_copy(reader, inner[1]), _copy(inner[0], writer))

    async with runner(tmp_path) as rig:
        address = rig.address
        server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with connect(f"127.0.0.1:{port}") as channel:
            rig.stub = RunnerServiceStub(channel)
            host = _host(rig)
            first = asyncio.create_task(host.run(_write("1", "first"), lambda _: None))
            await reached.wait()
            first.cancel()
            await asyncio.wait([first])
            let.set()
            async with asyncio.timeout(20):
                result = await host.run(_write("2", "second"), lambda _: None)
            await host.close()
        server.close()

    assert first.cancelled()
    assert not result.is_error
    assert (tmp_path / "docs" / "out.txt").read_text() == "second"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
