"""One run: a worker, its task, and exactly one end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator

from google.protobuf.message import Message

from netaclaw.chat.v1.event_pb2 import StreamChannel
from netaclaw.session.v1.entry_pb2 import FinishReason
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2 import RunCommand, RunEnded, RunEvent, WorkerStarted
from netaclaw.tool.v1.tool_pb2 import SandboxMode
from netaclaw_agent.model import Model, NewId
from netaclaw_agent.tools.results import cut_middle
from netaclaw_runner.child_log import ChildLog
from netaclaw_runner.clocks import Clocks
from netaclaw_runner.confinement import task_options
from netaclaw_runner.ending import End, Ending, Manner, cancelled, failed
from netaclaw_runner.events import EventStream, Reader
from netaclaw_runner.launcher import Launcher, LaunchError, SandboxReport
from netaclaw_runner.limits import Limits
from netaclaw_runner.model_desk import ModelDesk
from netaclaw_runner.opening import for_worker, opening
from netaclaw_runner.protocol import PROTOCOL_VERSION, Line
from netaclaw_runner.shown_tools import shown_tools
from netaclaw_runner.tool_ledger import ToolLedger
from netaclaw_runner.transcript import Transcript
from netaclaw_runner.worker_link import Violation, WorkerLink, describe_exit

log = logging.getLogger(__name__)

_QUEUED = SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED
_RUNNING = SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING
_COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
_PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
_FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED
_CUT = (FinishReason.FINISH_REASON_LENGTH, FinishReason.FINISH_REASON_CONTENT_FILTER)
_MOST_MESSAGES = 1000


class Run:
    """Made with a task, executed once. All methods but `execute` return at once and may be called at any time."""

    def __init__(
        self,
        envelope: pb.SubagentTaskEnvelope,
        model: Model,
        launcher: Launcher,
        workspace_fd: int | None,
        *,
        limits: Limits,
        new_id: NewId,
    ) -> None:
        """Takes ownership of the workspace's descriptor."""
        self._envelope = envelope
        self._model = model
        self._launcher = launcher
        self._workspace_fd = workspace_fd
        self._limits = limits
        self._ending = Ending()
        self._link: WorkerLink | None = None
        self._executing = False
        self._started = False
        self._unsent: list[Message] = []
        self._steering: dict[str, bool] = {}
        """Messages by request id; whether the worker has taken them."""
        self._child_log = ChildLog(limits.child_log_bytes)
        self.generation = 0
        """Of the owner that attends to it; the one that started it has 0."""
        self.events = EventStream(limits)
        transcript = Transcript(envelope.history, envelope.policy.routes, limits)
        tools = shown_tools(envelope, workspace=workspace_fd is not None)
        self._desk = ModelDesk(
            self, envelope, model, tools, transcript, new_id=new_id, limits=limits, room=self.events.room
        )
        self._ledger = ToolLedger(self, self._desk, transcript, envelope.budget, limits)
        self._handlers = self._make_handlers()
        self._clocks = Clocks(envelope, limits, end=self.end, warn=self._desk.warn, waiting=self._cannot_move)

    @property
    def run_id(self) -> str:
        """Its id; the task's too."""
        return self._envelope.run_id

    @property
    def session_id(self) -> str:
        """Its session."""
        return self._envelope.session_id

    @property
    def pid(self) -> int:
        """Its worker's process id; 0 before there is one."""
        return self._link.pid if self._link is not None else 0

    @property
    def _sandbox(self) -> SandboxReport:
        """What is in force for its worker, or would be."""
        return self._link.sandbox if self._link is not None else self._launcher.sandbox

    @property
    def state(self) -> SubagentTaskState:
        """QUEUED until it is executed, RUNNING, then its end state."""
        if self._ending.end is not None:
            return self._ending.end.state
        return _RUNNING if self._executing else _QUEUED

    @property
    def over(self) -> asyncio.Event:
        """Set when its end is decided; something of it may still be alive."""
        return self._ending.over

    @property
    def attended(self) -> bool:
        return self.events.read and not self._ending.over.is_set()

    async def execute(self) -> None:
        """Run the task to its end. Returns when nothing of it is alive and `ended` was emitted.

        A run that was ended before starts no worker.
        """
        self._executing = True
        self._clocks.run()
        try:
            if not self._ending.over.is_set():
                await self._work()
        except Exception as error:  # one broken run must not take the others with it
            log.exception("a run broke", extra=self._ids())
            self.end(failed(f"internal error in the runner: {type(error).__name__}"))
        finally:
            await self._desk.stop()
            self._clocks.stop()
            if self._workspace_fd is not None:
                os.close(self._workspace_fd)
            self._ledger.close()
            self._emit_end()

    def obey(self, command: RunCommand) -> None:
        """A caller's command. After the end it changes nothing."""
        if self._ending.over.is_set():
            return
        kind = command.WhichOneof("command")
        if kind == "cancel":
            self.end(cancelled(command.cancel.reason))
        elif kind == "steer":
            self._steer(command.steer)
        elif kind == "proxy_tool_result":
            self._ledger.proxy_result(command.proxy_tool_result)
        elif kind == "pause":
            if command.pause.paused:
                self._clocks.pause()
            else:
                self._clocks.resume()

    def _steer(self, message: pb.Steer) -> None:
        """Pass a message on, once however often it is sent: a caller after a lost one may not know what it told."""
        taken = self._steering.get(message.request_id)
        if not message.request_id:
            self.tell(message)
        elif taken:
            self.emit(RunEvent(steer_taken=pb.SteerTaken(request_id=message.request_id)))
        elif taken is None and len(self._steering) < _MOST_MESSAGES:
            self._steering[message.request_id] = False
            self.tell(message)

    def attend(self) -> Reader:
        """Become the first caller."""
        return self.events.open()

    def take_over(self, after_no: int) -> Reader:
        """Become the caller of a run that had one before. Raises OUT_OF_RANGE (see EventStream.take_over)."""
        reader = self.events.take_over(after_no, self._catch_up)
        if not self._ending.over.is_set():
            self._clocks.release()
            self._desk.resume()
        return reader

    def leave(self, reader: Reader) -> None:
        """The caller is gone: hold the worker for the next one. Nothing happens when another took over before."""
        if self.events.close(reader) and not self._ending.over.is_set():
            self._clocks.hold()
            log.info("the caller of a run is gone; its worker is held", extra=self._ids())

    def emit(self, event: RunEvent) -> None:
        self.events.add(event)

    def tell(self, message: Message) -> None:
        if self._link is None:
            if len(self._unsent) < _MOST_MESSAGES:
                self._unsent.append(message)
        elif not self._link.send(message) and not self._link.closed:  # its exit has a better reason to tell
            self.end(failed("the worker does not read its channel", Manner.ABRUPT))

    def end(self, end: End) -> None:
        if self._ending.decide(end):
            state = SubagentTaskState.Name(end.state).removeprefix("SUBAGENT_TASK_STATE_")
            log.info("run ends", extra={**self._ids(), "state": state, "pid": self.pid})

    def note(self, fact: str) -> None:
        self._child_log.note(fact)

    def progress(self) -> None:
        self._clocks.moved()

    async def _work(self) -> None:
        if self._launcher.predictable:
            self._desk.begin_ahead(opening(self._envelope))
        try:
            link = await WorkerLink.open(
                self._launcher,
                self.run_id,
                self._workspace_fd,
                options=task_options(self._envelope.policy),
                limits=self._limits,
                child_log=self._child_log,
            )
        except LaunchError as error:
            self.end(failed(str(error)))
            return
        self._link = link
        log.info("worker started", extra={**self._ids(), "pid": link.pid})
        self.tell(for_worker(self._envelope))
        for message in self._unsent:
            self.tell(message)
        reading = asyncio.create_task(self._read(link))
        watching = asyncio.create_task(self._watch_exit(link, reading))
        await self._ending.over.wait()
        await self._desk.stop()
        await self._stop(link)
        for task in (reading, watching):
            task.cancel()
        await asyncio.wait([reading, watching])

    async def _stop(self, link: WorkerLink) -> None:
        end = self._ending.end
        assert end is not None
        farewell = pb.Cancel(reason=end.error) if end.manner is Manner.ASKED else None
        await link.stop(farewell, abrupt=end.manner is Manner.ABRUPT)

    async def _read(self, link: WorkerLink) -> None:
        """Handle lines until end of file. After the end lines are read and dropped, so that the worker never waits."""
        async for item in link.received():
            if self._ending.over.is_set():
                continue
            try:
                self._handle(item)
            except Exception as error:
                log.exception("a line could not be handled", extra=self._ids())
                self.end(failed(f"internal error in the runner: {type(error).__name__}", Manner.ABRUPT))
            await self.events.room()
        try:
            async with asyncio.timeout(self._limits.exit_s):
                self.end(failed(describe_exit(await link.exited())))
        except TimeoutError:
            self.end(failed("the worker closed its channel before it had finished"))

    async def _watch_exit(self, link: WorkerLink, reading: asyncio.Task[None]) -> None:
        """A descendant may hold the channel open after the worker's exit: do not wait for its end of file."""
        code = await link.exited()
        await asyncio.wait([reading], timeout=self._limits.exit_s)
        self.end(failed(describe_exit(code)))

    def _handle(self, item: Line | Violation) -> None:
        if isinstance(item, Violation):
            self.end(failed(item.error, Manner.ABRUPT))
            return
        if not self._started and item.type not in ("run_start", "log"):
            self.end(failed(f"the worker sent {item.type} before run_start", Manner.ABRUPT))
            return
        handler = self._handlers.get(item.type)
        if handler is None:
            self.note(f"a {item.type} line is nothing for a run")
            return
        if handler(item.message):
            self.progress()

    def _make_handlers(self) -> dict[str, Callable[..., bool]]:
        """Each says whether the line has moved the run: repeated and ignored lines are no progress, nor are logs."""
        return {
            "run_start": self._on_run_start,
            "model_request": self._desk.request,
            "token": lambda line: self._desk.own_text(StreamChannel.STREAM_CHANNEL_TEXT, line.text),
            "thinking": lambda line: self._desk.own_text(StreamChannel.STREAM_CHANNEL_THINKING, line.text),
            "log": self._on_log,
            "tool_call": self._ledger.local,
            "tool_output": self._ledger.output,
            "tool_result": self._ledger.result,
            "proxy_tool_call": self._ledger.proxied,
            "steer_taken": self._on_steer_taken,
            "run_end": self._on_run_end,
            "run_error": self._on_run_error,
        }

    def _on_log(self, line: pb.Log) -> bool:
        self._child_log.log(line.level, line.message)
        return False

    def _on_run_start(self, line: pb.RunStart) -> bool:
        if self._started:
            self.note("a second run_start was ignored")
            return False
        if line.protocol_version != PROTOCOL_VERSION:
            self.end(failed(f"the worker speaks version {line.protocol_version} of the protocol"))
            return False
        self._started = True
        self._clocks.started()
        report = self._sandbox
        self.emit(
            RunEvent(
                started=WorkerStarted(
                    pid=self.pid,
                    sandbox_in_force=report.in_force,
                    sandbox_missing=report.missing,
                    model=self._model.name,
                )
            )
        )
        return True

    def _on_steer_taken(self, line: pb.SteerTaken) -> bool:
        if self._steering.get(line.request_id, True):
            self.note("a steer_taken for an unknown message was ignored")
            return False
        self._steering[line.request_id] = True
        self.emit(RunEvent(steer_taken=line))
        return True

    def _on_run_end(self, line: pb.RunEnd) -> bool:
        if line.state not in (_COMPLETED, _PARTIAL):
            self.end(failed("the worker's run_end has no valid state", Manner.BY_ITSELF))
        elif line.state == _COMPLETED and not line.final_output.strip():
            self.end(failed("the answer was empty", Manner.BY_ITSELF))
        else:
            cut = self._desk.last_finish in _CUT
            answer = End(
                _PARTIAL if cut else line.state,
                line.error or ("the model was cut short" if cut else ""),
                final_output=line.final_output,
                raw_final_content=line.raw_final_content,
                manner=Manner.BY_ITSELF,
            )
            self.end(answer)
        return True

    def _on_run_error(self, line: pb.RunError) -> bool:
        self.end(End(_FAILED, line.error, partial_text=line.partial_text, manner=Manner.BY_ITSELF))
        return True

    def _emit_end(self) -> None:
        end = self._ending.end
        assert end is not None
        usual = end.manner is Manner.BY_ITSELF or end.state != _FAILED
        diagnostics = self._child_log.diagnostics(with_tail=not usual)
        if self._envelope.policy.sandbox != SandboxMode.SANDBOX_MODE_OFF and self._sandbox.missing:
            diagnostics.append("not in force: " + ", ".join(self._sandbox.missing))
        partial = "" if end.state == _COMPLETED else end.final_output or self._desk.partial_text or end.partial_text
        final = end.final_output or (partial if end.state == _PARTIAL else "")
        self.emit(
            RunEvent(
                ended=RunEnded(
                    state=end.state,
                    final_output=self._cut(final),
                    error=self._cut(end.error),
                    partial_text=self._cut(partial),
                    usage=self._desk.usage,
                    tool_call_count=self._ledger.count,
                    duration_ms=self._clocks.elapsed_ms,
                    model=self._model.name,
                    diagnostics=diagnostics,
                    raw_final_content=self._cut(end.raw_final_content),
                )
            )
        )

    def _cut(self, text: str) -> str:
        return cut_middle(text, self._limits.result_bytes)

    def _catch_up(self, dropped_no: int) -> Iterator[RunEvent]:
        """What the next caller needs beyond the events that are held."""
        yield from self._ledger.catch_up(dropped_no)
        yield from self._desk.catch_up()

    def _cannot_move(self) -> bool:
        return not self._started or self._ledger.waiting or not self.events.read

    def _ids(self) -> dict[str, str]:
        return {"run_id": self.run_id, "session_id": self.session_id}
