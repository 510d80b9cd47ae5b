"""One task in a worker: the agent loop, driven by blocking calls over the channel."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message as AnyMessage

from netaclaw.session.v1.entry_pb2 import Message, MessageRole, ToolCallPart, ToolResult
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.loop import LoopEnd, LoopLimits, drive, run_loop, text_of, user_message
from netaclaw_agent.policy import run_call
from netaclaw_agent.tool import Handler, ToolError
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.opening import opening
from netaclaw_runner.toolbox import task_box
from netaclaw_runner.worker.channel import WorkerChannel, complain
from netaclaw_runner.worker.offspring import Offspring
from netaclaw_runner.worker.shell import shell_handlers
from netaclaw_runner.worker.standing import run_start
from netaclaw_runner.worker.stopping import Stopped

Answer = TypeVar("Answer", bound=AnyMessage)

_COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
_PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL


class ModelFailed(Exception):
    """The runner could not get an answer from the model."""


def run_task(
    channel: WorkerChannel, envelope: pb.SubagentTaskEnvelope, workspace: Workspace | None, offspring: Offspring
) -> None:
    """Run the task and send its last line. Raises Stopped, after that line, when it was stopped from outside."""
    channel.send(run_start())
    transcript = opening(envelope)
    task = WorkerTask(channel, envelope, workspace, offspring, synced=len(envelope.history))
    budget = envelope.budget
    limits = LoopLimits(budget.max_tool_rounds, budget.max_tool_calls, budget.max_tokens)
    try:
        end = drive(run_loop(task, transcript, limits))
    except ModelFailed as error:
        channel.send(task.failure(str(error), transcript))
    except Stopped as stopped:
        channel.send(task.failure(f"stopped: {stopped}", transcript))
        raise
    else:
        channel.send(_last_line(end))


class WorkerTask:
    """The loop's port: models by the runner, tools here or by the runner, steering as it arrives."""

    def __init__(
        self,
        channel: WorkerChannel,
        envelope: pb.SubagentTaskEnvelope,
        workspace: Workspace | None,
        offspring: Offspring,
        *,
        synced: int,
        proxy_timeout_s: float | None = None,
    ) -> None:
        """`synced`: how many messages of the transcript the runner has. `proxy_timeout_s`: how long a proxied call may
        take here; None: as long as the task lives, for a person may have to agree."""
        self._channel = channel
        self._synced = synced
        self._proxy_timeout_s = proxy_timeout_s
        self._requests = 0
        self._tool_calls = 0
        self._steering: deque[tuple[str, str]] = deque()
        self._warnings: list[str] = []
        """They go with the next model call, and bring none: an answer that is whole stays the last."""
        self._local: dict[str, Handler] = {}
        if workspace is not None:
            self._local = file_handlers(workspace) | shell_handlers(workspace, offspring, self, channel.send)
        self._box = task_box(envelope, self._bind)

    async def call_model(self, transcript: list[Message]) -> Message:
        """Send what the runner has not yet, and wait for its answer."""
        self._requests += 1
        transcript.extend(user_message(text) for text in self._warnings)
        self._warnings.clear()
        fresh = transcript[self._synced :]
        self._channel.send(pb.ModelRequest(request_id=self._requests, keep=self._synced, messages=fresh))
        self._synced = len(transcript) + 1
        answer = self._await_answer(pb.ModelResponse, lambda reply: reply.request_id == self._requests)
        assert answer is not None
        if not answer.HasField("message"):
            raise ModelFailed(answer.error or "the model gave no message")
        return answer.message

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        """Run the calls one after the other. The runner learns of each, refused ones too, and keeps the results."""
        ended = []
        for call in calls:
            self.attend()
            self._tool_calls += 1
            ended.append(await self._run_tool(call))
        return ended

    async def take_steering(self) -> list[str]:
        """Messages that have arrived; each one's receipt is sent."""
        self.attend()
        texts = []
        while self._steering:
            request_id, text = self._steering.popleft()
            if request_id:
                self._channel.send(pb.SteerTaken(request_id=request_id))
            texts.append(text)
        return texts

    def fileno(self) -> int:
        """The channel's descriptor: a tool that waits for something waits for it, too."""
        return self._channel.fileno()

    def attend(self) -> None:
        """Take the lines that have arrived, without waiting for more."""
        while (message := self._channel.receive(0)) is not None:
            self._note(message)

    def failure(self, error: str, transcript: Sequence[Message]) -> pb.RunError:
        """The last line of a task that did not end well."""
        answers = [message for message in transcript if message.role == MessageRole.MESSAGE_ROLE_ASSISTANT]
        texts = (text_of(message) for message in reversed(answers))
        partial = next((text for text in texts if text), "")
        return pb.RunError(error=error, partial_text=partial, tool_call_count=self._tool_calls)

    async def _run_tool(self, call: ToolCallPart) -> ToolCallPart:
        tool = self._box.tools.get(call.tool_name)
        if tool is not None and tool.route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY:
            return await run_call(self._box, call)
        line = pb.ToolCall(call_id=call.call_id, tool_name=call.tool_name, arguments_json=call.arguments_json)
        line.route = tool.route.route if tool is not None else ToolRoute.TOOL_ROUTE_DISABLED
        self._channel.send(line)
        ended = await run_call(self._box, call)
        result = ended.result
        self._channel.send(
            pb.ToolResultLine(
                call_id=call.call_id, tool_name=call.tool_name, content=result.content, is_error=result.is_error
            )
        )
        return ended

    def _bind(self, manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        if route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL:
            return self._local.get(manifest.tool_name)
        return self._proxy if route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY else None

    async def _proxy(self, call: ToolCallPart) -> ToolResult:
        self._channel.send(
            pb.ProxyToolCall(call_id=call.call_id, tool_name=call.tool_name, arguments_json=call.arguments_json)
        )
        reply = self._await_answer(
            pb.ProxyToolResult, lambda answer: answer.call_id == call.call_id, timeout=self._proxy_timeout_s
        )
        if reply is None:
            raise ToolError(f"no result came within {self._proxy_timeout_s} s; it may have had effect")
        return ToolResult(content=reply.content, is_error=reply.is_error)

    def _await_answer(
        self, kind: type[Answer], is_ours: Callable[[Answer], bool], timeout: float | None = None
    ) -> Answer | None:
        """Wait for one answer of a kind. Late, stray and doubled answers are ignored, whatever their numbers."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            message = self._channel.receive(left)
            if message is None:
                return None
            if isinstance(message, kind) and is_ours(message):
                return message
            self._note(message)

    def _note(self, message: AnyMessage) -> None:
        """Take a line that may come at any time."""
        if isinstance(message, pb.Cancel):
            raise Stopped(message.reason or "cancelled")
        if isinstance(message, pb.Steer):
            self._steering.append((message.request_id, message.content))
        elif isinstance(message, pb.BudgetWarning):
            self._warnings.append(message.message)
        else:
            complain(f"a {type(message).__name__} that nobody waits for was ignored")


def _last_line(end: LoopEnd) -> AnyMessage:
    if end.state not in (_COMPLETED, _PARTIAL):
        return pb.RunError(error=end.error, partial_text=end.text, tool_call_count=end.tool_call_count)
    answer = end.text.strip()
    return pb.RunEnd(
        state=end.state,
        final_output=answer,
        error=end.error,
        tool_call_count=end.tool_call_count,
        raw_final_content=end.text if end.text != answer else "",
    )
