"""A real runner with real workers, models that follow a script, and workers that are a few lines of program text."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import (
    FinishReason,
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
)
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1 import runner_service_pb2 as rs
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_agent.model import Finished, Model, ModelCall, ModelEvent, NewId, TextDelta
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_agent.policy import Scene, child_policy, main_policy
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_runner.app import open_app
from netaclaw_runner.launcher import ExecLauncher, Launcher
from netaclaw_runner.limits import Limits
from netaclaw_runner.settings import RunnerSettings

if TYPE_CHECKING:  # exists in the stubs alone
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

RunCall = grpc.aio.StreamStreamCall[rs.RunRequest, rs.RunResponse]
Step = str | Sequence[tuple[str, str]] | Exception | Callable[[ModelCall], AsyncIterator[ModelEvent]]
"""One model call: an answer, tool calls as (name, arguments), a failure, or a stream of its own."""

PRELUDE = """
import json, os, signal, sys, time
options = json.loads(sys.argv[1])
fd = options["channel"]
buffer = b""
def send(type, run=None, **fields):
    write(json.dumps({"type": type, "runId": run or task["runId"], **fields}).encode() + b"\\n")
def write(data):
    while data:
        data = data[os.write(fd, data):]
def receive():
    global buffer
    while b"\\n" not in buffer:
        data = os.read(fd, 65536)
        if not data:
            os._exit(3)
        buffer += data
    line, _, buffer = buffer.partition(b"\\n")
    return json.loads(line)
task = receive()
def start():
    send("run_start", protocolVersion=1, pid=os.getpid())
def pause(seconds):
    time.sleep(seconds)  # this worker's own pace
def hang():
    time.sleep(600)  # until it is ended
def end(text="done"):
    send("run_end", state="SUBAGENT_TASK_STATE_COMPLETED", finalOutput=text)
"""


def program(text: str) -> ExecLauncher:
    """A launcher whose workers run this text, with send, receive, write, start, pause, hang and end at hand."""
    return ExecLauncher(PRELUDE + text)


class ScriptModel:
    """Follows its steps, one per call; calls beyond them fail the test's expectations by an empty answer."""

    name = "script"
    context_window = 100_000

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self.calls: list[ModelCall] = []
        self.open = 0
        """Streams that are being read."""
        self.began = asyncio.Event()
        """Set with the first call."""

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        step = self._steps[len(self.calls)] if len(self.calls) < len(self._steps) else ""
        self.calls.append(call)
        self.open += 1
        self.began.set()
        try:
            if isinstance(step, Exception):
                raise step
            if callable(step):
                async for event in step(call):
                    yield event
            elif isinstance(step, str):
                for word in step.split(" "):
                    yield TextDelta(word + " ")
                yield Finished(answer(step))
            else:
                yield Finished(asking(step, new_id))
        finally:
            self.open -= 1


def answer(text: str, finish: FinishReason = FinishReason.FINISH_REASON_STOP) -> Message:
    """A finished answer."""
    parts = [Part(text=TextPart(text=text))] if text else []
    return _finished(parts, finish)


def asking(calls: Sequence[tuple[str, str]], new_id: NewId) -> Message:
    """A finished message that asks for tools."""
    parts = [
        Part(
            tool_call=ToolCallPart(
                call_id=new_id(),
                tool_name=name,
                arguments_json=arguments,
                state=ToolCallState.TOOL_CALL_STATE_PENDING,
            )
        )
        for name, arguments in calls
    ]
    return _finished(parts, FinishReason.FINISH_REASON_TOOL_CALLS)


def _finished(parts: Sequence[Part], finish: FinishReason) -> Message:
    return Message(
        role=MessageRole.MESSAGE_ROLE_ASSISTANT,
        parts=parts,
        finish_reason=finish,
        usage=Usage(input_tokens=10, output_tokens=5, model_calls=1),
        model="script",
    )


class OneModel(ModelCatalogue):
    """A catalogue of one."""

    def __init__(self, model: Model) -> None:
        super().__init__(ModelSettings())
        self._one = model

    def get(self, name: str) -> Model:
        return self._one if name in ("", self._one.name) else super().get(name)


@dataclass
class Rig:
    """A serving runner."""

    stub: RunnerServiceAsyncStub
    data_dir: Path
    workspace: Path
    address: str

    async def start(self, envelope: pb.SubagentTaskEnvelope | None = None) -> RunFollower:
        """Start a run over a call of its own and follow it."""
        follower = RunFollower(self.stub.Run(), envelope or task_envelope())
        await follower.order(start=follower.envelope)
        return follower

    async def attach(self, envelope: pb.SubagentTaskEnvelope, *, generation: int = 1, after_no: int = 0) -> RunFollower:
        """Take a run over."""
        follower = RunFollower(self.stub.Run(), envelope)
        await follower.order(attach=rs.AttachTarget(generation=generation, after_no=after_no))
        return follower

    async def run(self, envelope: pb.SubagentTaskEnvelope | None = None) -> RunFollower:
        """Run a task to its end."""
        follower = await self.start(envelope)
        await follower.finish()
        return follower

    async def status(self) -> rs.GetStatusResponse:
        return await self.stub.GetStatus(rs.GetStatusRequest())


class Refused(Exception):
    """The runner does not follow the run for this caller, or not any more."""

    def __init__(self, refused: rs.RunRefused) -> None:
        super().__init__(refused.message)
        self.reason = refused.reason
        self.metadata = dict(refused.metadata)


class RunFollower:
    """One caller of one run."""

    def __init__(self, call: RunCall, envelope: pb.SubagentTaskEnvelope) -> None:
        self.call = call
        self.envelope = envelope
        self.events: list[rs.RunEvent] = []
        self._batch: list[rs.RunEvent] = []

    @property
    def ended(self) -> rs.RunEnded:
        assert self.kinds[-1] == "ended"
        return self.events[-1].ended

    @property
    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [str(event.WhichOneof("event")) for event in self.events]

    @property
    def text(self) -> str:
        """All streamed text."""
        return "".join(event.stream_delta.text for event in self.events)

    @property
    def transcript(self) -> dict[int, Message]:
        """The transcript as a journal would hold it: the last version of every message."""
        return {event.message.n: event.message.message for event in self.events if event.HasField("message")}

    async def until(self, kind: str) -> rs.RunEvent:
        """Read up to the next event of a kind."""
        while True:
            event = await self._next()
            if event.WhichOneof("event") == kind:
                return event

    async def finish(self) -> rs.RunEnded:
        """Read to the end; nothing may follow it."""
        ended = (await self.until("ended")).ended
        assert not self._batch
        await self.call.done_writing()
        assert await self.call.read() == grpc.aio.EOF
        return ended

    async def refusal(self) -> Refused:
        """Read up to the refusal."""
        with pytest.raises(Refused) as caught:
            await self.until("ended")
        return caught.value

    async def tell(self, **command: object) -> None:
        """Send a command."""
        await self.order(command=rs.RunCommand(**command))  # type: ignore[arg-type]  # its fields

    async def order(self, **order: object) -> None:
        """Send an order."""
        orders = [rs.RunOrder(run_id=self.envelope.run_id, **order)]  # type: ignore[arg-type]  # one of its oneof
        await self.call.write(rs.RunRequest(orders=orders))

    async def leave(self) -> None:
        """Be gone, and wait until the runner knows."""
        async with said("the caller of a run is gone; its worker is held"):
            self.call.cancel()

    async def _next(self) -> rs.RunEvent:
        while not self._batch:
            response = await self.call.read()
            assert isinstance(response, rs.RunResponse), "the call ended without `ended`"
            for run in response.runs:
                assert run.run_id == self.envelope.run_id
                if run.HasField("refused"):
                    raise Refused(run.refused)
                self._batch.extend(run.events)
        event = self._batch.pop(0)
        self.events.append(event)
        return event


@asynccontextmanager
async def runner(
    tmp_path: Path,
    model: Model | None = None,
    *,
    launcher: Launcher | None = None,
    max_workers: int = 64,
    max_waiting: int = 0,
    max_per_session: int = 64,
    max_per_owner: int = 64,
    limits: Limits | None = None,
) -> AsyncIterator[Rig]:
    """A runner with a workspace "docs" that holds one file."""
    workspace = tmp_path / "docs"
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text("first line\nsecond line\n")
    settings = RunnerSettings(
        port=0,
        data_dir=tmp_path / "data",
        workspaces={"docs": str(workspace)},
        max_workers=max_workers,
        max_waiting=max_waiting,
        max_per_session=max_per_session,
        max_per_owner=max_per_owner,
    )
    catalogue = OneModel(model or ScriptModel())
    async with (
        open_app(settings, catalogue, launcher=launcher, limits=limits) as ports,
        connect(ports["internal"]) as channel,
    ):
        yield Rig(RunnerServiceStub(channel), tmp_path / "data", workspace, ports["internal"])


def task_envelope(
    goal: str = "look around",
    *,
    workspace: str = "docs",
    agent: Agent | None = None,
    timeout_ms: int = 60_000,
    budget: pb.TaskBudget | None = None,
) -> pb.SubagentTaskEnvelope:
    """A task of a clone with all the tools that its policy gives."""
    agent = agent or Agent(name="helper", system_prompt="You help.")
    settings = SubagentSettings()
    parent = main_policy(agent, scene=Scene.SUPERVISOR, workspace=workspace, settings=settings)
    config = effective_subagent_config(agent, settings)
    policy = child_policy(parent, agent, config=config, requested=None, settings=settings)
    names = [route.tool_name for route in policy.routes if route.approval == 1]
    return pb.SubagentTaskEnvelope(
        protocol_version=1,
        run_id=new_id(),
        session_id=new_id(),
        parent_entry_id=new_id(),
        task=SubagentTask(goal=goal),
        agent_config=agent,
        tool_names=names,
        tool_manifest=[manifest for manifest in KNOWN_TOOLS if manifest.tool_name in names],
        policy=policy,
        timeout_ms=timeout_ms,
        budget=budget or pb.TaskBudget(),
        owner_id="owner-1",
    )


@asynccontextmanager
async def said(message: str) -> AsyncIterator[None]:
    """Do what makes a run say this in the log, and wait until it has."""
    heard = asyncio.Event()
    handler = _Listener(message, heard)
    logger = logging.getLogger("netaclaw_runner.run")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
        await heard.wait()
    finally:
        logger.removeHandler(handler)


class _Listener(logging.Handler):
    """Sets an event when a message is logged."""

    def __init__(self, message: str, heard: asyncio.Event) -> None:
        super().__init__()
        self._message = message
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == self._message:
            self._heard.set()


def alive(pid: int) -> bool:
    """Whether a process of this number is there; a zombie counts if it is ours to reap."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z" or int(parent) == os.getpid()


def sleeping(mark: int) -> list[int]:
    """Processes of the machine that sleep for so many seconds, or are about to."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"%d" % mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
