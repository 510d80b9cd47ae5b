"""Connections to the database end at random moments under many turns: every session ends truly, soon, and goes on."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, PingRequest, WhenBusy
from netaclaw.chat.v1.event_pb2 import ChatEvent, TurnOutcome
from netaclaw_client import Backoff, Client, SessionView, run_turn
from tests.fakes.openai_server import FakeOpenAI
from tests.faults.story import Kind, content_of, rule
from tests.faults.truth import check
from tests.scenarios.followers import Follower
from tests.scenarios.pairs import Pair, Side, open_pair

SESSIONS = 12
CUT_EVERY_S = 0.15
CUTS = 30
ENDS_S = 20.0
"""After the last cut: a lease of a second, its take-over, and the turns themselves on a slow machine."""

STOPPED = 0.2
"""The part of the turns in which somebody presses stop."""
_NAMES = itertools.count()
"""Of turns: their effects have names of their own."""

TRUE_ENDS = ("_COMPLETED", "_INTERRUPTED", "_CANCELLED")
"""A turn that had more owners than it may is interrupted."""

VICTIM = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass
class Talk:
    """A session: the client that follows it at one instance, and the one that sends its messages to the other."""

    name: str
    side: Side
    followed: Follower
    sender: Client
    sent: SessionView
    doing: str = ""

    async def turn(self, content: str) -> TurnOutcome:
        """Send a message and read its turn to the end, whatever is cut."""
        async with aclosing(self._say(content)) as events:
            async for event in events:
                self.sent.apply(event)
        assert self.sent.turn_end is not None
        return self.sent.turn_end.done.outcome

    async def aside(self, content: str) -> TurnOutcome:
        """The same beside `turn`: one of the two waits for the other."""
        async with aclosing(self._say(content)) as events:
            last = [event async for event in events][-1]
        return last.done.outcome

    async def stop(self, after_s: float) -> None:
        """Press stop a moment later, once."""
        await asyncio.sleep(after_s)  # anywhere in the turn, or before it begins
        request = CancelTurnRequest(session_id=self.sent.session_id)
        (said,) = await asyncio.gather(self.sender.chat.CancelTurn(request), return_exceptions=True)
        if isinstance(said, BaseException):
            assert isinstance(said, grpc.aio.AioRpcError)
            assert said.code() is grpc.StatusCode.UNAVAILABLE, said.details()

    def _say(self, content: str) -> AsyncGenerator[ChatEvent, None]:
        request = ChatRequest(session_id=self.sent.session_id, content=content, when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
        return run_turn(self.sender, request, self.sent.seq, backoff=Backoff(longest_s=0.5))


@asynccontextmanager
async def talks(pair: Pair) -> AsyncIterator[list[Talk]]:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(side.client()) for side in (pair.one, pair.two)]
        for client in (one, two):
            await client.chat.Ping(PingRequest(), wait_for_ready=True)
        agent = Agent(name=f"cut {next(_NAMES)}", shell_enabled=True)
        agent_id = (await one.agents.CreateAgent(CreateAgentRequest(agent=agent))).agent.agent_id
        made = []
        for n in range(SESSIONS):
            side, here, there = (pair.one, one, two) if n % 2 else (pair.two, two, one)
            session_id = await side.suite.new_session(here, agent_id=agent_id)
            made.append(Talk(f"{n}", side, Follower(there, session_id), here, SessionView(session_id=session_id)))
        following = [asyncio.create_task(each.followed.run()) for each in made]
        try:
            yield made
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


async def cut_connections(url: str, dice: Random) -> None:
    """End one random connection after another."""
    connection = await asyncpg.connect(url)
    try:
        for _ in range(CUTS):
            pids = [row["pid"] for row in await connection.fetch(VICTIM)]
            if pids:
                await connection.execute("SELECT pg_terminate_backend($1)", dice.choice(pids))
            await asyncio.sleep(CUT_EVERY_S)  # the pace of the cuts
    finally:
        await connection.close()


async def shake(url: str, dice: Random, made: Sequence[Talk]) -> None:
    """Turns in all sessions, one behind the other in each, for as long as there are cuts; then one more, in peace."""
    cutting = asyncio.create_task(cut_connections(url, dice))

    async def go_on(talk: Talk) -> list[str]:
        ends: list[str] = []
        while not cutting.done():
            contents = [content_of(next(_NAMES), dice.choice(list(Kind))) for _ in range(dice.choice((1, 1, 2)))]
            talk.doing = " and ".join(contents)
            stopping = [talk.stop(dice.uniform(0, 0.5))] if dice.random() < STOPPED else []
            asked = [talk.turn(contents[0]), *(talk.aside(each) for each in contents[1:])]
            outcomes, _ = await asyncio.gather(asyncio.gather(*asked), asyncio.gather(*stopping))
            ends += [f"{each}: {TurnOutcome.Name(how)}" for each, how in zip(contents, outcomes, strict=True)]
        return ends

    going = {asyncio.create_task(go_on(talk)): talk for talk in made}
    await cutting
    _, late = await asyncio.wait(going, timeout=ENDS_S)
    assert not [f"{going[each].name}: {going[each].doing}" for each in late], "sessions that did not end in time"
    ends = [end for task in going for end in task.result()]
    sys.stdout.write(f"{CUTS} cuts, {len(ends)} turns\n")
    assert not [end for end in ends if not end.endswith(TRUE_ENDS)]
    async with asyncio.timeout(ENDS_S):
        later = await asyncio.gather(*(talk.turn(content_of(next(_NAMES), Kind.PLAIN)) for talk in made))
    assert set(later) == {TurnOutcome.TURN_OUTCOME_COMPLETED}


@pytest.mark.timeout(0)
async def test_no_session_hangs_or_lies_when_connections_to_the_database_end(
    rounds: int, seed: int, postgres_url: str, tmp_path: Path
) -> None:
    dice = Random(seed)
    workspace, data = tmp_path / "workspace", tmp_path / "data"
    workspace.mkdir()
    data.mkdir()
    async with FakeOpenAI(rule) as model:
        settings: Any = {"NETACLAW_OPENAI_BASE_URL": model.base_url, "NETACLAW_LEASE_SECONDS": "1"}
        for _ in range(rounds):
            async with open_pair(postgres_url, data, workspace, **settings) as pair, talks(pair) as made:
                await shake(postgres_url, dice, made)
                for talk in made:
                    await check(talk.side.suite, talk.sender, talk.followed, talk.sent)
