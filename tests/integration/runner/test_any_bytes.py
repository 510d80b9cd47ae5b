"""Whatever a worker writes and whatever a caller orders: a run ends once, and says only what is its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Literal

from google.protobuf.json_format import MessageToJson
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2 import RunCommand, RunEvent
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import new_event_loop
from netaclaw_runner.launcher import SandboxReport
from netaclaw_runner.limits import Limits
from netaclaw_runner.run import Run
from netaclaw_runner.sandbox.options import LaunchOptions
from tests.integration.runner.rig import ScriptModel, task_envelope

CANCELLED = SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
ENDS = {
    SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED,
    SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL,
    SubagentTaskState.SUBAGENT_TASK_STATE_FAILED,
    SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT,
    CANCELLED,
}
OURS = "OURS"
FOREIGN = "FOREIGN-7c1d"
"""Stands in every line of another run: nothing of it may ever reach the caller."""
LIMITS = Limits(
    start_s=0.5, exit_s=0.02, cancel_s=0.005, term_s=0.005, gone_s=1.0, line_bytes=4096, flush_s=0.001, text_bytes=2000
)


class FakeHandle:
    """A worker without a process: its socket is in the test's hands, a signal ends it unless it is deaf to it."""

    sandbox = SandboxReport([], [])
    predictable = False

    def __init__(self, *, deaf: bool) -> None:
        self.channel, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.stderr_fd, self._stderr = os.pipe()
        self._deaf = deaf
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.finished = 0
        self.pid = 4242

    async def exited(self) -> int:
        return await asyncio.shield(self._exit)

    def signal_tree(self, number: int) -> None:
        if number == signal.SIGKILL or not self._deaf:
            self.exit(-number)

    def exit(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)
            self.theirs.close()

    async def finish(self) -> bool:
        self.finished += 1
        os.close(self._stderr)
        return True


class FakeLauncher:
    """Hands out one handle."""

    sandbox = SandboxReport([], [])
    predictable = False

    def __init__(self, *, deaf: bool) -> None:
        self._deaf = deaf
        self.handle: FakeHandle | None = None
        self.launched = asyncio.Event()

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> FakeHandle:
        self.handle = FakeHandle(deaf=self._deaf)
        self.launched.set()
        return self.handle


@dataclass
class Step:
    """One thing that happens to a run."""

    what: Literal["write", "shut", "exit", "tell", "leave", "attach", "end", "breathe"]
    data: bytes = b""
    number: int = 0
    command: RunCommand = field(default_factory=RunCommand)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ids = st.sampled_from(["c1", "c2", "c3", ""])
tools = st.sampled_from(["read_file", "write_file", "run_shell", "no_such_tool", ""])
states = st.sampled_from(["SUBAGENT_TASK_STATE_COMPLETED", "SUBAGENT_TASK_STATE_PARTIAL", 5, "nonsense", 3])
FIELDS: dict[str, dict[str, st.SearchStrategy[object]]] = {
    "run_start": {"protocolVersion": st.sampled_from([1, 1, 1, 2]), "pid": st.integers(0, 9)},
    "model_request": {"requestId": st.integers(-1, 5), "keep": st.integers(-1, 4), "messages": st.just([])},
    "token": {"text": words},
    "thinking": {"text": words},
    "log": {"message": words},
    "tool_call": {"callId": ids, "toolName": tools, "argumentsJson": words},
    "tool_output": {"callId": ids, "text": words},
    "tool_result": {"callId": ids, "content": words},
    "proxy_tool_call": {"callId": ids, "toolName": tools, "argumentsJson": words},
    "steer_taken": {"requestId": st.sampled_from(["s1", "s2"])},
    "run_end": {"state": states, "finalOutput": words.map(lambda text: OURS + text)},
    "run_error": {"error": words, "partialText": words},
}


@st.composite
def lines(draw: st.DrawFn, run_id: str) -> bytes:
    """A line of a known type: right, of another run, without a field, with one of the wrong kind, or too long."""
    kind = draw(st.sampled_from(list(FIELDS)))
    line: dict[str, object] = {name: draw(value) for name, value in FIELDS[kind].items()}
    flaw = draw(st.sampled_from(["none"] * 6 + ["foreign", "missing", "wrong", "long", "surrogate"]))
    if flaw == "foreign":
        run_id = new_id()
        line = {name: FOREIGN if isinstance(value, str) else value for name, value in line.items()}
    elif flaw == "missing":
        line.pop(draw(st.sampled_from(list(line))))
    elif flaw == "wrong":
        line[draw(st.sampled_from(list(line)))] = draw(st.sampled_from([None, [], {}, 1e300, "9" * 50, True]))
    elif flaw == "long":
        line["extra"] = FOREIGN * 500
    elif flaw == "surrogate":
        line[next(iter(line))] = "\ud800"
    return json.dumps({"type": kind, "runId": run_id, **line}).encode()


def steps(run_id: str) -> st.SearchStrategy[list[Step]]:
    """Any bytes beside lines, whole or torn, between any orders."""
    line = lines(run_id).map(lambda data: data + b"\n")
    data = st.one_of(line, line, line, st.binary(max_size=60), lines(run_id), st.just(b"\r\n\xef\xbb\xbf\n"))
    commands = st.one_of(
        words.map(lambda reason: RunCommand(cancel=pb.Cancel(reason=reason))),
        st.builds(
            lambda i, t: RunCommand(steer=pb.Steer(request_id=i, content=t)), st.sampled_from(["s1", "s2"]), words
        ),
        st.builds(lambda i, t: RunCommand(proxy_tool_result=pb.ProxyToolResult(call_id=i, content=t)), ids, words),
        st.just(RunCommand()),
    )
    start = json.dumps({"type": "run_start", "runId": run_id, "protocolVersion": 1, "pid": 1}).encode() + b"\n"
    step = st.one_of(
        data.map(lambda found: Step("write", found)),
        data.map(lambda found: Step("write", found)),
        commands.map(lambda found: Step("tell", command=found)),
        st.sampled_from(["leave", "attach", "breathe", "breathe"]).map(Step),  # type: ignore[arg-type]  # a str, not a literal
        st.sampled_from([Step("shut"), Step("exit", number=0), Step("exit", number=-11), Step("end")]),
    )
    begun = st.sampled_from([True, True, True, True, False])
    return st.tuples(begun, st.lists(step, min_size=3, max_size=25)).map(
        lambda drawn: [Step("write", start)] * drawn[0] + drawn[1]
    )


class Ordeal:
    """One run, put through its steps."""

    def __init__(self, run_id: str, *, deaf: bool) -> None:
        envelope = task_envelope(workspace="", budget=pb.TaskBudget(max_tool_calls=3, max_tokens=60))
        envelope.run_id = run_id
        model = ScriptModel("an answer", [("write_file", "{}")], "more", RuntimeError("fault"))
        self.launcher = FakeLauncher(deaf=deaf)
        self.run = Run(envelope, model, self.launcher, None, limits=LIMITS, new_id=new_id)
        self.reader = self.run.attend()
        self.events: list[RunEvent] = []

    async def go_through(self, steps: list[Step]) -> None:
        executing = asyncio.create_task(self.run.execute())
        await self.launcher.launched.wait()
        for step in steps:
            self._take(step)
            for _ in range(6):  # what was written is read, and what came of it has happened
                await asyncio.sleep(0)  # one turn of the event loop
        self.reader = self.run.take_over(0)  # whoever attends now learns of the end
        self.run.obey(RunCommand(cancel=pb.Cancel(reason="the test is over")))
        async with asyncio.timeout(10):
            await executing
        while batch := self.reader.take(1000, 2**31):
            self.events += batch

    def _take(self, step: Step) -> None:
        handle = self.launcher.handle
        assert handle is not None
        if step.what == "tell":
            self.run.obey(step.command)
        elif step.what == "leave":
            self.run.leave(self.reader)
        elif step.what == "attach":
            self.reader = self.run.take_over(0)
        elif step.what == "exit":
            handle.exit(step.number)
        elif handle.theirs.fileno() >= 0:
            try:
                if step.what == "write":
                    handle.theirs.send(step.data)
                elif step.what == "shut":
                    handle.theirs.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, BlockingIOError):
                pass  # the runner has hung up, or does not read


RUN_ID = new_id()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=steps(RUN_ID), deaf=st.booleans())
def test_any_bytes_and_any_orders_end_a_run_once_and_with_nothing_foreign(steps: list[Step], deaf: bool) -> None:
    async def ordeal() -> Ordeal:
        made = Ordeal(RUN_ID, deaf=deaf)
        await made.go_through(steps)
        return made

    with asyncio.Runner(loop_factory=new_event_loop) as loop:
        done = loop.run(ordeal())

    kinds = [each.WhichOneof("event") for each in done.events]
    assert kinds.count("ended") == 1
    assert kinds[-1] == "ended"
    numbers = [each.event_no for each in done.events]
    assert numbers == sorted(set(numbers))
    assert FOREIGN not in "".join(MessageToJson(each) for each in done.events)
    ended = done.events[-1].ended
    assert ended.state in ENDS
    assert "internal error" not in ended.error.replace("internal error in the model call", "")
    event(f"{SubagentTaskState.Name(ended.state)}: {ended.error[:60] if ended.error.isascii() else '…'}")
    assert done.run.state == ended.state
    assert done.launcher.handle is not None
    assert done.launcher.handle.finished == 1
    if ended.state == SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED:
        assert ended.final_output.startswith(OURS)
