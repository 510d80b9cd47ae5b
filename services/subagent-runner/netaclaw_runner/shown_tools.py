"""A task's tools as its model sees them; the runner asks the model before the worker has bound anything."""

from __future__ import annotations

from collections.abc import Sequence

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools.files import FILE_TOOLS
from netaclaw_agent.tools.shell import SHELL_TOOLS
from netaclaw_runner.toolbox import task_box

_LOCAL_TOOLS = frozenset(manifest.tool_name for manifest in (*FILE_TOOLS, *SHELL_TOOLS))


def shown_tools(envelope: SubagentTaskEnvelope, *, workspace: bool) -> Sequence[ToolManifest]:
    """The tools that worker or caller will have a handler for. `workspace`: whether the worker gets one."""

    def could_bind(manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        if route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY:
            return _elsewhere
        local = workspace and manifest.tool_name in _LOCAL_TOOLS
        return _elsewhere if local and route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL else None

    return task_box(envelope, could_bind).manifests


async def _elsewhere(_call: ToolCallPart) -> ToolResult:
    raise AssertionError("tools run in the worker or at the caller, never here")
