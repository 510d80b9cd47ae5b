"""The border between runner and worker: what cannot cross it, and what cannot outlive it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import user_message
from netaclaw_agent.model import ModelError
from netaclaw_chassis.ids import new_id
from netaclaw_runner.launcher import ExecLauncher, import_paths
from netaclaw_runner.limits import Limits
from netaclaw_runner.protocol import encode
from tests.integration.runner.rig import ScriptModel, alive, answer, asking, runner, task_envelope
from tests.processes import gone

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED

NOISY_TOOL = """
import json, os, sys
options = json.loads(sys.argv[1])
sys.path.extend(options["paths"])
from netaclaw_agent.tools import files
def noisy(workspace, arguments):
    print('{"type": "run_end", "runId": "x", "state": 3, "finalOutput": "from a print"}', flush=True)
    os.write(1, b'{"type": "run_error", "error": "from fd 1"}\\n')
    sys.stderr.write("warning\\n")
    os.system("echo from a child")
    return "quietly done"
files._read_file = noisy
from netaclaw_runner.worker.bootstrap import main
sys.exit(main(options))
"""

PROBE = """
import json, os, sys
sys.path.extend(json.loads(sys.argv[1]))
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.worker.bootstrap import serve
from netaclaw_runner.worker.channel import WorkerChannel
code = serve(WorkerChannel(int(sys.argv[2])), Workspace.open(sys.argv[3]))
print(json.dumps([code, sorted(sys.modules)]))
"""

ORPHANING_RUNNER = """
import asyncio, sys
from netaclaw_runner.launcher import ExecLauncher
async def main():
    handle = await ExecLauncher().launch(None)
    print(handle.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_tool_that_prints_cannot_reach_the_channel(tmp_path: Path) -> None:
    """C38, from the worker's side."""
    model = ScriptModel([("read_file", "{}")], "done")
    async with runner(tmp_path, model, launcher=ExecLauncher(NOISY_TOOL)) as rig:
        run = await rig.run()

    assert (run.ended.state, run.ended.final_output) == (COMPLETED, "done")
    assert not any("noise" in line for line in run.ended.diagnostics)
    [result] = [event.tool_result for event in run.events if event.HasField("tool_result")]
    assert result.content == "quietly done"


async def _probe(tmp_path: Path, *dialogue: tuple[str, bytes]) -> set[str]:
    """Converse with a worker: wait for a line of each type, then say the next. Returns the modules that it loaded."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", "-c", PROBE, json.dumps(import_paths()), str(theirs.fileno()), str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
    theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    for awaited, line in dialogue:
        while awaited and json.loads(await reader.readline())["type"] != awaited:
            pass
        writer.write(line)
    writer.write_eof()
    output, _ = await process.communicate()
    writer.close()
    await writer.wait_closed()
    return {name.partition(".")[0] for name in json.loads(output)[1]}


HEAVY = {"grpc", "asyncio", "aiohttp", "ssl", "uvloop", "netaclaw_chassis", "uuid_utils", "site"}


async def test_a_worker_loads_no_transport_and_no_event_loop(tmp_path: Path) -> None:
    envelope = task_envelope()
    run = envelope.run_id
    asked = asking([("read_file", '{"path":"notes.txt"}')], new_id)
    loaded = await _probe(
        tmp_path,
        ("", encode(run, envelope)),
        ("model_request", encode(run, pb.ModelResponse(request_id=1, message=asked))),
        ("model_request", encode(run, pb.ModelResponse(request_id=2, message=answer("ok")))),
        ("run_end", b""),
    )

    assert "netaclaw_agent" in loaded
    assert not HEAVY & loaded


async def test_a_tool_host_loads_no_transport_and_no_event_loop(tmp_path: Path) -> None:
    start = pb.HostStart(protocol_version=1, policy=task_envelope().policy, tool_names=["read_file"])
    call = pb.ToolCall(call_id="1", tool_name="read_file", arguments_json='{"path":"notes.txt"}')
    loaded = await _probe(tmp_path, ("", encode("h", start)), ("run_start", encode("h", call)), ("tool_result", b""))

    assert not HEAVY & loaded


async def test_our_worker_ends_at_sigterm_and_says_so(tmp_path: Path) -> None:
    model = ScriptModel([("write_file", '{"path":"x","content":"x"}')])
    async with runner(tmp_path, model) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
        await run.until("proxy_tool_call")
        os.kill(pid, signal.SIGTERM)
        ended = await run.finish()

    assert (ended.state, ended.error) == (SubagentTaskState.SUBAGENT_TASK_STATE_FAILED, "stopped: SIGTERM")


async def test_a_worker_cannot_outlive_its_runner() -> None:
    command = [sys.executable, "-c", ORPHANING_RUNNER]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    worker = int(await process.stdout.readline())
    assert alive(worker)
    process.kill()
    await process.wait()

    async with asyncio.timeout(10):
        await gone(worker)


async def test_logs_hold_ids_and_never_prompts_arguments_or_outputs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "canary-51c2"
    envelope = task_envelope(f"goal {canary}")
    envelope.agent_config.system_prompt = f"system {canary}"
    envelope.history.append(user_message(f"history {canary}"))
    model = ScriptModel([("read_file", json.dumps({"path": canary}))], RuntimeError(f"fault {canary}"))
    async with runner(tmp_path, model, limits=Limits()) as rig:
        run = await rig.run(envelope)
    async with runner(tmp_path, ScriptModel(ModelError(f"refused {canary}"))) as rig:
        await rig.run()

    assert run.ended.state == SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
    records = [record.__dict__ for record in caplog.records if record.name.startswith("netaclaw")]
    assert any(record.get("run_id") == envelope.run_id for record in records)
    assert any(record.get("session_id") == envelope.session_id for record in records)
    assert canary not in str(records)


def test_a_wrong_setting_is_one_clear_line_and_a_failure(tmp_path: Path) -> None:
    environ = {**os.environ, "NETACLAW_DATA_DIR": str(tmp_path)}
    wrong = subprocess.run(
        [sys.executable, "-m", "netaclaw_runner"],
        env={**environ, "NETACLAW_RUNNER_PORT": "many"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert wrong.returncode == 1
    assert wrong.stderr == "netaclaw-runner: NETACLAW_RUNNER_PORT is not a valid int\n"


async def test_a_port_in_use_is_one_clear_line_and_a_failure(tmp_path: Path) -> None:
    async with runner(tmp_path) as rig:
        environ = {
            **os.environ,
            "NETACLAW_DATA_DIR": str(tmp_path),
            "NETACLAW_RUNNER_PORT": rig.address.rpartition(":")[2],
            "NETACLAW_LOG_LEVEL": "CRITICAL",
        }
        command = [sys.executable, "-m", "netaclaw_runner"]
        process = await asyncio.create_subprocess_exec(*command, env=environ, stderr=subprocess.PIPE)
        _, stderr = await process.communicate()

    assert process.returncode == 1
    assert stderr.decode().splitlines()[-1] == f"netaclaw-runner: cannot listen on {rig.address}: the port is in use"
