"""What every worker must do, in whatever language: ours and the example in Node, on a real runner."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from google.protobuf.message import Message

from netaclaw.session.v1.entry_pb2 import ToolCallState
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import calls_of, text_of, user_message
from netaclaw_agent.model import ModelCall, ModelError, ModelEvent, TextDelta
from netaclaw_runner.foreign import CommandLauncher
from netaclaw_runner.launcher import ExecLauncher, Launcher, WorkerHandle
from netaclaw_runner.limits import Limits
from netaclaw_runner.protocol import UP, Line, decode, encode
from tests.integration.runner.rig import ScriptModel, answer, asking, runner, task_envelope

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED

READ = ("read_file", '{"path":"notes.txt"}')
WRITE = ("write_file", '{"path":"out.txt","content":"x"}')
PATIENT = Limits(cancel_s=5.0, exit_s=5.0)
"""A worker that has to be signalled is told from one that goes by itself."""


def node_worker() -> Launcher:
    """The example in Node."""
    node = shutil.which("node")
    if node is None and "CI" not in os.environ:
        pytest.skip("node is not installed")
    assert node is not None, "node must be there in CI"
    return CommandLauncher([node, str(Path(__file__).with_name("worker.mjs"))])


@pytest.fixture(params=[ExecLauncher, node_worker], ids=["ours", "node"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    make: Callable[[], Launcher] = request.param
    return make()


async def speaks_and_hangs(_call: ModelCall) -> AsyncIterator[ModelEvent]:
    """Says a little and then nothing for ever."""
    yield TextDelta("so far")
    await asyncio.Event().wait()


def unaided(diagnostics: list[str]) -> bool:
    """Whether no signal and no noise was needed."""
    return not any(word in line for line in diagnostics for word in ("SIGTERM", "SIGKILL", "noise", "ignored"))


async def test_it_starts_asks_its_model_and_ends_by_itself(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel("the answer")
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run(task_envelope("look\u2028around\r\nhere"))

    assert (run.ended.state, run.ended.final_output) == (COMPLETED, "the answer")
    assert text_of(model.calls[0].messages[0]) == "Goal:\nlook\u2028around\r\nhere"
    assert run.events[0].started.pid > 0
    assert unaided(list(run.ended.diagnostics))


async def test_tools_of_its_own_are_reported_and_others_refused(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel([READ, ("delegate_task", "{}"), ("no_such_tool", "{")], "done")
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run()

    read, delegated, unknown = calls_of(model.calls[1].messages[1])
    assert (read.state, read.result.content) == (
        ToolCallState.TOOL_CALL_STATE_COMPLETED,
        "first line\nsecond line\n",
    )
    for refused in (delegated, unknown):
        assert refused.state == ToolCallState.TOOL_CALL_STATE_REFUSED
        assert refused.result.is_error
        assert refused.result.content
    assert (run.ended.state, run.ended.tool_call_count) == (COMPLETED, 3)
    assert unaided(list(run.ended.diagnostics))


async def test_a_tool_that_fails_is_an_error_for_the_model(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel([("read_file", '{"path":"missing"}'), ("read_file", "{")], "done")
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run()

    assert all(call.result.is_error for call in calls_of(model.calls[1].messages[1]))
    assert run.ended.state == COMPLETED


async def test_a_proxied_call_waits_for_its_own_answer(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel([WRITE, WRITE], "written")
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.start()
        for content in ("first", "second"):
            asked = (await run.until("proxy_tool_call")).proxy_tool_call
            await run.tell(proxy_tool_result=pb.ProxyToolResult(call_id=asked.call_id, content=content))
        ended = await run.finish()

    assert [call.result.content for call in calls_of(model.calls[1].messages[1])] == ["first", "second"]
    assert ended.state == COMPLETED


async def test_steering_and_the_budgets_warning_enter_before_the_next_model_call(
    tmp_path: Path, launcher: Launcher
) -> None:
    model = ScriptModel([WRITE], "north it is")
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.start(task_envelope(budget=pb.TaskBudget(max_tool_rounds=2)))
        asked = (await run.until("proxy_tool_call")).proxy_tool_call
        await run.tell(steer=pb.Steer(request_id="s1", content="look north"))
        await run.tell(proxy_tool_result=pb.ProxyToolResult(call_id=asked.call_id, content="ok"))
        await run.until("steer_taken")
        ended = await run.finish()

    added = [text_of(message) for message in model.calls[1].messages[2:]]
    assert "look north" in added
    assert any("one model call is left" in text for text in added)
    assert ended.state == COMPLETED


async def test_history_stays_and_goes_before_the_goal(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel([READ], "more")
    envelope = task_envelope("go on")
    envelope.history.extend([user_message("before"), answer("said before")])
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run(envelope)

    assert [text_of(message) for message in model.calls[1].messages[:3]] == ["before", "said before", "Goal:\ngo on"]
    assert run.ended.state == COMPLETED


async def test_a_spent_budget_is_a_partial_end(tmp_path: Path, launcher: Launcher) -> None:
    model = ScriptModel([READ], [READ], [READ])
    async with runner(tmp_path, model, launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run(task_envelope(budget=pb.TaskBudget(max_tool_rounds=2)))

    assert run.ended.state == PARTIAL
    assert len(model.calls) == 2


async def test_a_model_that_fails_fails_the_task(tmp_path: Path, launcher: Launcher) -> None:
    async with runner(tmp_path, ScriptModel(ModelError("gave up")), launcher=launcher, limits=PATIENT) as rig:
        run = await rig.run()

    assert (run.ended.state, run.ended.error) == (FAILED, "the model call failed: gave up")


async def test_a_cancel_line_is_enough_to_end_it(tmp_path: Path, launcher: Launcher) -> None:
    async with runner(tmp_path, ScriptModel(speaks_and_hangs), launcher=launcher, limits=PATIENT) as rig:
        run = await rig.start()
        await run.until("stream_delta")
        await run.tell(cancel=pb.Cancel(reason="enough"))
        ended = await run.finish()

    assert (ended.state, ended.partial_text) == (CANCELLED, "so far")
    assert unaided(list(ended.diagnostics))


class Dialogue:
    """A worker's channel in a test's own hands."""

    def __init__(self, handle: WorkerHandle) -> None:
        self._handle = handle
        self._socket = handle.channel
        self._rest = b""

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    async def hear(self) -> Line:
        self._socket.setblocking(False)
        while b"\n" not in self._rest:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
            assert data, "the worker closed its channel"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return decode(line, UP)

    async def until(self, kind: type[Message]) -> Message:
        while not isinstance(message := (await self.hear()).message, kind):
            pass
        return message

    async def close(self) -> int:
        """Be gone. Returns the worker's exit code."""
        self._socket.shutdown(socket.SHUT_WR)
        code = await self._handle.exited()
        self._socket.close()
        os.close(self._handle.stderr_fd)
        assert await self._handle.finish()
        return code


async def test_lines_that_are_not_its_own_are_ignored(launcher: Launcher) -> None:
    """C44, from the worker's side: late, stray, doubled and foreign answers, noise, and types of a later version."""
    envelope = task_envelope()
    run, dialogue = envelope.run_id, Dialogue(await launcher.launch(None))
    dialogue.say(b"noise\n\n42\nnull\n" + encode(run, envelope))
    assert isinstance(await dialogue.until(pb.ModelRequest), pb.ModelRequest)
    right = pb.ModelResponse(request_id=1, message=asking([WRITE], lambda: "call-1"))
    wrong = pb.ModelResponse(request_id=1, message=answer("FOREIGN"))
    dialogue.say(encode("another-run", wrong) + encode("another-run", pb.Cancel(reason="FOREIGN")))
    dialogue.say(encode(run, pb.ModelResponse(request_id=99, message=answer("STRAY"))))
    dialogue.say(b'{"type":"of_a_later_version","runId":"%s","requestId":1}\n' % run.encode())
    data = encode(run, right)
    for at in range(0, len(data), 7):  # torn into small pieces
        dialogue.say(data[at : at + 7])
    dialogue.say(encode(run, wrong))
    asked = await dialogue.until(pb.ProxyToolCall)
    assert isinstance(asked, pb.ProxyToolCall)
    assert asked.call_id == "call-1"
    for call_id, content in (("call-9", "STRAY"), ("call-1", "right"), ("call-1", "SECOND")):
        dialogue.say(encode(run, pb.ProxyToolResult(call_id=call_id, content=content)))
    second = await dialogue.until(pb.ModelRequest)
    assert isinstance(second, pb.ModelRequest)
    assert (second.request_id, second.keep, len(second.messages)) == (2, 2, 0)
    dialogue.say(encode(run, pb.ModelResponse(request_id=2, message=answer("the end"))))
    ended = await dialogue.until(pb.RunEnd)
    assert isinstance(ended, pb.RunEnd)
    assert ended.final_output == "the end"
    assert await dialogue.close() == 0


async def test_a_runner_that_is_gone_ends_it(launcher: Launcher) -> None:
    envelope = task_envelope()
    dialogue = Dialogue(await launcher.launch(None))
    dialogue.say(encode(envelope.run_id, envelope))
    await dialogue.until(pb.ModelRequest)
    async with asyncio.timeout(10):
        assert await dialogue.close() != 0
