"""Workers that are not ours: noisy, torn, late, lying, deaf or dead. Each has its stated outcome."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from netaclaw.session.v1.entry_pb2 import ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import calls_of
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import RunFollower, ScriptModel, alive, program, runner, task_envelope
from tests.unit.netaclaw_runner.test_protocol import CASES, _ours

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
TIMED_OUT = SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED

QUICK = Limits(start_s=10.0, exit_s=0.2, cancel_s=0.05, term_s=0.1)


async def _run(
    tmp_path: Path,
    text: str,
    *,
    model: ScriptModel | None = None,
    limits: Limits = QUICK,
    envelope: pb.SubagentTaskEnvelope | None = None,
) -> RunFollower:
    async with runner(tmp_path, model, launcher=program(text), limits=limits) as rig:
        run = await rig.run(envelope)
        for event in run.events:
            assert not event.HasField("started") or not alive(event.started.pid)
        assert not (await rig.status()).runs
        return run


async def test_a_silent_start_is_a_failure(tmp_path: Path) -> None:
    ended = (await _run(tmp_path, "hang()", limits=Limits(start_s=0.5, cancel_s=0.05, term_s=0.1))).ended

    assert (ended.state, ended.error) == (FAILED, "the worker did not start within 0.5 s")


async def test_a_line_before_run_start_is_a_failure(tmp_path: Path) -> None:
    ended = (await _run(tmp_path, "send('token', text='hello'); receive()")).ended

    assert (ended.state, ended.error) == (FAILED, "the worker sent token before run_start")


async def test_another_version_of_the_protocol_is_a_failure(tmp_path: Path) -> None:
    ended = (await _run(tmp_path, "send('run_start', protocolVersion=2, pid=1); receive()")).ended

    assert ended.error == "the worker speaks version 2 of the protocol"


async def test_a_line_of_a_foreign_run_ends_the_task_and_is_never_delivered(tmp_path: Path) -> None:
    text = "start(); send('token', run='someone-else', text='foreign'); end('mine'); receive()"
    run = await _run(tmp_path, text)

    assert (run.ended.state, run.ended.error) == (FAILED, "a token line of a foreign run")
    assert "foreign" not in run.text
    assert run.ended.final_output == ""


@pytest.mark.parametrize("name", ["worker-lines-01.jsonl", "worker-lines-02.txt"])
async def test_noise_goes_to_the_childs_log_and_the_task_completes(tmp_path: Path, name: str) -> None:
    """C37 and C38, with their inputs and 5 MB on stderr."""
    data = _ours((CASES / name).read_bytes())
    text = f"data = {data!r}.replace(b'\"r1\"', json.dumps(task['runId']).encode())\n"
    text += "start()\n" if name.endswith("txt") else ""
    text += "sys.stderr.write('x' * 5_000_000)\n"
    text += 'data = data.replace(b\'"finalOutput": "done"\', b\'"finalOutput": "done"\')\nwrite(data)'
    ended = (await _run(tmp_path, text)).ended

    assert (ended.state, ended.final_output) == (COMPLETED, "done")
    assert "5000000 bytes on stderr" in ended.diagnostics
    assert any("9 noise lines" in line for line in ended.diagnostics) == name.endswith("txt")


async def test_a_line_over_the_cap_is_refused_by_name_and_fails_the_task(tmp_path: Path) -> None:
    """C37: a line above our own stated limit."""
    text = """
start()
write(b'{"type": "tool_result", "content": "' + b"x" * 300_000 + b'"}\\n')
end("after the long line")
receive()
"""
    run = await _run(tmp_path, text, limits=Limits(line_bytes=100_000, exit_s=0.2))

    assert (run.ended.state, run.ended.final_output) == (FAILED, "")
    assert run.ended.error == "a tool_result line of more than 100000 bytes was refused"


async def test_a_last_line_without_its_newline_is_truncated_and_no_result(tmp_path: Path) -> None:
    text = """
start()
line = json.dumps({"type": "run_end", "runId": task["runId"], "state": 3, "finalOutput": "done"})
write(line.encode())
"""
    ended = (await _run(tmp_path, text)).ended

    assert (ended.state, ended.final_output) == (FAILED, "")
    assert ended.error == "the worker exited with code 0 before it had finished"
    assert "1 noise lines: 1 × a line without an end" in ended.diagnostics


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("start(); sys.exit(7)", "the worker exited with code 7 before it had finished"),
        ("start(); os.kill(os.getpid(), 11)", "the worker was ended by SIGSEGV before it had finished"),
        ("start(); raise ValueError('boom')", "the worker exited with code 1 before it had finished"),
        ("start(); os.close(fd); hang()", "the worker closed its channel before it had finished"),
    ],
)
async def test_a_worker_that_ends_without_its_last_line_fails_by_name(tmp_path: Path, text: str, error: str) -> None:
    ended = (await _run(tmp_path, text)).ended

    assert (ended.state, ended.error) == (FAILED, error)
    assert ("boom" in text) == any("ValueError: boom" in line for line in ended.diagnostics)


async def test_the_first_end_wins_and_late_lines_change_nothing(tmp_path: Path) -> None:
    text = """
start()
send("run_end", state="SUBAGENT_TASK_STATE_PARTIAL", finalOutput="half", error="enough")
end("all of it")
send("run_error", error="after all not")
send("run_end", run="foreign", state=3, finalOutput="foreign")
"""
    ended = (await _run(tmp_path, text)).ended

    assert (ended.state, ended.final_output, ended.error) == (PARTIAL, "half", "enough")


async def test_a_result_after_the_time_limit_is_not_delivered(tmp_path: Path) -> None:
    """C16: the first end state wins."""
    text = "start()\nwhile receive()['type'] != 'cancel': pass\nend('too late')"
    ended = (await _run(tmp_path, text, envelope=task_envelope(timeout_ms=1500))).ended

    assert (ended.state, ended.final_output) == (TIMED_OUT, "")


async def test_a_result_after_a_cancel_is_not_delivered(tmp_path: Path) -> None:
    """C16, with a cancel in the place of the clock."""
    text = "start()\nwhile receive()['type'] != 'cancel': pass\nend('too late')"
    async with runner(tmp_path, launcher=program(text), limits=QUICK) as rig:
        run = await rig.start()
        await run.until("started")
        await run.tell(cancel=pb.Cancel(reason="stop"))
        ended = await run.finish()

    assert (ended.state, ended.error, ended.final_output) == (CANCELLED, "stop", "")


async def test_a_run_error_fails_the_task_with_its_words_and_its_text(tmp_path: Path) -> None:
    text = "start(); send('run_error', error='no luck', partialText='but this', toolCallCount=3)"
    ended = (await _run(tmp_path, text)).ended

    assert (ended.state, ended.error, ended.partial_text) == (FAILED, "no luck", "but this")
    assert ended.tool_call_count == 0  # the runner counts for itself


async def test_an_end_without_a_valid_state_or_without_an_answer_is_a_failure(tmp_path: Path) -> None:
    for line, error in (
        ("send('run_end', state='SUBAGENT_TASK_STATE_CANCELLED', finalOutput='x')", "has no valid state"),
        ("send('run_end', state='SUBAGENT_TASK_STATE_COMPLETED', finalOutput=' ')", "the answer was empty"),
    ):
        ended = (await _run(tmp_path, f"start(); {line}")).ended
        assert ended.state == FAILED
        assert error in ended.error


async def test_a_worker_that_ignores_everything_is_killed_step_by_step(tmp_path: Path) -> None:
    text = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nstart()\nwhile True: hang()"
    async with runner(tmp_path, launcher=program(text), limits=QUICK) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
        await run.tell(cancel=pb.Cancel())
        ended = await run.finish()
        assert not alive(pid)

    assert ended.state == CANCELLED
    assert ended.diagnostics[:2] == ["the worker got SIGTERM", "the worker got SIGKILL"]


async def test_the_whole_process_group_goes_with_the_worker(tmp_path: Path) -> None:
    pid_file = tmp_path / "grandchild"
    text = f"""
start()
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()
open({str(pid_file)!r}, "w").write(str(child))
end()
"""
    ended = (await _run(tmp_path, text)).ended

    assert ended.state == COMPLETED  # though the grandchild held the channel open
    assert not alive(int(pid_file.read_text()))


async def test_a_worker_may_call_models_itself(tmp_path: Path) -> None:
    text = "start(); send('thinking', text='hm'); send('token', text='你好 '); send('token', text='all'); end('all')"
    run = await _run(tmp_path, text)
    deltas = [event.stream_delta for event in run.events if event.HasField("stream_delta")]

    assert run.text == "hm你好 all"
    assert [delta.offset for delta in deltas][:2] == [0, 0]
    assert run.kinds.count("stream_start") == 1
    assert run.ended.state == COMPLETED


async def test_tool_calls_and_results_are_matched_by_id_and_kind(tmp_path: Path) -> None:
    text = """
start()
send("tool_result", callId="c0", content="without a call")
send("tool_call", callId="c1", toolName="read_file", argumentsJson="{}")
send("tool_call", callId="c1", toolName="read_file", argumentsJson="{}")
send("tool_result", callId="c1", content="one")
send("tool_result", callId="c1", content="two")
send("proxy_tool_call", callId="c1", toolName="write_file", argumentsJson="{}")
end()
"""
    run = await _run(tmp_path, text)

    results = [event.tool_result.content for event in run.events if event.HasField("tool_result")]
    assert results == ["one"]
    assert run.kinds.count("tool_call") == 1
    assert "proxy_tool_call" not in run.kinds
    assert run.ended.tool_call_count == 1


async def test_policy_is_enforced_whatever_the_worker_asks(tmp_path: Path) -> None:
    """C52: the worker itself sends the calls."""
    text = """
start()
for name in ("run_shell", "read_file", "delegate_task"):
    send("proxy_tool_call", callId=name, toolName=name, argumentsJson="{}")
    reply = receive()
    assert reply["type"] == "proxy_tool_result" and reply["isError"] and "refused" in reply["content"], reply
end()
"""
    run = await _run(tmp_path, text)

    assert run.ended.state == COMPLETED
    assert "proxy_tool_call" not in run.kinds


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        (pb.TaskBudget(max_tool_rounds=2), "stopped after 2 model calls"),
        (pb.TaskBudget(max_tokens=20), "stopped after 30 tokens"),
        (pb.TaskBudget(max_tool_calls=2), "stopped after 2 tool calls"),
    ],
)
async def test_budgets_hold_for_a_worker_that_does_not_count(tmp_path: Path, budget: pb.TaskBudget, error: str) -> None:
    text = """
start()
for number in range(1, 10):
    send("model_request", requestId=number, keep=0, messages=[])
    while receive()["type"] != "model_response": pass
    send("tool_call", callId=str(number), toolName="read_file", argumentsJson="{}")
"""
    model = ScriptModel(*["again"] * 9)
    ended = (await _run(tmp_path, text, model=model, envelope=task_envelope(budget=budget))).ended

    assert (ended.state, ended.error, ended.final_output) == (PARTIAL, error, "again")


async def test_a_call_without_a_reported_result_gets_one_before_the_model_sees_it(tmp_path: Path) -> None:
    text = """
start()
send("model_request", requestId=1, keep=0, messages=[])
receive()
send("model_request", requestId=1, keep=0, messages=[])
send("model_request", requestId=2, keep=1, messages=[])
receive()
end()
"""
    model = ScriptModel([("read_file", "{}")], "done")
    run = await _run(tmp_path, text, model=model)

    [call] = calls_of(model.calls[1].messages[0])
    assert call.state == ToolCallState.TOOL_CALL_STATE_FAILED
    assert "no result" in call.result.content
    assert "a repeated model_request was ignored" in run.ended.diagnostics
    assert len(model.calls) == 2


async def test_a_model_request_that_does_not_fit_fails_the_task(tmp_path: Path) -> None:
    ended = (await _run(tmp_path, "start(); send('model_request', requestId=1, keep=5, messages=[]); receive()")).ended

    assert ended.error == "the worker's model_request does not fit: it keeps 5 of 0 messages"


async def test_a_flood_of_lines_and_log_stays_bounded_and_ends(tmp_path: Path) -> None:
    text = """
start()
for number in range(20_000):
    send("log", level="info", message="x" * 200)
    write(b"noise\\n")
end()
"""
    ended = (await _run(tmp_path, text)).ended

    assert ended.state == COMPLETED
    assert "20000 noise lines: 20000 × not a JSON object" in ended.diagnostics


async def test_a_large_result_is_cut_so_that_every_message_fits_the_wire(tmp_path: Path) -> None:
    """C35: a tool returns 5 MiB of text."""
    text = """
start()
send("tool_call", callId="c1", toolName="read_file", argumentsJson="{}")
send("tool_result", callId="c1", content="x" * 5_000_000)
end("y" * 5_000_000)
"""
    run = await _run(tmp_path, text)

    assert run.ended.state == COMPLETED
    assert len(run.ended.final_output) <= 256 * 1024
    assert max(event.ByteSize() for event in run.events) < 1024 * 1024


async def test_no_secret_of_the_runner_reaches_a_workers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C53: canary values in the runner's environment."""
    for name in ("NETACLAW_OPENAI_API_KEY", "NETACLAW_DATABASE_URL", "UNRELATED"):
        monkeypatch.setenv(name, "canary-7f3a")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = """
start()
environ = {**os.environ, "initial": open("/proc/self/environ").read()}
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
end(json.dumps([environ, fds, os.getsid(0) == os.getpid(), os.getcwd()]))
"""
    run = await _run(tmp_path, text)
    said = run.ended.final_output

    assert "canary" not in said
    environ, fds, leads, cwd = json.loads(said)
    assert set(environ) == {"PATH", "LC_ALL", "HOME", "initial"}
    assert len(fds) <= 6  # 0, 1, 2, the channel, the workspace and the listing itself
    assert leads
    assert cwd == "/"
    assert "canary" not in str(run.ended)
    assert os.environ["UNRELATED"] == "canary-7f3a"
