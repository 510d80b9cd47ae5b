"""A worker's proxied calls: every answer finds its own call, and no other one does (C44, worker-dialogue-01)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolPolicy, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.loop import drive
from netaclaw_runner.protocol import encode
from netaclaw_runner.worker.channel import ChannelClosed, WorkerChannel
from netaclaw_runner.worker.offspring import Offspring
from netaclaw_runner.worker.stopping import Stopped
from netaclaw_runner.worker.task import WorkerTask

CASE = json.loads((Path(__file__).parents[2] / "cases" / "worker-dialogue-01.json").read_text())
RUN = "r1"


class Runner:
    """The other end of a worker's channel."""

    def __init__(self) -> None:
        self.end, theirs = socket.socketpair()
        self.channel = WorkerChannel(theirs.detach())
        self.channel.run_id = RUN

    def say(self, message: pb.ProxyToolResult | pb.Steer | pb.Cancel | pb.BudgetWarning, run: str = RUN) -> None:
        self.end.sendall(encode(run, message))


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.end.close()
    os.close(runner.channel._fd)


def _task(runner: Runner, proxy_timeout_s: float | None) -> WorkerTask:
    route = ToolRuntimeRoute(tool_name="lookup", route=ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY)
    envelope = pb.SubagentTaskEnvelope(
        run_id=RUN,
        tool_names=["lookup"],
        tool_manifest=[ToolManifest(tool_name="lookup")],
        policy=ToolPolicy(routes=[route]),
    )
    return WorkerTask(
        runner.channel,
        envelope,
        None,
        Offspring(first=False, children=None),
        synced=0,
        proxy_timeout_s=proxy_timeout_s,
    )


def _call(number: int) -> ToolCallPart:
    return ToolCallPart(call_id=str(number), tool_name="lookup", arguments_json="{}")


def test_late_stray_and_doubled_replies_are_taken_for_nothing(
    runner: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    replies = [line["line"] for line in CASE["lines"] if line.get("line", {}).get("type") == "proxy_reply"]
    [late] = drive(_task(runner, proxy_timeout_s=0.01).run_tools([_call(1)]))
    task = _task(runner, proxy_timeout_s=30)
    proxied = task.run_tools([_call(2)])  # runs when it is driven, and meets all four replies in its channel
    for reply in replies:
        runner.say(pb.ProxyToolResult(call_id=str(reply["id"]), content=reply["text"]))
    # The worker looks at what has come before it asks; a runner answers after it was asked, and so do we.
    attend, task.attend = task.attend, lambda: None  # type: ignore[method-assign]  # put back below
    [answered] = drive(proxied)
    attend()

    assert CASE["expect"]["call_1"] == "timed out"
    assert late.result.is_error
    assert "no result came" in late.result.content
    assert answered.result.content == CASE["expect"]["call_2"]
    assert capfd.readouterr().err.count("was ignored") == len(CASE["expect"]["ignored"])


def test_a_line_of_another_run_is_ignored(runner: Runner) -> None:
    runner.say(pb.ProxyToolResult(call_id="1", content="foreign"), run="other")
    [ended] = drive(_task(runner, proxy_timeout_s=0.01).run_tools([_call(1)]))

    assert ended.result.is_error


def test_steering_that_arrives_while_a_call_waits_enters_with_its_receipt(runner: Runner) -> None:
    task = _task(runner, proxy_timeout_s=0.01)
    runner.say(pb.Steer(request_id="s1", content="look north"))
    runner.say(pb.BudgetWarning(message="sum up"))
    drive(task.run_tools([_call(1)]))

    assert drive(task.take_steering()) == ["look north"]
    lines = [json.loads(line) for line in runner.end.recv(65536).splitlines()]
    assert [line["type"] for line in lines] == ["proxy_tool_call", "steer_taken"]
    assert lines[1]["requestId"] == "s1"


def test_a_cancel_line_stops_the_task_between_two_calls(runner: Runner) -> None:
    runner.say(pb.Cancel(reason="enough"))

    with pytest.raises(Stopped, match="enough"):
        drive(_task(runner, proxy_timeout_s=30).run_tools([_call(1)]))


def test_a_closed_channel_ends_the_worker(runner: Runner) -> None:
    runner.end.close()

    with pytest.raises(ChannelClosed):
        drive(_task(runner, proxy_timeout_s=30).take_steering())
