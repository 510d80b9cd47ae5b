"""Every tool that this suite knows."""

from __future__ import annotations

from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.tools.clarify import CLARIFY_TOOLS
from netaclaw_agent.tools.delegation import DELEGATION_TOOLS
from netaclaw_agent.tools.files import FILE_TOOLS
from netaclaw_agent.tools.shell import SHELL_TOOLS
from netaclaw_agent.tools.todo import TODO_TOOLS

KNOWN_TOOLS: tuple[ToolManifest, ...] = tuple(
    sorted(
        (*CLARIFY_TOOLS, *DELEGATION_TOOLS, *FILE_TOOLS, *SHELL_TOOLS, *TODO_TOOLS),
        key=lambda manifest: manifest.tool_name,
    )
)
"""In name order. Messages here are shared: never change them."""

_BY_NAME = {manifest.tool_name: manifest for manifest in KNOWN_TOOLS}


def manifest(name: str) -> ToolManifest:
    """A known tool's manifest. Raises KeyError for an unknown name."""
    return _BY_NAME[name]
