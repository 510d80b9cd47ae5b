"""What a turn's model calls depend on besides the messages, and the first call made ahead of time.

When everything that the first model call depends on is known here, the call is made while the store commits the turn's
beginning. Nothing of it is shown before the commit; when the beginning turns out otherwise, it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.session.v1.entry_pb2 import Entry, Message, ToolCallPart, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolManifest, ToolPolicy, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.guidance import supervisor_system_prompt
from netaclaw_agent.model import Model, ModelCall
from netaclaw_agent.models.ahead import CallAhead
from netaclaw_agent.policy import Scene, main_policy, resolve
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools import clarify, delegation, todo
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.delegation import DELEGATE_PARALLEL, DELEGATE_TASK
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.sources import Parent, allowed_presets

MAX_PRELUDES = 256
DELEGATE_TOOLS = frozenset({DELEGATE_TASK, DELEGATE_PARALLEL})
OWN_FAMILIES = frozenset({clarify.FAMILY, delegation.FAMILY, todo.FAMILY})
"""Tools that the orchestrator runs itself: they touch nothing but the journal, a person and the runner."""


@dataclass(frozen=True, slots=True)
class Prelude:
    """An agent made ready to answer in a workspace."""

    workspace: str
    parent: Parent
    """The agent with its policy, presets and delegation settings."""
    system: str
    tools: Sequence[ToolManifest]
    """What the model sees; `resolve` binds exactly these."""

    def fits(self, agent: Agent, presets: Sequence[Agent], workspace: str) -> bool:
        """Whether it was made of these."""
        known = self.parent
        return workspace == self.workspace and agent == known.agent and list(presets) == list(known.presets)

    def call(self, messages: Sequence[Message], thinking_level: ThinkingLevel, session_id: str = "") -> ModelCall:
        """A model call on a transcript."""
        level = thinking_level or self.parent.agent.thinking_level
        return ModelCall(
            system=self.system, messages=messages, tools=self.tools, thinking_level=level, session_id=session_id
        )


def make_prelude(agent: Agent, presets: Sequence[Agent], workspace: str, settings: SubagentSettings) -> Prelude:
    """Derive policy, prompt and visible tools."""
    policy = main_policy(agent, scene=Scene.SUPERVISOR, workspace=workspace, settings=settings)
    config = effective_subagent_config(agent, settings)
    parent = Parent(agent, policy, list(presets), config, settings)
    system = supervisor_system_prompt(agent, allowed_presets(parent), config)
    return Prelude(workspace, parent, system, _visible(policy))


class Preludes:
    """The last prelude of each owner and workspace: most turns are answered by the same agent as the one before."""

    def __init__(self, settings: SubagentSettings) -> None:
        self._settings = settings
        self._known: dict[tuple[str, str], Prelude] = {}

    def of(self, owner_id: str, agent: Agent, presets: Sequence[Agent], workspace: str) -> Prelude:
        """The prelude of these, the known one where it fits."""
        known = self._known.get((owner_id, workspace))
        if known is not None and known.fits(agent, presets, workspace):
            return known
        made = make_prelude(agent, presets, workspace, self._settings)
        if len(self._known) >= MAX_PRELUDES:
            self._known.pop(next(iter(self._known)))
        self._known[owner_id, workspace] = made
        return made

    def known(self, owner_id: str, workspace: str) -> Prelude | None:
        """The last one that was made for these."""
        return self._known.get((owner_id, workspace))


def runs_here(manifest: ToolManifest, route: ToolRuntimeRoute) -> bool:
    """Whether the main agent has a handler for the tool: one of the orchestrator's, or the session's tool host."""
    if manifest.family in OWN_FAMILIES:
        return True
    return manifest.needs_workspace and route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY


def _visible(policy: ToolPolicy) -> list[ToolManifest]:
    def bind(manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        return _unused if runs_here(manifest, route) else None

    return resolve(policy, bind, KNOWN_TOOLS).manifests


async def _unused(call: ToolCallPart) -> ToolResult:
    raise AssertionError(call.tool_name)  # only its presence counts


class EarlyCall(CallAhead):
    """A model call that was begun before its turn was."""

    def __init__(
        self, prelude: Prelude, model: Model, call: ModelCall, path: Sequence[str], level: ThinkingLevel
    ) -> None:
        """`path`: ids of the entries before the new message, of which the call was made; `level`: the session's."""
        super().__init__(model, call, new_id=new_id)
        self._prelude = prelude
        self._level = level
        self._path = list(path)

    def fits(self, prelude: Prelude, path: Sequence[Entry], level: ThinkingLevel) -> bool:
        """Whether the turn that has begun would make this very call."""
        same_path = [entry.entry_id for entry in path] == self._path
        return prelude is self._prelude and same_path and level == self._level
