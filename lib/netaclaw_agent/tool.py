"""What a tool is to this suite: a manifest for the model and a handler, always built together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolRuntimeRoute

Handler = Callable[[ToolCallPart], Awaitable[ToolResult]]
"""Runs one call. Failures that the model should read are results with is_error; exceptions are faults of ours.

In a worker a handler blocks instead of suspending: nothing there needs an event loop.
"""


class ToolError(Exception):
    """A failure that the model should read, for example an argument that does not fit. Becomes is_error."""


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A visible tool: schema, route and handler."""

    manifest: ToolManifest
    route: ToolRuntimeRoute
    handler: Handler


@dataclass(frozen=True, slots=True)
class ToolBox:
    """The tools of one scene. A visible tool always has a handler and the reverse; refused ones keep their reason."""

    tools: Mapping[str, BoundTool]
    """By name, in the order in which the model sees them."""
    refused: Mapping[str, ToolRuntimeRoute]
    """Routes of known tools that are DISABLED here, by name."""

    @property
    def manifests(self) -> list[ToolManifest]:
        """What the model sees."""
        return [tool.manifest for tool in self.tools.values()]
