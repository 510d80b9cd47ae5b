"""What a turn works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import Part, Session
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.context import ContextBuilder
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_orchestrator.compaction import Compactor
from netaclaw_orchestrator.delegation.outcome import LeftBehind
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.prelude import EarlyCall, Prelude
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.questions import Questions
from netaclaw_orchestrator.tool_host import ToolHost

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Everything outside a turn that it needs."""

    owner_id: str
    session: Session
    turn_id: str
    prelude: Prelude
    """The agent that answers, made ready."""
    writer: JournalWriter
    publisher: Publisher
    runner: RunnerServiceAsyncStub
    models: ModelCatalogue
    host: ToolHost
    questions: Questions
    delegations: DelegationReader
    contexts: ContextBuilder
    """The session's; a turn of its path begins where the last one ended."""
    compactor: Compactor
    """The session's."""
    early: EarlyCall | None = None
    """The first model call, where it was begun ahead of the turn."""
    lost_usage: Usage = field(default_factory=Usage)
    """What a call that was begun ahead and dropped has cost."""
    delegated: Usage = field(default_factory=Usage)
    """What the turn's delegations had cost under earlier owners, those in `batches` included."""
    shown: Sequence[Part] = ()
    """What a dead owner had shown of the answer that it was writing."""
    on_taken: Callable[[str], object] = lambda request_id: None
    """Told the request id of a waiting message that has entered the turn."""
    batches: Mapping[str, LeftBehind] = field(default_factory=dict)
    """Delegations that a dead owner left, by the id of their call."""

    @property
    def agent(self) -> Agent:
        """The agent that answers."""
        return self.prelude.parent.agent
