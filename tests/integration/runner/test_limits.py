"""What a task may spend, and what counts as progress: kept by the runner, whatever the worker does."""

from __future__ import annotations

from pathlib import Path

import pytest

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_runner.limits import Limits
from tests.integration.runner.rig import RunFollower, ScriptModel, alive, program, runner, task_envelope

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
TIMED_OUT = SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT

QUICK = Limits(exit_s=0.2, cancel_s=0.05, term_s=0.1)


async def _run(
    tmp_path: Path,
    text: str,
    *,
    model: ScriptModel | None = None,
    limits: Limits = QUICK,
    timeout_ms: int = 60_000,
    budget: pb.TaskBudget | None = None,
) -> RunFollower:
    envelope = task_envelope(timeout_ms=timeout_ms, budget=budget)
    async with runner(tmp_path, model, launcher=program(text), limits=limits) as rig:
        run = await rig.run(envelope)
        assert not alive(run.events[0].started.pid)
        return run


@pytest.mark.parametrize(
    "line",
    [
        "send('log', message='still here')",
        "write(b'noise\\n')",
        "sys.stderr.write('busy\\n')",
        "start()",
        "send('token', text='')",
        "send('steer_taken', requestId='none')",
        "send('tool_result', callId='none', content='x')",
        "send('tool_output', callId='none', text='x')",
        "send('tool_call', callId='c1', toolName='read_file', argumentsJson='{}')",
        "send('model_request', requestId=0, keep=0, messages=[])",
    ],
)
async def test_what_changes_nothing_is_no_progress(tmp_path: Path, line: str) -> None:
    text = f"""
start()
send('token', text='so far')
send('tool_call', callId='c1', toolName='read_file', argumentsJson='{{}}')
while True:
    {line}
    pause(0.02)
"""
    run = await _run(tmp_path, text, budget=pb.TaskBudget(stall_ms=400))

    assert (run.ended.state, run.ended.error) == (TIMED_OUT, "it made no progress for 0.4 s")
    assert run.ended.partial_text == "so far"


@pytest.mark.parametrize(
    "line",
    [
        "send('token', text='x')",
        "send('tool_output', callId='c0', text='x')",
        "send('tool_call', callId=str(number), toolName='read_file', argumentsJson='{}')",
    ],
)
async def test_what_moves_the_run_is_progress(tmp_path: Path, line: str) -> None:
    text = f"""
start()
send('tool_call', callId='c0', toolName='read_file', argumentsJson='{{}}')
for number in range(20):
    {line}
    pause(0.05)
end()
"""
    assert (await _run(tmp_path, text, budget=pb.TaskBudget(stall_ms=500))).ended.state == COMPLETED


async def test_the_wall_clock_holds_for_a_worker_that_never_stops_talking(tmp_path: Path) -> None:
    text = "start()\nwhile True:\n    send('token', text='x'); pause(0.01)"
    run = await _run(tmp_path, text, timeout_ms=1000, budget=pb.TaskBudget(stall_ms=500))

    assert (run.ended.state, run.ended.error) == (TIMED_OUT, "it did not end within 1 s")
    assert set(run.ended.partial_text) == {"x"}


async def test_a_workers_own_text_is_bounded(tmp_path: Path) -> None:
    text = "start()\nwhile True:\n    send('token', text='x' * 1000)"
    run = await _run(tmp_path, text, limits=Limits(text_bytes=100_000, exit_s=0.2, cancel_s=0.05, term_s=0.1))

    assert (run.ended.state, run.ended.error) == (PARTIAL, "stopped after 100000 bytes of text")
    assert len(run.ended.partial_text) == 100_000


async def test_a_conversation_is_bounded(tmp_path: Path) -> None:
    text = """
start()
for number in range(1, 100):
    messages = [{"role": "MESSAGE_ROLE_USER", "parts": [{"text": {"text": "x" * 50_000}}]}]
    send("model_request", requestId=number, keep=2 * number - 2, messages=messages)
    while receive()["type"] != "model_response": pass
"""
    model = ScriptModel(*["again"] * 99)
    limits = Limits(transcript_bytes=500_000, exit_s=0.2, cancel_s=0.05, term_s=0.1)
    run = await _run(tmp_path, text, model=model, limits=limits)

    assert run.ended.state == FAILED
    assert run.ended.error == "the worker's model_request does not fit: the conversation has more than 500000 bytes"
    assert len(model.calls) == 9


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (pb.TaskBudget(max_tool_calls=5), "4 of 5 tool calls are used"),
        (pb.TaskBudget(max_tool_rounds=4), "one model call is left"),
        (pb.TaskBudget(max_tokens=50), "45 of 50 tokens are used"),
    ],
)
async def test_a_warning_comes_once_near_the_end_and_then_the_end_with_the_text(
    tmp_path: Path, budget: pb.TaskBudget, words: str
) -> None:
    text = """
start()
for number in range(1, 100):
    send("model_request", requestId=number, keep=0, messages=[])
    while True:
        line = receive()
        if line["type"] == "budget_warning":
            send("tool_call", callId="w" + str(number), toolName="warned", argumentsJson=line["message"])
        if line["type"] == "model_response":
            break
    send("tool_call", callId=str(number), toolName="read_file", argumentsJson="{}")
"""
    run = await _run(tmp_path, text, model=ScriptModel(*[f"answer {n}" for n in range(1, 20)]), budget=budget)

    warnings = [event.tool_call.arguments_json for event in run.events if event.tool_call.tool_name == "warned"]
    assert len(warnings) == 1
    assert words in warnings[0]
    assert run.ended.state == PARTIAL
    assert run.ended.error.startswith("stopped after")
    assert run.ended.final_output.startswith("answer")


async def test_a_warning_comes_when_most_of_the_time_is_over(tmp_path: Path) -> None:
    text = """
start()
while receive()["type"] != "budget_warning": pass
end("summed up")
"""
    run = await _run(tmp_path, text, timeout_ms=3000)

    assert (run.ended.state, run.ended.final_output) == (COMPLETED, "summed up")
    assert 2300 <= run.ended.duration_ms < 3000


async def test_output_of_a_tool_is_passed_on_in_order_in_batches_and_not_for_ever(tmp_path: Path) -> None:
    text = """
start()
send("tool_call", callId="c1", toolName="read_file", argumentsJson="{}")
send("tool_output", callId="c1", text="one ")
for number in range(5000):
    send("tool_output", callId="c1", text=f"{number} ")
send("tool_output", callId="c1", text="x" * 300_000)
send("tool_result", callId="c1", content="done")
send("tool_output", callId="c1", text="late")
end()
"""
    run = await _run(tmp_path, text)
    outputs = [event.tool_output for event in run.events if event.HasField("tool_output")]
    said = "".join(output.text for output in outputs)

    assert outputs[0].text == "one "
    assert said.startswith("one " + "".join(f"{number} " for number in range(5000)))
    assert len(said) <= 256 * 1024
    assert len(outputs) < 500
    kinds = [kind for kind in run.kinds if kind.startswith("tool_")]
    assert kinds == ["tool_call", *["tool_output"] * len(outputs), "tool_result"]
    assert "a tool_output without its tool_call was ignored" in run.ended.diagnostics
