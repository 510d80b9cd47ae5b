"""One policy: which tools a scene has, where they run, and why not. Schema and handler come from the same decision.

A route is derived once, by `main_policy` or `child_policy`, and used by prompt, worker, proxy and pages alike. It is
enforced where the tool runs: `resolve` checks it again against the policy's inputs, `run_call` refuses what is not
bound.
"""

from __future__ import annotations

import enum
import logging
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolCallState
from netaclaw.tool.v1.tool_pb2 import (
    SandboxMode,
    ToolApproval,
    ToolEffect,
    ToolManifest,
    ToolPolicy,
    ToolRoute,
    ToolRuntimeRoute,
)
from netaclaw_agent.subagent_config import EffectiveSubagentConfig, SubagentSettings
from netaclaw_agent.tool import BoundTool, Handler, ToolBox, ToolError
from netaclaw_agent.tools import clarify, delegation, files, shell, todo
from netaclaw_agent.tools.arguments import shown
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.results import clean, cut_middle

_log = logging.getLogger(__name__)

_DISABLED = ToolRoute.TOOL_ROUTE_DISABLED
_WORKER_LOCAL = ToolRoute.TOOL_ROUTE_WORKER_LOCAL
_PROXY = ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY
_ALLOW = ToolApproval.TOOL_APPROVAL_ALLOW
_ASK = ToolApproval.TOOL_APPROVAL_ASK
_CONFIG = "agent.subagent_config"

_MAIN_ONLY = {
    clarify.FAMILY: "A subagent cannot ask the person: do what can be done without an answer.",
    todo.FAMILY: "The todo list is the main agent's; a subagent keeps none.",
}
"""Families of tools that no subagent has, with the reason."""

_STRICTNESS = {
    SandboxMode.SANDBOX_MODE_OFF: 0,
    SandboxMode.SANDBOX_MODE_BEST_EFFORT: 1,
    SandboxMode.SANDBOX_MODE_REQUIRED: 2,
}


class Scene(enum.Enum):
    """The part that an agent plays. A crew's scenes are governed by the crew's own configuration."""

    SUPERVISOR = "supervisor"
    SUBAGENT = "subagent"
    CREW_MASTER = "crew_master"
    CREW_MEMBER = "crew_member"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One thing that speaks against a tool."""

    reason: str
    sources: tuple[str, ...]


def main_policy(
    agent: Agent,
    *,
    scene: Scene,
    workspace: str,
    settings: SubagentSettings,
    known: Sequence[ToolManifest] = KNOWN_TOOLS,
) -> ToolPolicy:
    """The policy of an agent that runs in the main process, with a route for every known tool, in their order.

    `workspace` is the session's; empty when it has none. No route is WORKER_LOCAL: the main agent's tools run in the
    session's tool host, delegation in the orchestrator.
    """
    policy = ToolPolicy(
        workspace=workspace if _has_workspace(agent) else "",
        shell=agent.shell_enabled,
        read_only=agent.read_only,
        local_storage=_has_local_storage(agent),
        sandbox=agent.sandbox or SandboxMode.SANDBOX_MODE_BEST_EFFORT,
    )
    for manifest in known:
        against = [
            *_against_name(manifest, agent, "agent"),
            *_against_delegation(manifest, agent, scene, settings),
            *_against_inputs(manifest, policy, "agent"),
            *_against_approval(manifest, agent, "agent"),
        ]
        asks = "agent.approvals" if _asks(manifest, agent) else ""
        reason = "Runs on the main side."
        policy.routes.append(_route(manifest, _PROXY, against, reason=reason, source="agent", asks=asks))
    return policy


def child_policy(
    parent: ToolPolicy,
    child: Agent,
    *,
    config: EffectiveSubagentConfig,
    requested: Sequence[str] | None,
    settings: SubagentSettings,
    known: Sequence[ToolManifest] = KNOWN_TOOLS,
) -> ToolPolicy:
    """A subagent's policy: in no input wider than its parent's, and with no tool that its parent has not.

    `child` is the preset, or for a clone the parent's agent; `requested` the task's toolNames: None inherits, empty
    means none. Requested names that no tool has get a DISABLED route after the known ones.
    """
    policy = ToolPolicy(
        workspace=parent.workspace if _has_workspace(child) else "",
        shell=parent.shell and child.shell_enabled,
        read_only=parent.read_only or child.read_only,
        local_storage=parent.local_storage and _has_local_storage(child),
        sandbox=_stricter(parent.sandbox, child.sandbox),
    )
    parent_routes = {route.tool_name: route for route in parent.routes}
    for manifest in known:
        name = manifest.tool_name
        against = [
            *_against_choice(name, requested, "the task did not ask for it", "task.tool_names"),
            *_against_name(manifest, child, "child"),
            *_against_choice(
                name, config.allowed_tool_names, "the parent gives it to no subagent", _CONFIG + ".allowed_tool_names"
            ),
            *_against_child(manifest, settings),
            *_against_parent(name, parent_routes),
            *_against_inputs(manifest, policy, "child"),
            *_against_approval(manifest, child, "child"),
        ]
        asks = ""
        if _asks(manifest, child):
            asks = "child.approvals"
        elif name in parent_routes and parent_routes[name].approval == _ASK:
            asks = "parent"
        policy.routes.append(_child_route(manifest, against, asks, as_free=_as_free(policy, parent)))
    names = {manifest.tool_name for manifest in known}
    policy.routes.extend(_unknown_route(name) for name in dict.fromkeys(requested or ()) if name not in names)
    return policy


def resolve(
    policy: ToolPolicy,
    bind: Callable[[ToolManifest, ToolRuntimeRoute], Handler | None],
    known: Sequence[ToolManifest] = KNOWN_TOOLS,
) -> ToolBox:
    """Schema and handler together, from one policy: every known tool is either bound or refused with a reason.

    `bind` is asked for enabled tools only; None makes the tool refused. A route that contradicts the policy's own
    inputs is refused too, so that a wrong route in an envelope opens nothing.
    """
    routes = {route.tool_name: route for route in policy.routes}
    tools: dict[str, BoundTool] = {}
    refused: dict[str, ToolRuntimeRoute] = {}
    for manifest in known:
        name = manifest.tool_name
        route = routes.get(name)
        if route is None or route.route == ToolRoute.TOOL_ROUTE_UNSPECIFIED:
            refused[name] = _refused(manifest, [_Refusal("Policy says nothing about this tool.", ("policy",))])
            continue
        if route.route == _DISABLED:
            refused[name] = route
            continue
        against = [*_against_inputs(manifest, policy, "policy"), *_against_local_approval(route)]
        handler = None if against else bind(manifest, route)
        if handler is None:
            missing = [_Refusal("Nothing here can run this tool.", ("runtime",))]
            refused[name] = _refused(manifest, against or missing)
        else:
            tools[name] = BoundTool(manifest, route, handler)
    return ToolBox(tools, refused)


async def run_call(
    box: ToolBox, call: ToolCallPart, *, on_fault: Callable[[ToolCallPart, Exception], None] | None = None
) -> ToolCallPart:
    """Run one call where policy lets it run; returns a copy with route, state and result set, never times.

    REFUSED for unknown and refused tools, FAILED for what the tool reports as an error, COMPLETED otherwise. A fault of
    ours is FAILED with a masked text and goes to `on_fault`, or to the log without the call's content. Only
    cancellation passes through. Results are at most 64 KiB: of longer ones head and tail are kept (`cut_middle`).
    """
    ended = ToolCallPart()
    ended.CopyFrom(call)
    tool = box.tools.get(call.tool_name)
    if tool is None:
        route = box.refused.get(call.tool_name)
        ended.route.CopyFrom(route if route is not None else _unknown_route(call.tool_name))
        return _end(ended, ToolCallState.TOOL_CALL_STATE_REFUSED, _refusal_text(call, route, box), is_error=True)
    ended.route.CopyFrom(tool.route)
    try:
        result = await tool.handler(call)
    except ToolError as error:
        return _end(ended, ToolCallState.TOOL_CALL_STATE_FAILED, str(error), is_error=True)
    except Exception as error:
        (on_fault or _log_fault)(call, error)
        return _end(ended, ToolCallState.TOOL_CALL_STATE_FAILED, "internal error in this tool", is_error=True)
    ended.result.CopyFrom(result)
    state = ToolCallState.TOOL_CALL_STATE_FAILED if result.is_error else ToolCallState.TOOL_CALL_STATE_COMPLETED
    return _end(ended, state, result.content, is_error=result.is_error)


def _has_workspace(agent: Agent) -> bool:
    return agent.workspace_enabled if agent.HasField("workspace_enabled") else True


def _has_local_storage(agent: Agent) -> bool:
    return agent.local_storage_enabled if agent.HasField("local_storage_enabled") else True


def _stricter(parent: SandboxMode, child: SandboxMode) -> SandboxMode:
    floor = parent or SandboxMode.SANDBOX_MODE_BEST_EFFORT
    return max(floor, child or floor, key=lambda mode: _STRICTNESS.get(mode, len(_STRICTNESS)))


def _against_name(manifest: ToolManifest, agent: Agent, owner: str) -> Iterator[_Refusal]:
    names = agent.tool_names.names if agent.HasField("tool_names") else None
    yield from _against_choice(manifest.tool_name, names, "the agent does not use it", f"{owner}.tool_names")


def _against_choice(name: str, chosen: Collection[str] | None, why: str, source: str) -> Iterator[_Refusal]:
    if chosen is not None and name not in chosen:
        yield _Refusal(f"Not available: {why}.", (source,))


def _against_delegation(
    manifest: ToolManifest, agent: Agent, scene: Scene, settings: SubagentSettings
) -> Iterator[_Refusal]:
    if scene is Scene.SUBAGENT:
        yield from _against_child(manifest, settings)
    elif scene is not Scene.SUPERVISOR and manifest.family in _MAIN_ONLY:
        yield _Refusal("Only the agent of a conversation has it.", ("scene",))
    if manifest.family != delegation.FAMILY:
        return
    if scene in (Scene.CREW_MASTER, Scene.CREW_MEMBER):
        yield _Refusal("A crew assigns work by its own plan, not by delegation in a chat.", ("scene",))
        return  # a crew's own configuration governs it, not subagent_config
    own = agent.subagent_config
    if not (own.enabled if own.HasField("enabled") else settings.enabled):
        source = f"{_CONFIG}.enabled" if own.HasField("enabled") else "settings.subagent.enabled"
        yield _Refusal("Delegation is switched off for this agent.", (source,))


def _against_child(manifest: ToolManifest, settings: SubagentSettings) -> Iterator[_Refusal]:
    # Depth is one whatever the settings say.
    if manifest.family == delegation.FAMILY:
        yield _Refusal("A subagent cannot delegate.", ("scene",))
    if manifest.family in _MAIN_ONLY:
        yield _Refusal(_MAIN_ONLY[manifest.family], ("scene",))
    if manifest.tool_name in settings.blocked_tool_names:
        yield _Refusal("Not available in subagents.", ("settings.subagent.blocked_tool_names",))


def _against_parent(name: str, parent_routes: Mapping[str, ToolRuntimeRoute]) -> Iterator[_Refusal]:
    route = parent_routes.get(name)
    if route is None or route.route in (_DISABLED, ToolRoute.TOOL_ROUTE_UNSPECIFIED):
        sources = tuple(route.policy_sources) if route is not None else ()
        yield _Refusal("Not available: the parent does not have it either.", ("parent", *sources))


def _against_inputs(manifest: ToolManifest, policy: ToolPolicy, owner: str) -> Iterator[_Refusal]:
    """What a policy's inputs say against a tool. The same rules in main agents, children and where tools run."""
    if manifest.writes_files and policy.read_only:
        yield _Refusal("Nothing may be written: the agent is read-only.", (f"{owner}.read_only",))
    if manifest.needs_workspace and not policy.workspace:
        yield _Refusal("There is no workspace to work on.", (f"{owner}.workspace_enabled", "session.workspace"))
    if manifest.needs_shell and not policy.shell:
        yield _Refusal("Commands may not be run.", (f"{owner}.shell_enabled",))
    if manifest.needs_shell and policy.read_only and policy.sandbox != SandboxMode.SANDBOX_MODE_REQUIRED:
        why = "Nothing may be written, and only a required sandbox keeps commands from it."
        yield _Refusal(why, (f"{owner}.read_only", f"{owner}.sandbox"))
    if manifest.needs_local_storage and not policy.local_storage:
        yield _Refusal("Tools with data of their own may not be used.", (f"{owner}.local_storage_enabled",))


def _against_approval(manifest: ToolManifest, agent: Agent, owner: str) -> Iterator[_Refusal]:
    if agent.approvals.get(manifest.tool_name, _ALLOW) == ToolApproval.TOOL_APPROVAL_DENY:
        yield _Refusal("The agent is not allowed to use it.", (f"{owner}.approvals",))


def _against_local_approval(route: ToolRuntimeRoute) -> Iterator[_Refusal]:
    """A worker has nobody whom it could ask."""
    if route.route == _WORKER_LOCAL and route.approval == _ASK:
        yield _Refusal("It needs a person's approval, which cannot be asked for here.", ("policy",))


def _asks(manifest: ToolManifest, agent: Agent) -> bool:
    return agent.approvals.get(manifest.tool_name, _ALLOW) == _ASK


def _as_free(child: ToolPolicy, parent: ToolPolicy) -> bool:
    """Whether commands of the child may do what those of the parent may."""
    return child.read_only == parent.read_only and child.sandbox == parent.sandbox


def _child_route(manifest: ToolManifest, against: Sequence[_Refusal], asks: str, *, as_free: bool) -> ToolRuntimeRoute:
    """`asks`: the setting by which a person must agree to each call, empty for none. `as_free`: as its parent."""
    local = manifest.family == shell.FAMILY or (manifest.family == files.FAMILY and not manifest.writes_files)
    if asks and local:
        # Only the main side can wait for a person; what runs there has the parent's freedom.
        if manifest.family == shell.FAMILY and not as_free:
            why = "It needs a person's approval, and runs nowhere under the subagent's own restrictions then."
            against = [*against, _Refusal(why, (asks, "child.read_only", "child.sandbox"))]
        return _route(manifest, _PROXY, against, reason="Runs on the main side.", source="tool.family", asks=asks)
    if manifest.family == files.FAMILY and not manifest.writes_files:
        reason = "Only reads the workspace, so it runs in the subagent's own process."
        return _route(manifest, _WORKER_LOCAL, against, reason=reason, source="tool.effect")
    if manifest.family == shell.FAMILY:
        return _route(manifest, _WORKER_LOCAL, against, reason="Runs in the subagent's sandbox.", source="tool.family")
    reason = "Has effects, so the main side checks it and runs it."
    return _route(manifest, _PROXY, against, reason=reason, source="tool.effect", asks=asks)


def _route(
    manifest: ToolManifest, route: ToolRoute, against: Sequence[_Refusal], *, reason: str, source: str, asks: str = ""
) -> ToolRuntimeRoute:
    """`asks`: the setting by which a person must agree to each call; empty when nobody must."""
    if against:
        return _refused(manifest, against)
    return ToolRuntimeRoute(
        tool_name=manifest.tool_name,
        route=route,
        reason=f"{reason} A person must agree to each call." if asks else reason,
        policy_sources=[asks, source] if asks else [source],
        approval=_ASK if asks else _ALLOW,
        effect=manifest.effect or ToolEffect.TOOL_EFFECT_EFFECTFUL,
    )


def _refused(manifest: ToolManifest, against: Sequence[_Refusal]) -> ToolRuntimeRoute:
    """The first refusal gives the reason; all of them give the sources, so that one sees all that must change."""
    return ToolRuntimeRoute(
        tool_name=manifest.tool_name,
        route=_DISABLED,
        reason=against[0].reason,
        policy_sources=list(dict.fromkeys(source for refusal in against for source in refusal.sources)),
        approval=ToolApproval.TOOL_APPROVAL_DENY,
        effect=manifest.effect or ToolEffect.TOOL_EFFECT_EFFECTFUL,
    )


def _unknown_route(name: str) -> ToolRuntimeRoute:
    return ToolRuntimeRoute(
        tool_name=clean(name),
        route=_DISABLED,
        reason="There is no tool of this name.",
        policy_sources=["catalogue"],
        approval=ToolApproval.TOOL_APPROVAL_DENY,
        effect=ToolEffect.TOOL_EFFECT_EFFECTFUL,
    )


def _refusal_text(call: ToolCallPart, route: ToolRuntimeRoute | None, box: ToolBox) -> str:
    if route is not None:
        return f"{call.tool_name} was refused: {route.reason}"
    available = ", ".join(box.tools) or "none"
    return f"there is no tool {shown(call.tool_name)}; available tools: {available}"


def _end(call: ToolCallPart, state: ToolCallState, content: str, *, is_error: bool) -> ToolCallPart:
    call.state = state
    call.result.SetInParent()
    call.result.content = cut_middle(clean(content))
    call.result.is_error = is_error
    return call


def _log_fault(call: ToolCallPart, error: Exception) -> None:
    # No message and no argument: both may hold a person's words.
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
    _log.error("tool %s: %s at %s (call %s)", call.tool_name[:64], type(error).__name__, place, call.call_id)
