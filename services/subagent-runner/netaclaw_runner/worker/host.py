"""A tool host: a worker without a loop, which runs one tool call after the other until end of file."""

from __future__ import annotations

from netaclaw.session.v1.entry_pb2 import ToolCallPart
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRuntimeRoute
from netaclaw_agent.loop import drive
from netaclaw_agent.policy import resolve, run_call
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.files import file_handlers
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.worker.channel import ChannelClosed, WorkerChannel, complain
from netaclaw_runner.worker.standing import run_start
from netaclaw_runner.worker.stopping import Stopped


def run_host(channel: WorkerChannel, start: pb.HostStart, workspace: Workspace | None) -> None:
    """Run calls in the order in which they come. Only tools that the policy enables, named and with a handler here."""
    channel.send(run_start())
    handlers = file_handlers(workspace) if workspace is not None else {}
    names = set(start.tool_names)

    def bind(manifest: ToolManifest, _route: ToolRuntimeRoute) -> Handler | None:
        return handlers.get(manifest.tool_name)

    box = resolve(start.policy, bind, [manifest for manifest in KNOWN_TOOLS if manifest.tool_name in names])
    while True:
        try:
            message = channel.receive()
        except ChannelClosed:
            return  # the host's ordinary end
        if isinstance(message, pb.Cancel):
            raise Stopped(message.reason or "cancelled")
        if not isinstance(message, pb.ToolCall):
            complain(f"a {type(message).__name__} is nothing for a tool host")
            continue
        call = ToolCallPart(call_id=message.call_id, tool_name=message.tool_name, arguments_json=message.arguments_json)
        result = drive(run_call(box, call)).result
        channel.send(
            pb.ToolResultLine(
                call_id=call.call_id, tool_name=call.tool_name, content=result.content, is_error=result.is_error
            )
        )
