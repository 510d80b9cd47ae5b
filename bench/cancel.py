"""Cancelling fifty running children at once, from the request to the event that says that nothing of them is alive."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.figures import Figure
from bench.processes import started
from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.subagent.v1.envelope_pb2 import Cancel, SubagentTaskEnvelope
from netaclaw.subagent.v1.runner_service_pb2 import RunCommand
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw_agent.policy import Scene, child_policy, main_policy
from netaclaw_agent.subagent_config import SubagentSettings, effective_subagent_config
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.delegation.run_call import RunCalls
from netaclaw_runner.limits import Limits

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub

AT_ONCE = 50
ROUNDS = 5
SLACK_MS = 150
"""What an obedient child may take beyond the ladder's first step."""

OBEDIENT = (("hold a command", "tool_output"), ("hold a model", "stream_start"))
"""Goals, and the event that shows that such a child is in the middle of it; every second child has the same."""
STUBBORN = (("hold out", "started"),)


async def fifty() -> Sequence[Figure]:
    """cancel50.p99: children that obey, half of them in a command with a tree of processes, half in a model call.
    Floor: the ladder's first step. cancel50.stubborn: children that only SIGKILL ends. Floor: the ladder's steps."""
    limits = Limits()
    first_ms, both_ms = 1000 * limits.cancel_s, 1000 * (limits.cancel_s + limits.term_s)
    async with AsyncExitStack() as stack:
        workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="netaclaw-bench-"))
        model = await stack.enter_async_context(started("bench.model_server"))
        command = ("bench.runner", model["base_url"], workspace)
        runner = await stack.enter_async_context(started(*command))
        other = await stack.enter_async_context(started(*command, "bench.stubborn:main"))
        obedient = await _rounds(OBEDIENT, runner["address"])
        stubborn = await _rounds(STUBBORN, other["address"])
    return [
        _p99("cancel50.p99", obedient, first_ms, limit=(first_ms + SLACK_MS) / first_ms),
        _p99("cancel50.stubborn", stubborn, both_ms, limit=None),
    ]


def _p99(name: str, rounds: Sequence[Sequence[float]], floor: float, *, limit: float | None) -> Figure:
    """Over all rounds; the spread is that of the rounds' slowest."""
    slowest = sorted(max(times) / floor for times in rounds)
    value = statistics.quantiles([each for times in rounds for each in times], n=100)[-1]
    return Figure(name, "ms", value, floor, (slowest[len(slowest) // 4], slowest[(3 * len(slowest)) // 4]), limit)


async def _rounds(goals: Sequence[tuple[str, str]], address: str) -> list[list[float]]:
    """Milliseconds of each child, by rounds; a first round is dropped."""
    async with connect(address) as channel:
        stub = RunnerServiceStub(channel)
        return [await _round(stub, goals) for _ in range(1 + ROUNDS)][1:]


async def _round(stub: RunnerServiceAsyncStub, goals: Sequence[tuple[str, str]]) -> list[float]:
    runs = RunCalls(stub, "bench")
    children = [_Child(runs, *goals[number % len(goals)]) for number in range(AT_ONCE)]
    await asyncio.gather(*(child.start() for child in children))
    times = await asyncio.gather(*(child.cancel_ms() for child in children))
    await runs.close()
    return times


class _Child:
    def __init__(self, runs: RunCalls, goal: str, shown_by: str) -> None:
        self._goal = goal
        self._shown_by = shown_by
        self._feed = runs.start(_envelope(goal))
        self._events = self._read()

    async def start(self) -> None:
        """Returns when it is in the middle of its task."""
        async for kind in self._events:
            if kind == self._shown_by:
                return
        raise RuntimeError(f"a child ended before it was cancelled: {self._goal}")

    async def cancel_ms(self) -> float:
        began = time.perf_counter()
        await self._feed.tell(RunCommand(cancel=Cancel(reason="bench")))
        async for kind in self._events:
            if kind == "ended":
                return (time.perf_counter() - began) * 1000
        raise RuntimeError("the end of a child was never confirmed")

    async def _read(self) -> AsyncIterator[str | None]:
        async for events in self._feed.batches():
            for event in events:
                if event.HasField("ended") and event.ended.state != SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED:
                    raise RuntimeError(f"a child ended by itself: {event.ended.error}")
                yield event.WhichOneof("event")


def _envelope(goal: str) -> SubagentTaskEnvelope:
    agent, settings = Agent(name="bench", shell_enabled=True), SubagentSettings()
    parent = main_policy(agent, scene=Scene.SUPERVISOR, workspace="bench", settings=settings)
    config = effective_subagent_config(agent, settings)
    policy = child_policy(parent, agent, config=config, requested=None, settings=settings)
    run_id = new_id()
    return SubagentTaskEnvelope(
        protocol_version=1,
        run_id=run_id,
        session_id=new_id(),
        parent_entry_id=new_id(),
        task=SubagentTask(task_id=run_id, goal=goal),
        agent_config=agent,
        tool_names=[manifest.tool_name for manifest in KNOWN_TOOLS],
        tool_manifest=KNOWN_TOOLS,
        policy=policy,
        timeout_ms=60_000,
        owner_id=run_id,
    )
