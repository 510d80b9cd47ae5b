"""Whole runs: our own worker, real processes, scripted models."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import FinishReason, ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import SandboxMode, ToolRoute
from netaclaw_agent.loop import calls_of, text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, TextDelta
from netaclaw_runner.launcher import ExecLauncher
from tests.integration.runner.launchers import GatedLauncher
from tests.integration.runner.rig import RunFollower, ScriptModel, alive, answer, runner, said, task_envelope
from tests.processes import gone

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
TIMED_OUT = SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED

READ = ("read_file", '{"path":"notes.txt"}')
WRITE = ("write_file", '{"path":"out.txt","content":"x"}')


async def speaks_and_hangs(_call: ModelCall) -> AsyncIterator[ModelEvent]:
    """Says a little and then nothing for ever."""
    yield TextDelta("so far")
    await asyncio.Event().wait()


async def hangs(_call: ModelCall) -> AsyncIterator[ModelEvent]:
    """Says nothing for ever."""
    await asyncio.Event().wait()
    yield TextDelta("")


async def reason_of(follower: RunFollower) -> Reason:
    return (await follower.refusal()).reason


async def test_a_task_is_run_in_a_process_of_its_own_and_ends_once(tmp_path: Path) -> None:
    model = ScriptModel([READ], "two lines in all ")
    async with runner(tmp_path, model) as rig:
        run = await rig.run(task_envelope("count the lines"))

    assert [kind for kind in run.kinds if kind != "message"] == [
        "started",
        "stream_start",
        "usage",
        "tool_call",
        "tool_result",
        "stream_start",
        *["stream_delta"] * run.kinds.count("stream_delta"),
        "usage",
        "ended",
    ]
    assert list(run.transcript) == [0, 1, 2]
    numbers = [event.event_no for event in run.events]
    assert numbers == sorted(set(numbers))
    ended = run.ended
    assert (ended.state, ended.final_output, ended.error) == (COMPLETED, "two lines in all", "")
    assert ended.raw_final_content == "two lines in all "
    assert (ended.tool_call_count, ended.model, ended.partial_text) == (1, "script", "")
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.model_calls) == (20, 10, 2)
    assert ended.duration_ms > 0
    started = run.events[0].started
    assert started.pid != os.getpid()
    assert not alive(started.pid)
    assert "pdeathsig" in started.sandbox_in_force
    assert set(started.sandbox_in_force).isdisjoint(started.sandbox_missing)
    told = [line for line in ended.diagnostics if line.startswith("not in force: ")]
    assert bool(told) == bool(started.sandbox_missing)


async def test_what_is_not_in_force_is_said_by_the_start_and_by_the_end(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel("hi"), launcher=ExecLauncher()) as rig:
        run = await rig.run()

    assert "seccomp" in run.events[0].started.sandbox_missing
    assert any("seccomp" in line for line in run.ended.diagnostics)


async def test_the_transcript_has_results_in_their_calls_and_the_model_sees_them(tmp_path: Path) -> None:
    model = ScriptModel([READ, ("no_such_tool", "{}")], "done")
    async with runner(tmp_path, model) as rig:
        run = await rig.run(task_envelope("count the lines"))

    goal, asked, said = (run.transcript[n] for n in range(3))
    assert text_of(goal) == "Goal:\ncount the lines"
    assert text_of(said) == "done"
    read, unknown = calls_of(asked)
    assert read.result.content == "first line\nsecond line\n"
    assert (read.state, read.route.route) == (
        ToolCallState.TOOL_CALL_STATE_COMPLETED,
        ToolRoute.TOOL_ROUTE_WORKER_LOCAL,
    )
    assert unknown.state == ToolCallState.TOOL_CALL_STATE_REFUSED
    assert unknown.result.is_error
    assert list(model.calls[1].messages) == [goal, asked]
    assert model.calls[0].system == "You help."
    assert [tool.tool_name for tool in model.calls[0].tools] == [
        "edit_file",
        "list_files",
        "read_file",
        "search_files",
        "write_file",
    ]


async def test_a_proxied_call_goes_to_the_caller_and_its_answer_to_the_model(tmp_path: Path) -> None:
    model = ScriptModel([WRITE], "written")
    async with runner(tmp_path, model) as rig:
        run = await rig.start()
        asked = (await run.until("proxy_tool_call")).proxy_tool_call
        for call_id, content in ((asked.call_id + "9", "stray"), (asked.call_id, "wrote it"), (asked.call_id, "again")):
            await run.tell(proxy_tool_result=pb.ProxyToolResult(call_id=call_id, content=content))
        ended = await run.finish()

    assert (asked.tool_name, asked.arguments_json) == WRITE
    assert not (rig.workspace / "out.txt").exists()
    assert ended.state == COMPLETED
    assert calls_of(model.calls[1].messages[1])[0].result.content == "wrote it"
    assert calls_of(run.transcript[1])[0].result.content == "wrote it"
    assert any("nobody waits for" in line for line in ended.diagnostics)
    assert "tool_call" not in run.kinds


async def test_history_goes_before_the_goal_and_is_not_sent_again(tmp_path: Path) -> None:
    model = ScriptModel("more")
    envelope = task_envelope("go on")
    envelope.history.extend([user_message("before"), answer("said before")])
    async with runner(tmp_path, model) as rig:
        run = await rig.run(envelope)

    assert [text_of(message) for message in model.calls[0].messages] == ["before", "said before", "Goal:\ngo on"]
    assert sorted(run.transcript) == [2, 3]


@pytest.mark.parametrize(
    ("step", "state", "error"),
    [
        (ModelError("the provider gave up"), FAILED, "the model call failed: the provider gave up"),
        (RuntimeError("secret fault"), FAILED, "the model call failed: internal error in the model call"),
        ("", FAILED, "the answer was empty"),
        ("  ", FAILED, "the answer was empty"),
    ],
)
async def test_a_failed_call_and_an_empty_answer_fail_the_task(
    tmp_path: Path, step: str | Exception, state: SubagentTaskState, error: str
) -> None:
    async with runner(tmp_path, ScriptModel(step)) as rig:
        ended = (await rig.run()).ended

    assert (ended.state, ended.error, ended.final_output) == (state, error, "")
    assert ended.usage.model_calls == 1


async def test_an_answer_cut_by_length_is_partial_with_its_text(tmp_path: Path) -> None:
    async def cut(_call: ModelCall) -> AsyncIterator[ModelEvent]:
        yield Finished(answer("half an ans", FinishReason.FINISH_REASON_LENGTH))

    async with runner(tmp_path, ScriptModel(cut)) as rig:
        ended = (await rig.run()).ended

    assert (ended.state, ended.final_output, ended.partial_text) == (PARTIAL, "half an ans", "half an ans")
    assert "length" in ended.error


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        (pb.TaskBudget(max_tool_rounds=2), "stopped after 2 model calls"),
        (pb.TaskBudget(max_tool_calls=1), "stopped after 1 tool calls"),
        (pb.TaskBudget(max_tokens=30), "stopped after 30 tokens"),
    ],
)
async def test_a_spent_budget_ends_the_task_as_partial(tmp_path: Path, budget: pb.TaskBudget, error: str) -> None:
    model = ScriptModel([READ], [READ], [READ])
    async with runner(tmp_path, model) as rig:
        ended = (await rig.run(task_envelope(budget=budget))).ended

    assert (ended.state, ended.error) == (PARTIAL, error)
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "budget", [pb.TaskBudget(max_tokens=10), pb.TaskBudget(max_tokens=16), pb.TaskBudget(max_tool_rounds=2)]
)
async def test_an_answer_near_or_beyond_the_end_of_its_budget_is_whole_and_brings_no_further_call(
    tmp_path: Path, budget: pb.TaskBudget
) -> None:
    """The warning that the end is near comes with it."""
    model = ScriptModel("done")
    async with runner(tmp_path, model) as rig:
        ended = (await rig.run(task_envelope(budget=budget))).ended

    assert (ended.state, ended.final_output, len(model.calls)) == (COMPLETED, "done", 1)


async def test_the_child_is_warned_before_its_last_model_call(tmp_path: Path) -> None:
    model = ScriptModel([READ], "summed up")
    async with runner(tmp_path, model) as rig:
        run = await rig.run(task_envelope(budget=pb.TaskBudget(max_tool_rounds=2)))

    assert run.ended.state == COMPLETED
    assert "one model call is left" in text_of(model.calls[1].messages[-1])


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (task_envelope(timeout_ms=2000), "it did not end within 2 s"),
        (task_envelope(budget=pb.TaskBudget(stall_ms=300)), "it made no progress for 0.3 s"),
    ],
    ids=["wall clock", "stall"],
)
async def test_a_task_that_hangs_times_out_with_its_text_and_its_process_is_gone(
    tmp_path: Path, envelope: pb.SubagentTaskEnvelope, error: str
) -> None:
    model = ScriptModel(speaks_and_hangs)
    async with runner(tmp_path, model) as rig:
        run = await rig.run(envelope)

    assert (run.ended.state, run.ended.error, run.ended.partial_text) == (TIMED_OUT, error, "so far")
    assert run.ended.usage.model_calls == 1
    assert model.open == 0
    assert not alive(run.events[0].started.pid)


async def test_waiting_for_a_proxied_call_is_no_stall(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel([WRITE], "ok")) as rig:
        run = await rig.start(task_envelope(budget=pb.TaskBudget(stall_ms=500), timeout_ms=2500))
        await run.until("proxy_tool_call")
        ended = await run.finish()

    assert ended.error == "it did not end within 2.5 s"


async def test_cancel_ends_the_model_call_and_the_process_and_is_confirmed(tmp_path: Path) -> None:
    model = ScriptModel(speaks_and_hangs)
    async with runner(tmp_path, model) as rig:
        run = await rig.start()
        await run.until("stream_delta")
        await run.tell(cancel=pb.Cancel(reason="enough"))
        await run.tell(cancel=pb.Cancel(reason="twice"))
        ended = await run.finish()

    assert (ended.state, ended.error, ended.partial_text) == (CANCELLED, "enough", "so far")
    assert model.open == 0
    assert not alive(run.events[0].started.pid)
    assert ended.diagnostics[:-1] == []  # the cooperative line was enough: no signal


async def test_a_task_that_is_just_starting_is_caught_too(tmp_path: Path) -> None:
    """The call that is made ahead of the worker is cut, and the worker that comes up then is ended with no word."""
    model, launcher = ScriptModel(hangs), GatedLauncher()
    async with runner(tmp_path, model, launcher=launcher) as rig:
        run = await rig.start()
        await launcher.asked.wait()
        await model.began.wait()
        async with said("run ends"):
            await run.tell(cancel=pb.Cancel(reason="not needed"))
        launcher.opened.set()
        ended = await run.finish()
        assert not (await rig.status()).runs

    assert run.kinds == ["usage", "ended"]
    assert (ended.state, ended.usage.model_calls) == (CANCELLED, 1)
    assert (len(model.calls), model.open) == (1, 0)
    assert [alive(pid) for pid in launcher.pids] == [False]


async def test_a_worker_killed_from_outside_fails_its_task_by_name(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel(speaks_and_hangs)) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
        await run.until("stream_delta")
        os.kill(pid, signal.SIGKILL)
        ended = await run.finish()

    assert (ended.state, ended.partial_text) == (FAILED, "so far")
    assert ended.error == "the worker was ended by SIGKILL before it had finished"


async def test_stopping_the_runner_ends_its_runs_and_their_processes(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel(speaks_and_hangs)) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
    assert not alive(pid)
    await gone(pid)


async def test_a_failure_of_one_task_leaves_its_siblings_alone(tmp_path: Path) -> None:
    def step(call: ModelCall) -> AsyncIterator[ModelEvent]:
        return speaks_and_hangs(call) if "hang" in text_of(call.messages[0]) else _says("fine")

    async def _says(text: str) -> AsyncIterator[ModelEvent]:
        yield Finished(answer(text))

    async with runner(tmp_path, ScriptModel(step, step, step)) as rig:
        goals = ("one", "hang", "three")
        envelopes = [task_envelope(goal, timeout_ms=3000 if goal == "hang" else 60_000) for goal in goals]
        runs = await asyncio.gather(*(rig.run(envelope) for envelope in envelopes))

    assert [run.ended.state for run in runs] == [COMPLETED, TIMED_OUT, COMPLETED]


async def test_more_workers_than_allowed_are_refused_by_the_limits_name(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel(hangs), max_workers=1) as rig:
        first = await rig.start()
        await first.until("started")
        second = await rig.start()
        error = await second.refusal()
        await first.tell(cancel=pb.Cancel())
        await first.finish()
        third = await rig.start()
        await third.until("started")
        await third.tell(cancel=pb.Cancel())
        await third.finish()

    assert (error.reason, error.metadata) == (Reason.REASON_LIMIT_REACHED, {"limit": "max_workers", "value": "1"})


async def test_what_cannot_be_started_is_refused_with_its_reason(tmp_path: Path) -> None:
    strict = task_envelope()
    strict.policy.sandbox = SandboxMode.SANDBOX_MODE_REQUIRED
    expected = [
        (task_envelope(agent=Agent(name="a", model="other")), Reason.REASON_MODEL_UNKNOWN),
        (task_envelope(workspace="elsewhere"), Reason.REASON_WORKSPACE_NOT_FOUND),
        (strict, Reason.REASON_SANDBOX_UNAVAILABLE),
        (pb.SubagentTaskEnvelope(), Reason.REASON_INVALID_FIELD),
    ]
    async with runner(tmp_path, ScriptModel("hi"), launcher=ExecLauncher()) as rig:  # it cannot confine
        for envelope, reason in expected:
            assert await reason_of(await rig.start(envelope)) == reason
        done = await rig.run()
        assert await reason_of(await rig.start(done.envelope)) == Reason.REASON_ALREADY_EXISTS
        nothing = RunFollower(rig.stub.Run(), task_envelope())
        await nothing.order()
        assert await reason_of(nothing) == Reason.REASON_INVALID_FIELD
        assert not (await rig.status()).runs


async def test_half_closing_changes_nothing(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel("still here")) as rig:
        run = await rig.start()
        await run.call.done_writing()
        ended = await run.finish()

    assert (ended.state, run.text.strip()) == (COMPLETED, "still here")


async def test_status_names_what_runs_and_what_is_in_force(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel(hangs), max_workers=7) as rig:
        run = await rig.start()
        pid = (await run.until("started")).started.pid
        status = await rig.status()
        await run.tell(cancel=pb.Cancel())
        await run.finish()

    assert [(each.run_id, each.session_id, each.pid) for each in status.runs] == [
        (run.envelope.run_id, run.envelope.session_id, pid)
    ]
    assert status.runs[0].state == SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING
    assert (status.max_workers, status.tool_hosts) == (7, 0)
    assert "process" in status.sandbox_in_force
    assert set(status.sandbox_in_force).isdisjoint(status.sandbox_missing)
