"""A tool host: a worker without a loop, which runs one tool call after the other until end of file."""

from __future__ import annotations

from collections import deque

from google.protobuf.message import Message

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRuntimeRoute
from netaclaw_agent.loop import drive
from netaclaw_agent.policy import resolve, run_call
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.worker.channel import ChannelClosed, WorkerChannel, complain
from netaclaw_runner.worker.offspring import Offspring
from netaclaw_runner.worker.shell import shell_handlers
from netaclaw_runner.worker.standing import run_start
from netaclaw_runner.worker.stopping import Stopped

STOPPED = "stopped while it was running; it may have had effect"


def run_host(channel: WorkerChannel, start: pb.HostStart, workspace: Workspace | None, offspring: Offspring) -> None:
    """Run calls in the order in which they come. Only tools that the policy enables, named and with a handler here.

    Returns at end of file. Raises Stopped when it is cancelled; the call that ran has its result then.
    """
    channel.send(run_start())
    desk = _Desk(channel)
    handlers: dict[str, Handler] = {}
    if workspace is not None:
        handlers = file_handlers(workspace) | shell_handlers(workspace, offspring, desk, channel.send)
    names = set(start.tool_names)

    def bind(manifest: ToolManifest, _route: ToolRuntimeRoute) -> Handler | None:
        return handlers.get(manifest.tool_name)

    box = resolve(start.policy, bind, [manifest for manifest in KNOWN_TOOLS if manifest.tool_name in names])
    while True:
        try:
            call = desk.next_call()
        except ChannelClosed:
            return  # the host's ordinary end
        try:
            result = drive(run_call(box, call)).result
        except Stopped:
            _answer(channel, call, ToolResult(content=STOPPED, is_error=True))
            raise
        _answer(channel, call, result)


class _Desk:
    """Calls as they come. A tool that takes its time attends to the channel: calls wait, a cancel stops it."""

    def __init__(self, channel: WorkerChannel) -> None:
        self._channel = channel
        self._waiting: deque[ToolCallPart] = deque()

    def fileno(self) -> int:
        return self._channel.fileno()

    def attend(self) -> None:
        while (message := self._channel.receive(0)) is not None:
            self._take(message)

    def next_call(self) -> ToolCallPart:
        """Wait for a call."""
        while not self._waiting:
            message = self._channel.receive()
            assert message is not None  # it waits for ever
            self._take(message)
        return self._waiting.popleft()

    def _take(self, message: Message) -> None:
        if isinstance(message, pb.Cancel):
            raise Stopped(message.reason or "cancelled")
        if isinstance(message, pb.ToolCall):
            self._waiting.append(
                ToolCallPart(
                    call_id=message.call_id, tool_name=message.tool_name, arguments_json=message.arguments_json
                )
            )
        else:
            complain(f"a {type(message).__name__} is nothing for a tool host")


def _answer(channel: WorkerChannel, call: ToolCallPart, result: ToolResult) -> None:
    channel.send(
        pb.ToolResultLine(
            call_id=call.call_id, tool_name=call.tool_name, content=result.content, is_error=result.is_error
        )
    )
