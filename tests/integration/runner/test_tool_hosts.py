"""Tool hosts: a session's own tools in a worker without a loop."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1 import runner_service_pb2 as rs
from netaclaw.tool.v1.tool_pb2 import SandboxMode
from netaclaw_agent.policy import Scene, main_policy
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_chassis.errors import from_rpc
from netaclaw_chassis.ids import new_id
from netaclaw_runner.launcher import ExecLauncher
from netaclaw_runner.limits import Limits
from tests.integration.runner.launchers import GatedLauncher
from tests.integration.runner.rig import Rig, alive, program, runner
from tests.processes import gone

FILE_TOOLS = ["list_files", "read_file", "search_files", "write_file"]
HostStream = grpc.aio.StreamStreamCall[rs.HostToolsRequest, rs.HostToolsResponse]

HOST_PROGRAM = """
start()
while True:
    call = receive()
    if call["toolName"] == "list_files":
        os.kill(os.getpid(), 9)
    if call["toolName"] == "search_files":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send("tool_output", callId=call["callId"], text="searching")
        hang()
    send("tool_result", callId="stray", content="stray")
    send("tool_result", callId=call["callId"], content=str(os.getpid()))
"""


class Host:
    """A caller of a tool host."""

    def __init__(self, stream: HostStream) -> None:
        self.stream = stream

    async def open(self, opened: rs.HostToolsOpen) -> rs.HostToolsResponse:
        await self.stream.write(rs.HostToolsRequest(open=opened))
        return await self.next()

    async def next(self) -> rs.HostToolsResponse:
        response = await self.stream.read()
        assert isinstance(response, rs.HostToolsResponse)
        return response

    async def send(self, call_id: str, name: str, **arguments: object) -> None:
        call = pb.ToolCall(call_id=call_id, tool_name=name, arguments_json=json.dumps(arguments))
        await self.stream.write(rs.HostToolsRequest(call=call))

    async def call(self, call_id: str, name: str, **arguments: object) -> pb.ToolResultLine:
        await self.send(call_id, name, **arguments)
        return (await self.next()).result

    async def cancel(self, call_id: str) -> None:
        await self.stream.write(rs.HostToolsRequest(cancel=rs.HostToolCancel(call_id=call_id)))


def opening(workspace: str = "docs", agent: Agent | None = None, tools: Sequence[str] = FILE_TOOLS) -> rs.HostToolsOpen:
    """A host on a workspace, for an agent."""
    policy = main_policy(
        agent or Agent(name="main"), scene=Scene.SUPERVISOR, workspace=workspace, settings=SubagentSettings()
    )
    host = pb.HostStart(protocol_version=1, policy=policy, tool_names=tools)
    return rs.HostToolsOpen(session_id=new_id(), owner_id="owner-1", host=host)


@asynccontextmanager
async def _host(rig: Rig, opened: rs.HostToolsOpen | None = None) -> AsyncIterator[tuple[Host, int]]:
    host = Host(rig.stub.HostTools())
    started = (await host.open(opened or opening())).started
    yield host, started.pid
    host.stream.cancel()
    await gone(started.pid)


async def test_list_read_search_and_write_on_the_sessions_workspace(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig, _host(rig) as (host, pid):
        assert (await host.call("1", "write_file", path="new/out.txt", content="你好\n")).content.startswith("wrote 7")
        assert (await host.call("2", "read_file", path="new/out.txt")).content == "你好\n"
        assert "notes.txt" in (await host.call("3", "list_files")).content
        assert "second line" in (await host.call("4", "search_files", query="second")).content
        outside = await host.call("5", "read_file", path="../../etc/passwd")
        assert outside.is_error
        assert (tmp_path / "docs" / "new" / "out.txt").read_text() == "你好\n"
        status = await rig.status()
        assert (status.tool_hosts, len(status.runs)) == (1, 0)
        assert alive(pid)


async def test_the_default_workspace_is_the_owners_own(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig, _host(rig, opening("default")) as (host, _):
        assert not (await host.call("1", "write_file", path="mine.txt", content="x")).is_error
        assert (rig.data_dir / "workspaces" / "owner-1" / "mine.txt").exists()


async def test_calls_are_queued_and_answered_by_id_in_order(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig, _host(rig) as (host, _):
        for number in range(20):
            await host.send(str(number), "read_file", path="notes.txt")
        answers = [(await host.next()).result for _ in range(20)]

    assert [answer.call_id for answer in answers] == [str(number) for number in range(20)]
    assert not any(answer.is_error for answer in answers)


@pytest.mark.parametrize(
    ("agent", "name", "words"),
    [
        (Agent(name="a", read_only=True), "write_file", "write_file"),
        (Agent(name="a"), "delegate_task", "there is no tool"),
        (Agent(name="a"), "run_shell", "there is no tool"),
    ],
)
async def test_policy_is_enforced_where_the_tool_runs(tmp_path: Path, agent: Agent, name: str, words: str) -> None:
    async with runner(tmp_path) as rig, _host(rig, opening(agent=agent)) as (host, _):
        refused = await host.call("1", name, path="out.txt", content="x")

    assert refused.is_error
    assert words in refused.content
    assert not (tmp_path / "docs" / "out.txt").exists()


async def test_arguments_that_are_not_json_are_an_error_that_a_model_can_read(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig, _host(rig) as (host, _):
        call = pb.ToolCall(call_id="1", tool_name="read_file", arguments_json='{"path": ')
        await host.stream.write(rs.HostToolsRequest(call=call))
        result = (await host.next()).result

    assert result.is_error
    assert "not valid JSON" in result.content


async def test_a_host_that_dies_gives_a_doubtful_result_and_a_fresh_one_serves_the_next_call(tmp_path: Path) -> None:
    async with runner(tmp_path, launcher=program(HOST_PROGRAM)) as rig, _host(rig) as (host, first):
        died = await host.call("1", "list_files")
        second = int((await host.call("2", "read_file")).content)
        os.kill(second, signal.SIGKILL)  # idle, this time
        await gone(second)
        third = int((await host.call("3", "read_file")).content)
        assert len({first, second, third}) == 3
        assert not alive(first)
        assert not alive(second)

    assert died.is_error
    assert "may have had effect" in died.content
    await gone(third)


async def test_cancelling_a_running_call_kills_and_replaces_a_host_that_does_not_answer(tmp_path: Path) -> None:
    limits = Limits(cancel_s=0.05, term_s=0.1)
    async with runner(tmp_path, launcher=program(HOST_PROGRAM), limits=limits) as rig, _host(rig) as (host, first):
        await host.send("1", "search_files")
        await host.send("2", "read_file")
        await host.send("3", "read_file")
        assert (await host.next()).output.text == "searching"
        await host.cancel("3")
        await host.cancel("1")
        results = [(await host.next()).result for _ in range(3)]
        assert not alive(first)

    assert [(result.call_id, result.is_error) for result in results] == [("3", True), ("1", True), ("2", False)]
    assert results[0].content == "stopped before it began"
    assert "may have had effect" in results[1].content


async def test_a_call_that_is_stopped_while_its_worker_is_being_started_never_runs(tmp_path: Path) -> None:
    launcher = GatedLauncher()
    launcher.opened.set()
    async with runner(tmp_path, launcher=launcher) as rig, _host(rig) as (host, first):
        os.kill(first, signal.SIGKILL)
        await gone(first)
        launcher.asked.clear()
        launcher.opened.clear()
        await host.send("1", "write_file", path="out.txt", content="x")
        await launcher.asked.wait()
        await host.send("2", "list_files")
        await host.cancel("1")
        await host.cancel("2")
        queued = (await host.next()).result
        launcher.opened.set()
        starting = (await host.next()).result
        after = await host.call("3", "list_files")

    assert [queued.content, starting.content] == ["stopped before it began"] * 2
    assert (starting.call_id, starting.is_error, after.is_error) == ("1", True, False)
    assert not (tmp_path / "docs" / "out.txt").exists()


async def test_the_streams_end_ends_the_host(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig:
        async with _host(rig) as (_, pid):
            pass
        await gone(pid)
        async with _host(rig):
            assert (await rig.status()).tool_hosts == 1


async def test_in_a_full_house_the_host_that_was_idle_longest_gives_its_place(tmp_path: Path) -> None:
    async with runner(tmp_path, max_workers=2) as rig, _host(rig) as (one, first), _host(rig) as (two, second):
        await two.call("1", "list_files")
        await one.call("1", "list_files")
        async with _host(rig) as (three, _):
            assert await two.stream.read() is grpc.aio.EOF
            await gone(second)
            assert not (await three.call("1", "list_files")).is_error
            assert not (await one.call("2", "list_files")).is_error
            assert (alive(first), (await rig.status()).tool_hosts) == (True, 2)


async def test_hosts_at_work_have_a_limit_of_their_own(tmp_path: Path) -> None:
    launcher = program(HOST_PROGRAM)
    async with runner(tmp_path, launcher=launcher, max_workers=1) as rig, _host(rig) as (host, _):
        await host.send("1", "search_files")
        assert (await host.next()).output.text == "searching"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Host(rig.stub.HostTools()).open(opening())
        assert (await rig.status()).tool_hosts == 1

    assert from_rpc(caught.value).metadata["limit"] == "max_tool_hosts"


async def test_hosts_are_counted_apart_from_runs(tmp_path: Path) -> None:
    async with runner(tmp_path, max_workers=1) as rig, _host(rig):
        assert (await rig.run()).ended.error == "the answer was empty"  # a run still starts


async def test_a_host_that_cannot_be_opened_is_refused_with_its_reason(tmp_path: Path) -> None:
    strict = opening()
    strict.host.policy.sandbox = SandboxMode.SANDBOX_MODE_REQUIRED
    expected = [
        (opening("elsewhere"), Reason.REASON_WORKSPACE_NOT_FOUND),
        (strict, Reason.REASON_SANDBOX_UNAVAILABLE),
        (rs.HostToolsOpen(), Reason.REASON_INVALID_FIELD),
    ]
    async with runner(tmp_path, launcher=ExecLauncher()) as rig:  # it cannot confine
        for wrong, reason in expected:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Host(rig.stub.HostTools()).open(wrong)
            assert from_rpc(caught.value).reason == reason
        assert (await rig.status()).tool_hosts == 0


async def test_a_host_that_never_starts_is_unavailable(tmp_path: Path) -> None:
    limits = Limits(start_s=0.3, cancel_s=0.05, term_s=0.1)
    async with runner(tmp_path, launcher=program("hang()"), limits=limits) as rig:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Host(rig.stub.HostTools()).open(opening())

    assert from_rpc(caught.value).reason == Reason.REASON_SERVICE_UNAVAILABLE
