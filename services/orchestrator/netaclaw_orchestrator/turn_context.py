"""What a turn works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw.tool.v1.tool_pb2 import ToolPolicy
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.policy import Scene, SubagentSettings, main_policy
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.tool_host import ToolHost

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Everything outside a turn that it needs."""

    owner_id: str
    session: Session
    turn_id: str
    agent: Agent
    presets: Sequence[Agent]
    """Published agents of the owner."""
    writer: JournalWriter
    publisher: Publisher
    runner: RunnerServiceAsyncStub
    models: ModelCatalogue
    settings: SubagentSettings
    host: ToolHost
    policy: ToolPolicy
    on_taken: Callable[[str], object] = lambda request_id: None
    """Told the request id of a waiting message that has entered the turn."""
    batches: Mapping[str, Entry] = field(default_factory=dict)
    """Delegations that a dead owner left unfinished: batch entries by the id of their call."""


def policy_of(agent: Agent, session: Session, settings: SubagentSettings) -> ToolPolicy:
    """The main agent's policy in its session."""
    return main_policy(agent, scene=Scene.SUPERVISOR, workspace=session.workspace, settings=settings)
