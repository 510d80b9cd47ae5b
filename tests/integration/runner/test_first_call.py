"""A child's first model call is made while its worker is started, and is its only first call."""

from __future__ import annotations

from pathlib import Path

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import text_of
from netaclaw_agent.model import ModelError
from netaclaw_runner.launcher import ExecLauncher
from tests.integration.runner.launchers import GatedLauncher
from tests.integration.runner.rig import ScriptModel, program, runner

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED


async def test_the_model_is_asked_before_the_worker_stands_and_shown_after(tmp_path: Path) -> None:
    launcher, model = GatedLauncher(), ScriptModel([("read_file", '{"path": "notes.txt"}')], "two lines")
    async with runner(tmp_path, model, launcher=launcher) as rig:
        run = await rig.start()
        await launcher.asked.wait()
        await model.began.wait()
        launcher.opened.set()
        ended = await run.finish()

    assert (ended.state, ended.final_output) == (COMPLETED, "two lines")
    assert len(model.calls) == ended.usage.model_calls == 2
    assert run.kinds[:3] == ["started", "message", "stream_start"]
    assert [text_of(message) for message in model.calls[0].messages] == ["Goal:\nlook around"]


async def test_a_call_that_the_worker_does_not_ask_for_is_dropped_and_counted(tmp_path: Path) -> None:
    launcher, model = GatedLauncher(), ScriptModel("of the goal alone", "with the message")
    async with runner(tmp_path, model, launcher=launcher) as rig:
        run = await rig.start()
        await model.began.wait()
        await run.tell(steer=pb.Steer(request_id="s1", content="and be quick"))
        launcher.opened.set()
        ended = await run.finish()

    assert ended.final_output == "with the message"
    assert text_of(model.calls[1].messages[-1]) == "and be quick"
    assert ended.usage.model_calls == 2
    assert model.open == 0


async def test_a_call_for_a_worker_that_never_stands_is_ended(tmp_path: Path) -> None:
    launcher, model = GatedLauncher(), ScriptModel("never shown")
    launcher.broken = True
    async with runner(tmp_path, model, launcher=launcher) as rig:
        run = await rig.start()
        await model.began.wait()
        launcher.opened.set()
        ended = await run.finish()

    assert (ended.state, ended.error) == (FAILED, "no worker today")
    assert "stream_delta" not in run.kinds
    assert ended.usage.model_calls == 1
    assert model.open == 0


async def test_a_call_that_fails_fails_the_task_as_it_would_later(tmp_path: Path) -> None:
    async with runner(tmp_path, ScriptModel(ModelError("no such key")), launcher=ExecLauncher()) as rig:
        run = await rig.run()

    assert (run.ended.state, run.ended.error) == (FAILED, "the model call failed: no such key")
    assert run.ended.usage.model_calls == 1


async def test_for_a_foreign_program_no_call_is_made_before_it_asks(tmp_path: Path) -> None:
    model = ScriptModel("unasked")
    async with runner(tmp_path, model, launcher=program("start()\nend()")) as rig:
        run = await rig.run()

    assert run.ended.state == COMPLETED
    assert model.calls == []
    assert run.ended.usage.model_calls == 0
