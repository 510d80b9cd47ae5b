"""How long and how much the runner allows, in one place, so that tests can make it small."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw_agent.compaction import THRESHOLD
from netaclaw_runner.protocol import MAX_LINE_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    start_s: float = 15.0
    """From launch to the worker's first line."""
    exit_s: float = 1.0
    """From a worker's last line to its exit, before it is helped along."""
    cancel_s: float = 0.25
    """From the cooperative cancel line to SIGTERM."""
    term_s: float = 0.5
    """From SIGTERM to SIGKILL."""
    gone_s: float = 5.0
    """From SIGKILL to the confirmation that nothing is alive, before the runner gives up and says so."""
    hold_s: float = 15.0
    """How long a run without a caller, and an ended run, wait for Attach: the lease time + 5 s."""
    host_call_s: float = 630.0
    """Longest tool call in a tool host: the longest command, and time to end it."""
    flush_s: float = 0.025
    """Between two batches of deltas of one model call; the first goes out at once."""
    pace_s: float = 0.025
    """Between two messages to a caller of up to eight runs; twice that for many, a fifth of it when somebody waits."""
    line_bytes: int = MAX_LINE_BYTES
    unread_bytes: int = 1024 * 1024
    """Lines read from a worker but not handled; beyond it the worker is made to wait."""
    unsent_bytes: int = 32 * 1024 * 1024
    """Lines that a worker does not read; beyond it the worker has failed."""
    queued_bytes: int = 4 * 1024 * 1024
    """Events that a caller does not read; beyond it worker and model are made to wait."""
    retained_bytes: int = 16 * 1024 * 1024
    """Events of a run that are kept for Attach; beyond it the oldest go."""
    response_bytes: int = 512 * 1024
    """Events of all runs in one message to their caller, unless a single one is larger."""
    result_bytes: int = 256 * 1024
    """A tool result, an answer or a partial text; the middle of a longer one is cut."""
    message_bytes: int = 768 * 1024
    """A transcript message with its results."""
    output_bytes: int = 256 * 1024
    """Output of one running tool that is passed on live; its result has its end."""
    text_bytes: int = 4 * 1024 * 1024
    """Text of a worker that calls models itself, over the whole run."""
    transcript_bytes: int = 32 * 1024 * 1024
    """All messages of a child's transcript."""
    child_log_bytes: int = 64 * 1024
    compaction_threshold: float = THRESHOLD
    """Part of a model's window from which on a child's context is compacted; 0: only after an overflow."""
    waiting_calls: int = 256
    """Calls that wait in one tool host."""
    tool_calls: int = 10_000
    """Tool calls of one run, whatever its budget says."""
    ended_runs: int = 256
    """Ended runs that are kept for Attach."""
