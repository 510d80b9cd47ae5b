"""Commands: streamed, limited, and ended with everything that they have started."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import ToolRoute
from netaclaw_agent.loop import calls_of
from netaclaw_runner.launcher import BOOT, ExecLauncher, Launcher
from netaclaw_runner.limits import Limits
from tests.integration.runner.launchers import LAUNCHERS, open_launcher
from tests.integration.runner.rig import RunFollower, ScriptModel, runner, sleeping, task_envelope
from tests.integration.runner.test_tool_hosts import Host, opening

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
SHELL = Agent(name="worker", shell_enabled=True)

DAEMONS = """
setsid -f sleep {mark} >/dev/null 2>&1 </dev/null
(setsid bash -c 'sleep {mark} & sleep {mark}' &) >/dev/null 2>&1
(nohup sleep {mark} >/dev/null 2>&1 &)
"""
"""Five processes in sessions of their own, orphans among them."""


@pytest.fixture(params=LAUNCHERS)
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    async with open_launcher(request.param) as made:
        yield made


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> int:
    """A number of seconds to sleep that names this test's processes."""
    return 70_000 + abs(hash(request.node.nodeid)) % 10_000_000


def asks(command: str, **more: object) -> list[tuple[str, str]]:
    """A model step that calls the tool."""
    return [("run_shell", json.dumps({"command": command, **more}))]


async def _run(
    tmp_path: Path, launcher: Launcher, command: str, **more: object
) -> tuple[RunFollower, pb.ToolResultLine]:
    async with runner(tmp_path, ScriptModel(asks(command, **more), "done"), launcher=launcher) as rig:
        run = await rig.run(task_envelope(agent=SHELL))
    assert run.ended.state == COMPLETED, run.ended
    [result] = [event.tool_result for event in run.events if event.HasField("tool_result")]
    return run, result


async def test_output_and_exit_code_are_the_result(tmp_path: Path, launcher: Launcher) -> None:
    run, result = await _run(tmp_path, launcher, "cat notes.txt; echo wrong >&2; exit 3")

    assert result.content == "first line\nsecond line\nwrong\n# exit code 3"
    assert not result.is_error
    [call] = calls_of(run.transcript[1])
    assert call.route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL


async def test_a_command_runs_where_it_is_told_with_a_small_environment_and_no_input(
    tmp_path: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C53: a command prints its environment and its parent's."""
    monkeypatch.setenv("NETACLAW_OPENAI_API_KEY", "canary-91ab")
    (tmp_path / "docs" / "inner").mkdir(parents=True)
    command = "basename $PWD; cat; env | cut -d= -f1 | sort | tr '\\n' ' '; cat /proc/$PPID/environ | tr '\\0' ' '"
    _, result = await _run(tmp_path, launcher, command, cwd="inner")

    assert "canary" not in result.content
    where, names, *_ = result.content.splitlines()
    assert where == "inner"
    assert names.split()[:6] == ["HOME", "LC_ALL", "PATH", "PWD", "SHLVL", "TERM"]


async def test_a_flood_is_drained_and_its_beginning_and_end_are_kept(tmp_path: Path, launcher: Launcher) -> None:
    command = "echo start; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo finish"
    run, result = await _run(tmp_path, launcher, command)

    assert result.content.startswith("start\nxxx")
    assert result.content.endswith("xxx\nfinish\n# exit code 0")
    assert " of 20000014 bytes cut here" in result.content
    assert len(result.content.encode()) <= 64 * 1024
    assert max(event.ByteSize() for event in run.events) < 1024 * 1024


async def test_output_that_is_not_text_is_made_text(tmp_path: Path, launcher: Launcher) -> None:
    _, result = await _run(tmp_path, launcher, r"printf '\xff\x00a'; printf '\xe4\xbd'; printf '\xa0'")

    assert result.content == "\ufffd\ufffda你\n# exit code 0"


@pytest.mark.parametrize(
    "command",
    ["sleep {mark} | cat", "trap '' TERM; while :; do sleep {mark}; done", DAEMONS + "sleep {mark}"],
    ids=["pipeline", "ignores TERM", "daemons"],
)
async def test_a_command_out_of_time_is_stopped_with_all_that_it_has_started(
    tmp_path: Path, launcher: Launcher, mark: int, command: str
) -> None:
    _, result = await _run(tmp_path, launcher, "echo so far;" + command.format(mark=mark), timeout_s=1)

    assert result.is_error
    assert result.content == "so far\n# stopped after 1 s, with all that it had started"
    assert not sleeping(mark)


async def test_processes_left_behind_do_not_hold_the_call_and_end_with_it(
    tmp_path: Path, launcher: Launcher, mark: int
) -> None:
    """C41: a silent ten-minute process in a session of its own, and one that holds the pipe."""
    command = DAEMONS.format(mark=mark) + f"sleep {mark} & echo up"
    _, result = await _run(tmp_path, launcher, command)

    assert result.content == "up\n# processes that it had left running were ended\n# exit code 0"
    assert not sleeping(mark)


async def test_a_cancel_reaches_a_worker_whose_command_runs(tmp_path: Path, launcher: Launcher, mark: int) -> None:
    """C12: no descendant is alive when the end is reported, and the worker ended by itself."""
    command = DAEMONS.format(mark=mark) + f"echo up; sleep {mark}"
    limits = Limits(cancel_s=5.0)
    async with runner(tmp_path, ScriptModel(asks(command), "x"), launcher=launcher, limits=limits) as rig:
        run = await rig.start(task_envelope(agent=SHELL))
        await run.until("tool_output")
        assert sleeping(mark)
        await run.tell(cancel=pb.Cancel(reason="enough"))
        ended = await run.finish()
        assert not sleeping(mark)

    assert (ended.state, ended.error) == (CANCELLED, "enough")
    assert not any("SIGTERM" in line for line in ended.diagnostics)


async def test_a_killed_worker_takes_its_commands_along(tmp_path: Path, launcher: Launcher, mark: int) -> None:
    limits = Limits(cancel_s=0.0, term_s=0.0)
    async with runner(
        tmp_path, ScriptModel(asks(f"sleep {mark} & echo up; wait"), "x"), launcher=launcher, limits=limits
    ) as rig:
        run = await rig.start(task_envelope(agent=SHELL))
        await run.until("tool_output")
        assert sleeping(mark)
        await run.tell(cancel=pb.Cancel())
        await run.finish()
        assert not sleeping(mark)


async def test_steering_during_a_command_enters_before_the_next_model_call(tmp_path: Path, mark: int) -> None:
    model = ScriptModel(asks("until [ -e go ]; do sleep 0.01; done"), "north")
    async with runner(tmp_path, model) as rig:
        run = await rig.start(task_envelope(agent=SHELL))
        await run.until("tool_call")
        await run.tell(steer=pb.Steer(request_id="s1", content="look north"))
        (rig.workspace / "go").touch()
        await run.until("steer_taken")
        assert (await run.finish()).state == COMPLETED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": " "}, "command is empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "true", "timeout_s": 601}, "timeout_s must be from 1 to 600"),
        ({"command": "true", "cwd": "../.."}, "paths cannot leave the workspace"),
        ({"command": "true", "cwd": "notes.txt"}, "not a folder"),
        ({"command": "x" * 70_000}, "longer than"),
    ],
)
async def test_a_call_that_does_not_fit_is_an_error_that_a_model_can_read(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    async with runner(tmp_path, ScriptModel([("run_shell", json.dumps(arguments))], "done")) as rig:
        run = await rig.run(task_envelope(agent=SHELL))
    [result] = [event.tool_result for event in run.events if event.HasField("tool_result")]

    assert result.is_error
    assert words in result.content


async def test_a_tool_host_runs_commands_streams_them_and_stops_one(
    tmp_path: Path, launcher: Launcher, mark: int
) -> None:
    opened = opening(agent=SHELL, tools=["run_shell", "read_file"])
    async with runner(tmp_path, launcher=launcher) as rig:
        host = Host(rig.stub.HostTools())
        await host.open(opened)
        await host.send("1", "run_shell", command="echo hello; exit 4")
        assert (await host.next()).output == pb.ToolOutput(call_id="1", text="hello\n")
        assert (await host.next()).result.content == "hello\n# exit code 4"
        await host.send("2", "run_shell", command=f"{DAEMONS.format(mark=mark)} echo on; sleep {mark}")
        await host.send("3", "read_file", path="notes.txt")
        assert (await host.next()).output.text == "on\n"
        assert sleeping(mark)
        await host.cancel("2")
        stopped, read = (await host.next()).result, (await host.next()).result
        host.stream.cancel()

    assert stopped.content == "stopped while it was running; it may have had effect"
    assert stopped.is_error
    assert read.content == "first line\nsecond line\n"
    assert not sleeping(mark)


@pytest.mark.parametrize(
    ("agent", "enabled"),
    [
        (Agent(name="a"), False),
        (Agent(name="a", shell_enabled=True, read_only=True), False),
        (Agent(name="a", shell_enabled=True, workspace_enabled=False), False),
        (SHELL, True),
    ],
)
async def test_without_leave_no_command_runs(tmp_path: Path, agent: Agent, enabled: bool) -> None:
    """C52: the policy is checked where the tool runs, whatever the model calls."""
    model = ScriptModel(asks("touch was-here"), "done")
    async with runner(tmp_path, model) as rig:
        run = await rig.run(task_envelope(agent=agent))

    assert (rig.workspace / "was-here").exists() == enabled
    assert ("run_shell" in [tool.tool_name for tool in model.calls[0].tools]) == enabled
    [result] = [event.tool_result for event in run.events if event.HasField("tool_result")]
    assert ("refused" in result.content) != enabled


NO_LIST = BOOT.replace(
    "sys.exit(main(options))",
    "from netaclaw_runner.worker import offspring\noffspring._OWN_CHILDREN = '/nowhere'\nsys.exit(main(options))",
)


async def test_what_is_out_of_reach_is_said_and_never_waited_for(tmp_path: Path, mark: int) -> None:
    """Neither a pid namespace nor a list of children: the command's own group is ended all the same."""
    command = f"setsid -f sleep {mark} >/dev/null 2>&1; sleep {mark} & echo up"
    _, result = await _run(tmp_path, ExecLauncher(NO_LIST), command)
    left = sleeping(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)

    assert len(left) <= 1
    assert result.content.startswith("up\n# some processes that it started could not be ended yet")
    assert result.content.endswith("# exit code 0")
