"""All runs of this process: who may start, who may take over, and how they end with the process."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.envelope_pb2 import SubagentTaskEnvelope
from netaclaw.subagent.v1.runner_service_pb2 import AttachTarget, RunStatus
from netaclaw.tool.v1.tool_pb2 import SandboxMode
from netaclaw_agent.model import Model, ModelError
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_chassis import tracing
from netaclaw_chassis.errors import NetaclawError, Violations
from netaclaw_chassis.ids import is_id, new_id
from netaclaw_runner.ending import failed
from netaclaw_runner.events import Reader
from netaclaw_runner.launcher import Launcher, SandboxReport
from netaclaw_runner.limits import Limits
from netaclaw_runner.places import Place, Places
from netaclaw_runner.protocol import PROTOCOL_VERSION
from netaclaw_runner.run import Run
from netaclaw_runner.workspaces import Workspaces

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    run: Run
    place: Place
    task: asyncio.Task[None] = field(init=False)
    forget: asyncio.TimerHandle | None = None


class Supervisor:
    """Owns the runs from start until they are forgotten: an ended one waits for Attach as long as a held one."""

    def __init__(
        self, launcher: Launcher, models: ModelCatalogue, workspaces: Workspaces, *, limits: Limits, places: Places
    ) -> None:
        self._launcher = launcher
        self._models = models
        self._workspaces = workspaces
        self._limits = limits
        self._places = places
        self._entries: dict[str, _Entry] = {}
        self._stopping = False

    @property
    def sandbox(self) -> SandboxReport:
        """What workers get here."""
        return self._launcher.sandbox

    def start(self, envelope: SubagentTaskEnvelope) -> tuple[Run, Reader]:
        """Start a run, or queue it for a place; the caller attends to it.

        Raises INVALID_FIELD, ALREADY_EXISTS, LIMIT_REACHED, MODEL_UNKNOWN, SANDBOX_UNAVAILABLE, WORKSPACE_NOT_FOUND and
        SHUTTING_DOWN.
        """
        _check(envelope)
        self._admit(envelope)
        model = self._model(envelope.agent_config.model)
        check_sandbox(envelope.policy.sandbox, self.sandbox)
        name = envelope.policy.workspace
        place = self._places.ask(envelope.owner_id, envelope.session_id)
        try:
            workspace_fd = self._workspaces.open(name, envelope.owner_id) if name else None
            run = Run(envelope, model, self._launcher, workspace_fd, limits=self._limits, new_id=new_id)
        except BaseException:
            place.give_back()
            raise
        reader = run.attend()
        entry = _Entry(run, place)
        self._entries[run.run_id] = entry
        entry.task = asyncio.create_task(self._execute(entry))
        return run, reader

    def attach(self, run_id: str, target: AttachTarget) -> tuple[Run, Reader]:
        """Take over a run whose caller is gone, or is of an earlier generation. Raises NOT_FOUND, STALE_GENERATION and
        SEQ_OUT_OF_RANGE."""
        entry = self._entries.get(run_id)
        if entry is None:
            raise NetaclawError(Reason.REASON_NOT_FOUND, "no such run here", metadata={"id": run_id})
        run = entry.run
        if target.generation <= run.generation:
            raise NetaclawError(
                Reason.REASON_STALE_GENERATION,
                "the run has a caller of this generation or a later one",
                metadata={"generation": str(run.generation)},
            )
        reader = run.take_over(target.after_no)
        run.generation = target.generation
        return run, reader

    def statuses(self) -> list[RunStatus]:
        """The runs in progress and those that wait."""
        return [
            RunStatus(run_id=run.run_id, session_id=run.session_id, pid=run.pid, state=run.state)
            for run in (entry.run for entry in self._entries.values() if not entry.task.done())
        ]

    async def stop(self) -> None:
        """Take no new run and end all others. Returns when nothing of them is alive."""
        self._stopping = True
        tasks = [entry.task for entry in self._entries.values()]
        for entry in self._entries.values():
            entry.run.end(failed("the runner is stopping"))
            if entry.forget is not None:
                entry.forget.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._entries.clear()

    def _admit(self, envelope: SubagentTaskEnvelope) -> None:
        if self._stopping:
            raise NetaclawError(Reason.REASON_SHUTTING_DOWN, "the runner is stopping")
        if envelope.run_id in self._entries:
            raise NetaclawError(
                Reason.REASON_ALREADY_EXISTS, "a run of this id exists", metadata={"id": envelope.run_id}
            )

    def _model(self, name: str) -> Model:
        try:
            return self._models.get(name)
        except ModelError as error:
            raise NetaclawError(Reason.REASON_MODEL_UNKNOWN, str(error), metadata={"model": name}) from error

    async def _execute(self, entry: _Entry) -> None:
        """Wait for a place, unless the run is ended before; then run it."""
        span = tracing.enter("run")
        first = [asyncio.create_task(event.wait()) for event in (entry.place.granted, entry.run.over)]
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not entry.place.granted.is_set():
                entry.place.give_back()
            await entry.run.execute()
        finally:
            for waiting in first:
                waiting.cancel()
            entry.place.give_back()
            self._retire(entry)
            tracing.end(span)

    def _retire(self, entry: _Entry) -> None:
        run_id = entry.run.run_id
        self._entries[run_id] = self._entries.pop(run_id)  # ended ones stand in the order of their ends
        entry.forget = asyncio.get_running_loop().call_later(self._limits.hold_s, self._entries.pop, run_id, None)
        ended = [each for each in self._entries.values() if each.forget is not None]
        for each in ended[: max(0, len(ended) - self._limits.ended_runs)]:
            assert each.forget is not None
            each.forget.cancel()
            del self._entries[each.run.run_id]


def check_sandbox(mode: SandboxMode, report: SandboxReport) -> None:
    """Raises SANDBOX_UNAVAILABLE when policy requires what this machine does not give."""
    if mode == SandboxMode.SANDBOX_MODE_REQUIRED and report.missing:
        missing = ", ".join(report.missing)
        raise NetaclawError(
            Reason.REASON_SANDBOX_UNAVAILABLE,
            f"policy requires a sandbox, but not in force here: {missing}",
            metadata={"missing": missing},
        )


def _check(envelope: SubagentTaskEnvelope) -> None:
    wrong = Violations()
    wrong.check(envelope.protocol_version == PROTOCOL_VERSION, "protocol_version", f"must be {PROTOCOL_VERSION}")
    wrong.check(is_id(envelope.run_id), "run_id", "must be a UUID")
    wrong.check(is_id(envelope.session_id), "session_id", "must be a UUID")
    wrong.check(bool(envelope.task.goal.strip()), "task.goal", "must not be empty")
    wrong.check(envelope.timeout_ms > 0, "timeout_ms", "must be above 0")
    budget = envelope.budget
    for name in ("max_tool_rounds", "max_tool_calls", "max_tokens", "stall_ms"):
        wrong.check(getattr(budget, name) >= 0, f"budget.{name}", "must not be below 0")
    wrong.raise_if_any()
