"""Settings of the orchestrator."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw_agent.tools.clarify import MAX_TIMEOUT_S
from netaclaw_chassis.link import LinkSettings
from netaclaw_chassis.settings import group, var

MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Read once, in __main__."""

    store_address: str = var("NETACLAW_STORE_ADDRESS", "127.0.0.1:7401")
    store_internal_address: str = var("NETACLAW_STORE_INTERNAL_ADDRESS", "127.0.0.1:7402")
    runner_address: str = var("NETACLAW_RUNNER_ADDRESS", "127.0.0.1:7403")
    host: str = var("NETACLAW_ORCHESTRATOR_HOST", "127.0.0.1")
    port: int = var("NETACLAW_ORCHESTRATOR_PORT", 7404)
    advertised_address: str = var("NETACLAW_ORCHESTRATOR_ADVERTISED_ADDRESS", "")
    """host:port by which other instances reach this one; empty: where it listens, which 0.0.0.0 is not for others."""
    service_token: str = var("NETACLAW_SERVICE_TOKEN", "")
    """Shown to the other services and asked of callers; empty: none, for loopback alone."""
    link: LinkSettings = group(LinkSettings)
    instance_id: str = var("NETACLAW_ORCHESTRATOR_ID", "")
    """Empty: a new one for each process. A fixed one lets a restart expel its predecessor at once."""
    start_timeout_s: float = var("NETACLAW_START_TIMEOUT_SECONDS", 30.0)
    """How long the store may take to answer at start."""
    idle_session_s: float = var("NETACLAW_IDLE_SESSION_SECONDS", 30.0)
    """How long an idle session keeps its lease, path and tool host."""
    heartbeat_s: float = var("NETACLAW_WATCH_HEARTBEAT_SECONDS", 15.0)
    """Idle streams carry a heartbeat event this often."""
    streams_per_owner: int = var("NETACLAW_STREAMS_PER_OWNER", 4096)
    """Open streams of one owner, and of one address, on this instance."""
    turns_per_owner: int = var("NETACLAW_TURNS_PER_OWNER", 256)
    """Running turns of one owner on this instance."""
    key_check_s: float = var("NETACLAW_KEY_CHECK_SECONDS", 15.0)
    """So often the keys of open streams are looked at; streams of a revoked one end then."""
    clarify_timeout_s: int = var("NETACLAW_CLARIFY_TIMEOUT_SECONDS", 86_400)
    """How long a question waits for a person, unless the call says how long."""
    approval_timeout_s: int = var("NETACLAW_APPROVAL_TIMEOUT_SECONDS", 3_600)
    """How long a call waits for a person's agreement; then silence denies."""
    compaction_threshold: float = var("NETACLAW_COMPACTION_THRESHOLD", 0.8)
    """Part of the model's window from which on a context is compacted; 0: after an overflow only."""
    subagents_enabled: bool = var("NETACLAW_SUBAGENT_ENABLED", True)
    subagent_max_concurrent: int = var("NETACLAW_SUBAGENT_MAX_CONCURRENT", 3)
    """Children of one turn at once, for agents that say nothing themselves."""
    subagent_max_per_turn: int = var("NETACLAW_SUBAGENT_MAX_PER_TURN", 100)
    """Children of one turn over all its delegations."""
    subagent_timeout_s: int = var("NETACLAW_SUBAGENT_TIMEOUT_SECONDS", 600)
    subagent_max_tool_rounds: int = var("NETACLAW_SUBAGENT_MAX_TOOL_ROUNDS", 25)
    subagent_stall_s: int = var("NETACLAW_SUBAGENT_STALL_SECONDS", 480)
    """A child that makes no progress for so long is ended; 0: never."""
    subagent_max_tool_calls: int = var("NETACLAW_SUBAGENT_MAX_TOOL_CALLS", 200)
    """Of one child; 0: no limit."""
    subagent_max_tokens: int = var("NETACLAW_SUBAGENT_MAX_TOKENS", 0)
    """Of one child, in and out; 0: no limit."""
    subagent_batch_timeout_s: int = var("NETACLAW_SUBAGENT_BATCH_TIMEOUT_SECONDS", 3600)
    """Of one delegation, from its first child's beginning."""
    subagent_batch_max_tokens: int = var("NETACLAW_SUBAGENT_BATCH_MAX_TOKENS", 0)
    """Of all children of one delegation; 0: no limit."""

    def __post_init__(self) -> None:
        self._check_address()
        if not (self.compaction_threshold == 0 or 0.1 <= self.compaction_threshold <= 1):
            raise ValueError("NETACLAW_COMPACTION_THRESHOLD must be 0 or from 0.1 to 1")
        if not 1 <= self.subagent_max_concurrent <= 32:
            raise ValueError("NETACLAW_SUBAGENT_MAX_CONCURRENT must be from 1 to 32")
        if not 1 <= self.subagent_max_per_turn <= 10_000:
            raise ValueError("NETACLAW_SUBAGENT_MAX_PER_TURN must be from 1 to 10000")
        for value, name in (
            (self.subagent_max_tool_calls, "MAX_TOOL_CALLS"),
            (self.subagent_max_tokens, "MAX_TOKENS"),
            (self.subagent_batch_max_tokens, "BATCH_MAX_TOKENS"),
        ):
            if not 0 <= value <= MAX_COUNT:
                raise ValueError(f"NETACLAW_SUBAGENT_{name} must be from 0 to {MAX_COUNT}")
        if not 0 <= self.subagent_stall_s <= 86_400:
            raise ValueError("NETACLAW_SUBAGENT_STALL_SECONDS must be from 0 to 86400")
        if not 1 <= self.subagent_batch_timeout_s <= 86_400:
            raise ValueError("NETACLAW_SUBAGENT_BATCH_TIMEOUT_SECONDS must be from 1 to 86400")
        if self.streams_per_owner < 1 or self.turns_per_owner < 1:
            raise ValueError("NETACLAW_STREAMS_PER_OWNER and NETACLAW_TURNS_PER_OWNER must be at least 1")
        if not 0.05 <= self.key_check_s <= 45:
            raise ValueError("NETACLAW_KEY_CHECK_SECONDS must be from 0.05 to 45: revoked streams end within a minute")
        if not 1 <= self.clarify_timeout_s <= MAX_TIMEOUT_S or not 1 <= self.approval_timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(
                f"NETACLAW_CLARIFY_ and NETACLAW_APPROVAL_TIMEOUT_SECONDS must be from 1 to {MAX_TIMEOUT_S}"
            )
        if not 1 <= self.subagent_timeout_s <= 86_400:
            raise ValueError("NETACLAW_SUBAGENT_TIMEOUT_SECONDS must be from 1 to 86400")

    def _check_address(self) -> None:
        host, _, port = self.advertised_address.rpartition(":")
        if self.advertised_address and not (host and port.isdecimal()):
            raise ValueError("NETACLAW_ORCHESTRATOR_ADVERTISED_ADDRESS must be host:port")
