"""A session's tool host: one worker without a loop, its calls in a queue, and a fresh worker where one is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict

from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2 import HostToolsOpen, HostToolsResponse, WorkerStarted
from netaclaw_agent.tools.results import cut_middle
from netaclaw_runner.child_log import ChildLog
from netaclaw_runner.confinement import host_options
from netaclaw_runner.launcher import Launcher, LaunchError
from netaclaw_runner.limits import Limits
from netaclaw_runner.protocol import Line
from netaclaw_runner.worker_link import Violation, WorkerLink

log = logging.getLogger(__name__)

_MAX_NAME = 200
_MAX_ANSWERS = 1024
_NEVER_BEGAN = "stopped before it began"


class ToolHost:
    """Runs one call at a time, in the order in which they come. Every call gets exactly one result."""

    def __init__(
        self,
        host_id: str,
        opening: HostToolsOpen,
        launcher: Launcher,
        workspace_fd: int | None,
        *,
        limits: Limits,
    ) -> None:
        """Takes ownership of the workspace's descriptor."""
        self._host_id = host_id
        self._opening = opening
        self._launcher = launcher
        self._workspace_fd = workspace_fd
        self._limits = limits
        self._child_log = ChildLog(limits.child_log_bytes)
        self._link: WorkerLink | None = None
        self._reading: asyncio.Task[None] | None = None
        self._calls: OrderedDict[str, pb.ToolCall] = OrderedDict()
        self._more = asyncio.Event()
        self._running = ""
        self._result: asyncio.Future[pb.ToolResultLine | str] | None = None
        self._sent = False
        """The running call has gone to its worker."""
        self._lost = False
        self._answers: asyncio.Queue[HostToolsResponse | None] = asyncio.Queue(_MAX_ANSWERS)
        self.used_at = time.monotonic()
        """When it was made, or its last call came."""
        self.given_up = False
        self._working: asyncio.Task[None] | None = None

    async def open(self) -> WorkerStarted:
        """Start the worker. Raises LaunchError."""
        link = await self._start()
        self._working = asyncio.create_task(self._work())
        report = link.sandbox
        return WorkerStarted(pid=link.pid, sandbox_in_force=report.in_force, sandbox_missing=report.missing)

    @property
    def idle(self) -> bool:
        """Whether it is open and no call runs or waits."""
        return self._working is not None and not (self._running or self._calls or self._answers.qsize())

    def give_up(self) -> None:
        """End an idle host, so that another one has its place: its caller opens one again when it needs it."""
        self.given_up = True
        self._answers.put_nowait(None)

    async def call(self, call: pb.ToolCall) -> None:
        """Queue a call. One that cannot be queued is answered at once."""
        self.used_at = time.monotonic()
        if self.given_up:
            return  # its stream ends, which the caller hears
        if not 0 < len(call.call_id) <= _MAX_NAME or call.call_id == self._running or call.call_id in self._calls:
            self._child_log.note("a call without an id, or with one in use, was ignored")
        elif len(self._calls) >= self._limits.waiting_calls:
            await self._answer(call, f"the tool host is busy: {len(self._calls)} calls wait")
        else:
            self._calls[call.call_id] = call
            self._more.set()

    async def cancel(self, call_id: str) -> None:
        """Stop a call: one that waits never runs; the running one gets a moment to end, then its worker is killed."""
        waiting = self._calls.pop(call_id, None)
        if waiting is not None:
            await self._answer(waiting, _NEVER_BEGAN)
        elif call_id != self._running or self._result is None:
            return
        elif not self._sent:  # its worker is being started
            if not self._result.done():
                self._result.set_result(pb.ToolResultLine(content=_NEVER_BEGAN, is_error=True))
        else:
            # A tool that attends to its channel ends all that it has started and answers; its worker then goes.
            if self._link is not None:
                self._link.send(pb.Cancel(reason="the call was cancelled"))
                self._lost = True  # for the next call, which must not be sent to one that leaves
            asyncio.get_running_loop().call_later(
                self._limits.cancel_s, self._give_up, self._result, "stopped while it was running"
            )

    async def next_answer(self) -> HostToolsResponse | None:
        """The next result or stretch of output; None once the host was given up."""
        return await self._answers.get()

    async def close(self) -> None:
        """End the host with all that runs in it. Calls without a result get none."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
        await self._drop_link(abrupt=bool(self._running))
        if self._workspace_fd is not None:
            os.close(self._workspace_fd)
            self._workspace_fd = None

    async def _work(self) -> None:
        while True:
            while not self._calls:
                self._more.clear()
                await self._more.wait()
            _, call = self._calls.popitem(last=False)
            self._running = call.call_id
            try:
                answer = await self._run(call)
            except Exception as error:
                log.exception("a tool host broke", extra=self._ids())
                answer = f"internal error in the tool host: {type(error).__name__}"
            if isinstance(answer, str):
                await self._drop_link(abrupt=True)
                await self._answer(call, answer)
            else:
                await self._answer(call, answer.content, is_error=answer.is_error)
            self._running = ""

    async def _run(self, call: pb.ToolCall) -> pb.ToolResultLine | str:
        """Run one call in a living worker: its result, or why there is none."""
        result: asyncio.Future[pb.ToolResultLine | str] = asyncio.get_running_loop().create_future()
        self._result = result
        self._sent = False
        try:
            link = await self._living_link()
            self._sent = not result.done()
            if self._sent and not link.send(call):
                return "the tool host could not take the call"
            async with asyncio.timeout(self._limits.host_call_s):
                return await result
        except LaunchError as error:
            return str(error)
        except TimeoutError:
            return _in_doubt(f"stopped after {self._limits.host_call_s:g} s")
        finally:
            self._result = None

    async def _living_link(self) -> WorkerLink:
        if self._link is not None and not self._lost:
            return self._link
        await self._drop_link(abrupt=True)
        return await self._start()

    async def _start(self) -> WorkerLink:
        link = await WorkerLink.open(
            self._launcher,
            self._host_id,
            self._workspace_fd,
            options=host_options(self._opening.host.policy),
            limits=self._limits,
            child_log=self._child_log,
        )
        self._link = link
        self._lost = False
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(link, started))
        link.send(self._opening.host)
        log.info("tool host started", extra={**self._ids(), "pid": link.pid})
        failure = f"the tool host did not start within {self._limits.start_s:g} s"
        try:
            async with asyncio.timeout(self._limits.start_s):
                failure = await started
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            await self._drop_link(abrupt=True)
            raise
        if failure:
            await self._drop_link(abrupt=True)
            raise LaunchError(failure)
        return link

    async def _drop_link(self, *, abrupt: bool) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.stop(pb.Cancel(reason="the tool host is closed"), abrupt=abrupt)
            log.info("tool host ended", extra={**self._ids(), "pid": link.pid})
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, link: WorkerLink, started: asyncio.Future[str]) -> None:
        async for item in link.received():
            if isinstance(item, Violation):
                self._lose(link, started, item.error)
            else:
                await self._handle(item, started)
        self._lose(link, started, "the tool host ended")

    async def _handle(self, line: Line, started: asyncio.Future[str]) -> None:
        message = line.message
        if isinstance(message, pb.RunStart):
            if not started.done():
                started.set_result("")
        elif isinstance(message, pb.Log):
            self._child_log.log(message.level, message.message)
        elif isinstance(message, pb.ToolOutput) and message.call_id == self._running:
            await self._answers.put(HostToolsResponse(output=message))
        elif isinstance(message, pb.ToolResultLine) and message.call_id == self._running and self._result is not None:
            if not self._result.done():
                self._result.set_result(message)
        else:
            self._child_log.note(f"a {line.type} line that nobody waits for was ignored")

    def _lose(self, link: WorkerLink, started: asyncio.Future[str], why: str) -> None:
        if link is not self._link:
            return  # dropped on purpose: the next call is not its
        self._lost = True
        if not started.done():
            started.set_result(f"{why} before it had started")
        elif self._result is not None:
            self._give_up(self._result, f"{why} while the tool was running")

    def _give_up(self, result: asyncio.Future[pb.ToolResultLine | str], why: str) -> None:
        if not result.done():
            result.set_result(_in_doubt(why))

    async def _answer(self, call: pb.ToolCall, content: str, *, is_error: bool = True) -> None:
        line = pb.ToolResultLine(
            call_id=call.call_id,
            tool_name=call.tool_name,
            content=cut_middle(content, self._limits.result_bytes),
            is_error=is_error,
        )
        await self._answers.put(HostToolsResponse(result=line))

    def _ids(self) -> dict[str, str]:
        return {"run_id": self._host_id, "session_id": self._opening.session_id}


def _in_doubt(why: str) -> str:
    return f"{why}; it may have had effect"
