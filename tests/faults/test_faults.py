"""Whatever dies, falls silent or is cut in the middle of a turn: nothing is lost, done twice, or left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest, ListAgentsRequest
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent, TurnOutcome
from netaclaw_client import Backoff, Client, SessionView, run_turn
from tests.fakes.openai_server import FakeOpenAI
from tests.faults.proxy import Proxy
from tests.faults.shaking import Dice, Fault, strike
from tests.faults.story import Kind, content_of, rule
from tests.faults.truth import check
from tests.scenarios.followers import Follower
from tests.scenarios.suites import RunningSuite, four_processes

SESSIONS = 2
TURNS_PER_SUITE = 16
"""`netaclaw up` gives up on a service that dies five times in a minute."""
TURN_S = 60.0


@dataclass
class Shaken:
    """A session, the client that follows it all the time, and the one that sends its messages."""

    followed: Follower
    sender: Client
    sent: SessionView
    ends: list[ChatEvent] = field(default_factory=list)

    async def turn(self, content: str) -> None:
        request = ChatRequest(session_id=self.sent.session_id, content=content)
        events = run_turn(self.sender, request, self.sent.seq, backoff=Backoff(longest_s=0.5))
        async with asyncio.timeout(TURN_S), aclosing(events):
            async for event in events:
                self.sent.apply(event)
        assert self.sent.turn_end is not None
        self.ends.append(self.sent.turn_end)


@dataclass
class Stage:
    """A running suite with its sessions."""

    suite: RunningSuite
    road: Proxy
    direct: Client
    sessions: list[Shaken]

    def seen(self) -> int:
        """Events so far, of all sessions."""
        return sum(len(each.followed.events) for each in self.sessions)

    async def shake(self, fault: Fault, contents: list[str]) -> None:
        """A turn in each session, and a fault in the middle."""
        before = self.seen()
        turns = [asyncio.create_task(s.turn(content)) for s, content in zip(self.sessions, contents, strict=True)]
        waiting = asyncio.create_task(self._when(before + fault.after))
        early = asyncio.create_task(asyncio.wait(turns))  # they may have fewer events
        await asyncio.wait({waiting, early}, return_when=asyncio.FIRST_COMPLETED)
        stop = strike(fault, self.suite, self.road)
        try:
            await asyncio.gather(*turns)
        finally:
            stop()
            waiting.cancel()
        for each in self.sessions:
            await check(self.suite, self.direct, each.followed, each.sent)

    async def _when(self, count: int) -> None:
        """Wait until so many events have been seen."""
        while self.seen() < count:
            waits = [asyncio.create_task(each.followed.until_more()) for each in self.sessions]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()


@asynccontextmanager
async def open_stage(url: str, data_dir: Path, workspace: Path, model: FakeOpenAI) -> AsyncIterator[Stage]:
    settings = {
        "NETACLAW_LOG_LEVEL": "WARNING",
        "NETACLAW_LEASE_SECONDS": "1",
        "NETACLAW_OPENAI_BASE_URL": model.base_url,
    }
    async with (
        four_processes(url, data_dir, workspace, settings) as suite,
        Proxy(suite.gateway) as road,
        Client(suite.gateway) as direct,
        Client(road.address) as shaky,
    ):
        agents = await direct.agents.ListAgents(ListAgentsRequest())
        agent_id = next((a.agent_id for a in agents.agents if a.name == "shaken"), "")
        if not agent_id:
            agent = Agent(name="shaken", shell_enabled=True)
            agent_id = (await direct.agents.CreateAgent(CreateAgentRequest(agent=agent))).agent.agent_id
        ids = [await suite.new_session(direct, agent_id=agent_id) for _ in range(SESSIONS)]
        sessions = [Shaken(Follower(shaky, i), shaky, SessionView(session_id=i)) for i in ids]
        following = [asyncio.create_task(each.followed.run()) for each in sessions]
        try:
            yield Stage(suite, road, direct, sessions)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


def _steps(turns: int, dice: Dice) -> Iterator[tuple[Fault, list[str]]]:
    for first in range(0, turns, SESSIONS):
        kinds = [dice.random.choice(list(Kind)) for _ in range(SESSIONS - 1)]
        kinds.append(Kind.DELEGATION)
        yield dice.fault(), [content_of(first + n, kind) for n, kind in enumerate(kinds)]


@pytest.mark.timeout(0)
async def test_nothing_is_lost_or_done_twice_whatever_fails(
    turns: int, seed: int, postgres_url: str, tmp_path: Path
) -> None:
    steps = list(_steps(turns, Dice(seed)))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with FakeOpenAI(rule) as model:
        per_suite = TURNS_PER_SUITE // SESSIONS
        for first in range(0, len(steps), per_suite):
            async with open_stage(postgres_url, tmp_path / "data", workspace, model) as stage:
                for n, (fault, contents) in enumerate(steps[first : first + per_suite], first):
                    sys.stdout.write(f"{n}: {fault}; {contents}\n")
                    await stage.shake(fault, contents)
            ends = [end for session in stage.sessions for end in session.ends]
            outcomes = {TurnOutcome.Name(end.done.outcome) for end in ends}
            assert outcomes == {"TURN_OUTCOME_COMPLETED"}, ends
