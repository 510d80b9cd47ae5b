"""What a child's worker asks of the main side: checked, agreed to where a person must, and run in the tool host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.subagent.v1.envelope_pb2 import ProxyToolCall, ProxyToolResult
from netaclaw.subagent.v1.runner_service_pb2 import Pause, RunCommand
from netaclaw.tool.v1.tool_pb2 import ToolApproval, ToolManifest, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.policy import resolve, run_call
from netaclaw_agent.tool import Handler, ToolBox
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.delegation.batch_journal import BatchScope
from netaclaw_orchestrator.delegation.call_steps import CallSteps
from netaclaw_orchestrator.delegation.sources import ChildPlan
from netaclaw_orchestrator.questions import Asker

log = logging.getLogger(__name__)


class ProxiedCalls:
    """The proxied calls of one child; each gets one answer, in whatever order they end."""

    def __init__(
        self,
        scope: BatchScope,
        plan: ChildPlan,
        task: SubagentTask,
        steps: CallSteps,
        *,
        report: Callable[[], None],
        written: Callable[[], Awaitable[None]],
        command: Callable[[RunCommand], Awaitable[None]],
        shown: Callable[[str, str], None],
    ) -> None:
        """`report` has the task's state written, `written` waits for all steps so far, `command` tells the run, `shown`
        is told a call's id and a stretch of its output."""
        self._scope = scope
        self._agent = plan.agent
        self._task = task
        self._steps = steps
        self._report = report
        self._written = written
        self._command = command
        self._shown = shown
        self._running: set[asyncio.Task[None]] = set()
        self._asking = 0
        self._policy = plan.policy

    async def begin(self, call: ProxyToolCall) -> None:
        """Begin a call beside the run's other events. One that an earlier owner has answered is answered again."""
        part = self._steps.begin_proxied(call)
        if part.HasField("result"):  # an earlier owner's, who may have died before the worker had it
            await self._answer(part.call_id, part.result)
        elif not self._steps.effect_in_flight:
            await self._written()  # a call with effect is durable before it acts
            running = asyncio.create_task(self._run(part))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Stop what runs; what a person was asked is closed, unless the session is left to another owner."""
        running = list(self._running)
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running)
        self.close_questions()

    def close_questions(self) -> None:
        """Close what a dead owner had asked for the task and nobody goes on with."""
        writer = self._scope.writer
        if not writer.sealed and (writes := self._scope.questions.close(self._task.task_id)):
            writer.post(*writes)

    @cached_property
    def _box(self) -> ToolBox:
        return resolve(self._policy, self._bind, KNOWN_TOOLS)

    async def _run(self, part: ToolCallPart) -> None:
        try:
            refusal = await self._refusal(part)
            if refusal:
                result = ToolResult(content=f"{part.tool_name} was refused: {refusal}", is_error=True)
            else:
                result = (await run_call(self._box, part)).result
            self._steps.end(part.call_id, result)
            await self._written()
        except NetaclawError as error:  # the session has another owner, who goes on with the call
            log.info("proxied call left", extra={"task_id": self._task.task_id, "reason": error.reason_name})
            return
        await self._answer(part.call_id, result)

    async def _refusal(self, part: ToolCallPart) -> str:
        """Why a person does not let the call run; empty when nobody needs to be asked, or it was allowed.

        Meanwhile the clocks of the child and of its batch stand still.
        """
        tool = self._box.tools.get(part.tool_name)
        if tool is None or tool.route.approval != ToolApproval.TOOL_APPROVAL_ASK:
            return ""
        asker = Asker(self._scope.entry_id, part, self._agent.agent_id, self._agent.name, task_id=self._task.task_id)
        await self._stand_still()
        try:
            return await self._scope.questions.approve(asker)
        finally:
            await self._go_on(part.tool_name)

    async def _stand_still(self) -> None:
        self._asking += 1
        if self._asking == 1:
            self._scope.budget.pause()
            self._task.activity = "waits for a person"
            self._report()
            await self._command(RunCommand(pause=Pause(paused=True)))

    async def _go_on(self, activity: str) -> None:
        self._asking -= 1
        if self._asking == 0:
            self._scope.budget.resume()
            self._task.activity = activity
            self._report()
            await self._command(RunCommand(pause=Pause(paused=False)))

    async def _answer(self, call_id: str, result: ToolResult) -> None:
        reply = ProxyToolResult(call_id=call_id, content=result.content, is_error=result.is_error)
        await self._command(RunCommand(proxy_tool_result=reply))

    def _bind(self, manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        """Only proxied tools run here; a worker that asks for another one gets a refusal that it can read."""
        proxied = route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY
        return self._run_in_host if proxied and manifest.needs_workspace else None

    async def _run_in_host(self, call: ToolCallPart) -> ToolResult:
        return await self._scope.host.run(call, lambda text: self._shown(call.call_id, text))
