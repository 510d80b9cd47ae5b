"""ToolService: the tools, and their effective routes by the function that the runtime uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import GetAgentRequest
from netaclaw.tool.v1 import tool_service_pb2 as pb
from netaclaw.tool.v1.tool_pb2 import (
    ToolApproval,
    ToolDiagnostic,
    ToolProfile,
    ToolProfileItem,
    ToolRoute,
    ToolRuntimeRoute,
)
from netaclaw.tool.v1.tool_service_pb2_grpc import ToolServiceServicer
from netaclaw_agent.model import ModelError
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.policy import Scene, child_policy, main_policy
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_chassis import calls
from netaclaw_orchestrator.journal import translated
from netaclaw_orchestrator.paging import page_of
from netaclaw_orchestrator.validation import require_ids

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceAsyncStub

Context = grpc.aio.ServicerContext[Any, Any]

_ANOTHER_MODEL = "change agent.model"
_NOBODYS = "scene"
"""The source of what is so by design: nobody can change it."""


class ToolServicer(ToolServiceServicer):
    """Computes, stores nothing."""

    def __init__(self, agents: AgentServiceAsyncStub, models: ModelCatalogue, settings: SubagentSettings) -> None:
        self._agents = agents
        self._models = models
        self._settings = settings

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        tools, more = page_of(KNOWN_TOOLS, request.page_size, request.page_token)
        return pb.ListToolsResponse(tools=tools, next_page_token=more)

    async def GetToolProfile(self, request: pb.GetToolProfileRequest, context: Context) -> pb.GetToolProfileResponse:
        require_ids(agent_id=request.agent_id)
        with translated():
            found = await self._agents.GetAgent(GetAgentRequest(agent_id=request.agent_id), metadata=calls.outgoing())
        agent = found.agent
        main = main_policy(
            agent, scene=Scene.SUPERVISOR, workspace=request.workspace or "default", settings=self._settings
        )
        config = effective_subagent_config(agent, self._settings)
        child = child_policy(main, agent, config=config, requested=None, settings=self._settings)
        profile = ToolProfile(agent_id=agent.agent_id, diagnostics=[*self._of_model(agent.model), *_unknown(agent)])
        for manifest, route, child_route in zip(KNOWN_TOOLS, main.routes, child.routes, strict=True):
            profile.items.append(ToolProfileItem(manifest=manifest, main_route=route, subagent_route=child_route))
            if route.route == ToolRoute.TOOL_ROUTE_DISABLED:
                profile.diagnostics.append(_diagnostic(route, route.reason))
            elif route.approval == ToolApproval.TOOL_APPROVAL_ASK:
                fix = f'answer "always" in a session, or change {route.policy_sources[0]}'
                profile.diagnostics.append(ToolDiagnostic(tool_name=manifest.tool_name, message=route.reason, fix=fix))
            elif child_route.route == ToolRoute.TOOL_ROUTE_DISABLED:
                profile.diagnostics.append(_diagnostic(child_route, f"not in subagents: {child_route.reason}"))
        return pb.GetToolProfileResponse(profile=profile)

    def _of_model(self, name: str) -> Iterator[ToolDiagnostic]:
        try:
            model = self._models.get(name)
        except ModelError as error:
            yield ToolDiagnostic(message=str(error), fix=_ANOTHER_MODEL)
            return
        if not self._models.takes_tools(name):
            yield ToolDiagnostic(message=f"The model {model.name} is offered no tools.", fix=_ANOTHER_MODEL)


def _unknown(agent: Agent) -> Iterator[ToolDiagnostic]:
    """Names that the agent's settings have and no tool has: such a setting does nothing."""
    known = {manifest.tool_name for manifest in KNOWN_TOOLS}
    settings = {
        "agent.tool_names": agent.tool_names.names,
        "agent.subagent_config.allowed_tool_names": agent.subagent_config.allowed_tool_names.names,
        "agent.approvals": sorted(agent.approvals),
    }
    for setting, names in settings.items():
        for name in names:
            if name not in known:
                yield ToolDiagnostic(tool_name=name, message="There is no tool of this name.", fix=f"change {setting}")


def _diagnostic(route: ToolRuntimeRoute, message: str) -> ToolDiagnostic:
    source = route.policy_sources[0] if route.policy_sources else _NOBODYS
    fix = f"change {source}" if source != _NOBODYS else ""
    return ToolDiagnostic(tool_name=route.tool_name, message=message, fix=fix)
