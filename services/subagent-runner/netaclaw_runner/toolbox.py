"""A task's tools, made by one function for the model's eyes (in the runner) and for the hands (in the worker)."""

from __future__ import annotations

from collections.abc import Callable

from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.policy import resolve
from netaclaw_agent.tool import Handler, ToolBox

Bind = Callable[[ToolManifest, ToolRuntimeRoute], Handler | None]


def task_box(envelope: SubagentTaskEnvelope, bind: Bind) -> ToolBox:
    """The tools that the envelope names and its policy enables. What policy refuses keeps its reason."""
    names = set(envelope.tool_names)
    known = [manifest for manifest in envelope.tool_manifest if manifest.tool_name in names]
    box = resolve(envelope.policy, bind, known)
    disabled = {
        route.tool_name: route for route in envelope.policy.routes if route.route == ToolRoute.TOOL_ROUTE_DISABLED
    }
    return ToolBox(box.tools, disabled | dict(box.refused))
