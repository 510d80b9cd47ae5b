"""Random delegations against a small reference model: one result per task, right place, right state, right sums."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from netaclaw.chat.v1.chat_service_pb2 import CancelSubagentRequest, ChatRequest
from netaclaw.session.v1.entry_pb2 import EntryKind
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw_client.client import Client
from tests.fakes.openai_server import Call, FakeOpenAI, Item, Reply, Text, Wait
from tests.fakes.postgres import PostgresServer
from tests.scenarios.followers import Follower, check_whole, followers
from tests.scenarios.goals import CALL_TOKENS, Goals, tasks
from tests.scenarios.pairs import Pair, open_pair
from tests.scenarios.reading import chat, state_name

EXAMPLES = int(os.environ.get("NETACLAW_TEST_BATCHES", "12"))
TIMEOUT_S = 6
"""Long enough for every child that is let go on a busy machine."""

ENDS = {"whole": "COMPLETED", "empty": "FAILED", "fail": "FAILED", "cut": "PARTIAL", "cancel": "CANCELLED"}
LABEL = "look through all the files of the workspace and say"
"""Longer than a name: tasks that begin so have equal names."""


@dataclass(slots=True)
class Child:
    """One task of the reference model."""

    goal: str
    end: str
    looks: bool
    """Whether it calls a tool before it ends."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    started: bool = True
    """Whether it was let out of the queue."""

    @property
    def replies(self) -> list[Reply]:
        last: dict[str, tuple[Sequence[Item], str]] = {
            "whole": ([Text(f"answer to {self.goal}")], ""),
            "empty": ([], ""),
            "cut": ([Text(f"half of {self.goal}")], "length"),
            "cancel": ([Text("too late")], ""),
            "time": ([Text("much too late")], ""),
        }
        looked = [Reply([Call("list_files", "{}")])] if self.looks else []
        if self.end == "fail":
            return [*looked, Reply(status=400, error={"message": "refused"})]
        items, reason = last[self.end]
        return [*looked, Reply([Wait(self.gate), *items], finish_reason=reason)]

    @property
    def state(self) -> str:
        return ENDS.get(self.end, "TIMED_OUT")

    @property
    def calls(self) -> int:
        return (1 + self.looks) if self.started else 0

    @property
    def whole_calls(self) -> int:
        """Calls whose tokens the provider has told."""
        return self.calls - (self.end in ("fail", "cancel", "time")) if self.started else 0


@st.composite
def batches(draw: st.DrawFn) -> list[Child]:
    kinds = st.sampled_from([*ENDS, "whole"])
    children = []
    for number in range(draw(st.integers(1, 6))):
        label = draw(st.sampled_from([LABEL, "count"]))
        children.append(Child(f"{label} {number}", draw(kinds), draw(st.booleans())))
    return children


@given(
    children=batches(),
    order=st.randoms(use_true_random=False),
    places=st.integers(1, 6),
    restart_at=st.none() | st.integers(0, 5),
    one_times_out=st.sampled_from([False, False, False, True]),
)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_a_batch_ends_as_its_children_did_whatever_happens_meanwhile(  # noqa: PLR0917  # drawn
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
    children: list[Child],
    order: object,
    places: int,
    restart_at: int | None,
    one_times_out: bool,
) -> None:
    children = [Child(each.goal, each.end, each.looks) for each in children]  # an example may be run again
    if one_times_out:
        children.append(Child("never ends", "time", looks=False))
    shuffled = list(children)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random

    async def example() -> None:
        directory = tmp_path_factory.mktemp("batch")
        (directory / "workspace").mkdir()
        (directory / "workspace" / "one.txt").write_text("1")
        async with FakeOpenAI() as server:
            goals = server.rule = Goals({child.goal: child.replies for child in children})
            environ = {
                "NETACLAW_OPENAI_BASE_URL": server.base_url,
                "NETACLAW_SUBAGENT_MAX_CONCURRENT": str(places),
                "NETACLAW_SUBAGENT_TIMEOUT_SECONDS": str(TIMEOUT_S if one_times_out else 120),
            }
            with postgres_server.database() as url:
                async with opened(url, directory, environ) as pair:
                    await Story(pair, goals, children, shuffled, places, restart_at).tell()

    asyncio.run(example())


def opened(url: str, directory: Path, environ: dict[str, str]) -> AbstractAsyncContextManager[Pair]:
    (directory / "data").mkdir()
    return open_pair(url, directory / "data", directory / "workspace", **environ)  # type: ignore[arg-type]  # settings


@dataclass
class Story:
    """One example: the batch is delegated, its children are ended one by one, its owner may go meanwhile."""

    pair: Pair
    goals: Goals
    children: Sequence[Child]
    order: Sequence[Child]
    places: int
    restart_at: int | None
    cut_answer: bool = False

    async def tell(self) -> None:
        async with self.pair.one.client() as mine, self.pair.two.client() as client:
            session_id = await self.pair.one.suite.new_session(mine)
            async with followers(session_id, self.pair.two.suite) as (follower,):
                begun = chat(mine, ChatRequest(session_id=session_id, content=tasks(*(c.goal for c in self.children))))
                await anext(begun)
                await follower.until_kind("subagent_run_started")
                await self._end_all(client, follower, session_id)
                await follower.until_kind("done")
                await begun.aclose()
                await check_whole(self.pair.two.suite, client, follower)
                await self._check(client, follower, session_id)

    async def _end_all(self, client: Client, follower: Follower, session_id: str) -> None:
        left = [child for child in self.order if child.end != "time"]
        for number in itertools.count():
            if number == self.restart_at:
                await self._restart(follower)
            if not left:
                return
            child = await self._next(follower, left)
            left.remove(child)
            if child.end == "cancel":
                child.started = bool(self.goals.calls_of(child.goal))
                await self._cancel(client, self._task(follower, child), session_id)
            child.gate.set()
            await follower.until(lambda child=child: ended(self._task(follower, child)))  # type: ignore[misc]  # one use

    async def _restart(self, follower: Follower) -> None:
        """The owner goes: in the batch, or in the answer that follows, which the next owner asks for again."""
        self.cut_answer = all(ended(self._task(follower, child)) for child in self.children)
        if self.cut_answer:
            await self.goals.until_main(2)
        await self.pair.one.close()

    async def _next(self, follower: Follower, left: Sequence[Child]) -> Child:
        async with asyncio.timeout(30):
            while not (ready := [child for child in left if self._ready(follower, child)]):  # noqa: ASYNC110  # as below
                await asyncio.sleep(0.01)  # the model server's requests are no events of the session
        return ready[0]

    def _ready(self, follower: Follower, child: Child) -> bool:
        """Whether the child can be ended now: it hangs at its last call, or waits in the queue to be cancelled."""
        waits = self.goals.calls_of(child.goal) == 0 and state_name(self._task(follower, child)) == "QUEUED"
        held = [each for each in self.children if self._held(follower, each)]
        full = len(held) == self.places  # nobody ends by itself, so that the queue stands
        asked = self.goals.calls_of(child.goal) == len(child.replies)
        return asked or (child.end == "cancel" and waits and full)

    def _held(self, follower: Follower, child: Child) -> bool:
        hangs = child.end != "fail" and self.goals.calls_of(child.goal) == len(child.replies)
        return hangs and not ended(self._task(follower, child))

    async def _cancel(self, client: Client, task: SubagentTask, session_id: str) -> None:
        request = CancelSubagentRequest(session_id=session_id, task_id=task.task_id)
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.chat.CancelSubagent(request)
                    return
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:  # which says: taken over, try again
                        raise
                await asyncio.sleep(0.05)  # a client's backoff

    def _task(self, follower: Follower, child: Child) -> SubagentTask:
        [batch] = [e for e in follower.view.entries.values() if e.kind == EntryKind.ENTRY_KIND_SUBAGENT_BATCH]
        return batch.subagent_batch.batch.items[self.children.index(child)]

    async def _check(self, client: Client, follower: Follower, session_id: str) -> None:
        [entry] = [e for e in follower.view.entries.values() if e.kind == EntryKind.ENTRY_KIND_SUBAGENT_RESULT]
        result = entry.subagent_result
        assert [state_name(task) for task in result.batch.items] == [child.state for child in self.children]
        assert [final.task.task_id for final in result.final_results] == [task.task_id for task in result.batch.items]
        for child, task in zip(self.children, result.batch.items, strict=True):
            assert task.goal == child.goal
            assert self.goals.calls_of(child.goal) == task.usage.model_calls == child.calls
            assert task.usage.input_tokens == child.whole_calls * CALL_TOKENS.prompt
            said = {"whole": f"answer to {child.goal}", "cut": f"half of {child.goal}"}
            assert task.summary == said.get(child.end, "")
            assert "late" not in task.summary + task.partial_text
        counted = Counter(state_name(task) for task in result.batch.items)
        for state, number in counted.items():
            assert getattr(result.batch.counts, state.lower()) == number
        assert result.batch.counts.total == len(self.children)
        spent = await client.sessions.GetUsage(GetUsageRequest(session_id=session_id))
        calls = sum(child.calls for child in self.children)
        assert spent.subagents == result.batch.usage
        asked = len(self.goals.main_requests)
        assert (spent.subagents.model_calls, spent.total.model_calls) == (calls, calls + asked)
        assert asked == 2 or (asked == 3 and self.cut_answer)
        told = self.goals.main_requests[-1]["messages"][-1]["content"]
        headers = [line for line in told.split("\n") if line.startswith("## Task ")]
        assert [header.rpartition("[")[2].rstrip("]") for header in headers] == [c.state for c in self.children]


def ended(task: SubagentTask) -> bool:
    return state_name(task) not in ("QUEUED", "RUNNING")
