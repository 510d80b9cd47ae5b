"""The real suite, its model server and its clients, driven step by step; nothing runs between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from netaclaw_agent.guidance import SUBAGENT_GUIDANCE
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import new_event_loop
from netaclaw_client import Client, SessionView
from tests.fakes.openai_server import FakeOpenAI, Reply, ScriptedRule, Text, Wait
from tests.faults.proxy import Proxy
from tests.scenarios.followers import Follower
from tests.scenarios.suites import RunningSuite, in_process

T = TypeVar("T")
Request = dict[str, Any]

HELD = "this answer is held "
DELEGATE = "in parallel: count files; search needle"


class Answers:
    """What the model says: held answers wait for their gate, some fail, delegations go by the script."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self._scripted = ScriptedRule()

    async def __call__(self, request: Request) -> Reply:
        messages = request["messages"]
        last = messages[-1]
        asked = next(message["content"] for message in reversed(messages) if message["role"] == "user")
        if asked.startswith("in parallel") or SUBAGENT_GUIDANCE[:40] in messages[0]["content"]:
            return await self._scripted(request)
        if last["content"].startswith("hold"):
            gate = self.gates.setdefault(last["content"], asyncio.Event())
            return Reply([Text(HELD), Wait(gate), Text("no more")])
        if last["content"].startswith("fail"):
            return Reply(status=500, error={"message": "broken"})
        return Reply([Text(f"you said {last['content']}")])


class Wanderer:
    """A client that comes and goes; what it saw it keeps."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self.follower = Follower(client, session_id)
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._task is not None

    async def connect(self, view: SessionView | None = None) -> None:
        """Go on from what it has, or start over from a view."""
        if view is not None:
            self.follower = Follower(self._client, view.session_id)
            self.follower.view = view
        if self._task is None:
            self._task = asyncio.create_task(self.follower.run(self.follower.view.seq))

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None


class World:
    """One suite for a whole run."""

    def __init__(self, suite: RunningSuite, answers: Answers, road: Proxy, direct: Client, shaky: Client) -> None:
        self.suite = suite
        self.answers = answers
        self.road = road
        self.direct = direct
        self.shaky = shaky

    async def new_session(self) -> str:
        return await self.suite.new_session(self.direct, session_id=new_id())


class Stepper:
    """Runs coroutines on the loop of the world."""

    def __init__(self, runner: asyncio.Runner, world: World) -> None:
        self._runner = runner
        self.world = world

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(30):
                return await work

        return self._runner.run(bounded())


@contextmanager
def open_world(database_url: str, data_dir: Path, workspace: Path) -> Iterator[Stepper]:
    """The suite with its model server and a proxy before it."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        stack = AsyncExitStack()

        async def opened() -> World:
            answers = Answers()
            model = await stack.enter_async_context(FakeOpenAI(answers))
            settings = {
                "NETACLAW_MODEL_MAX_TRIES": "1",
                "NETACLAW_LOG_LEVEL": "ERROR",
                "NETACLAW_OPENAI_BASE_URL": model.base_url,
            }
            suite = await stack.enter_async_context(in_process(database_url, data_dir, workspace, settings))
            road = await stack.enter_async_context(Proxy(suite.gateway))
            direct = await stack.enter_async_context(Client(suite.gateway))
            shaky = await stack.enter_async_context(Client(road.address))
            return World(suite, answers, road, direct, shaky)

        try:
            yield Stepper(runner, runner.run(opened()))
        finally:
            runner.run(stack.aclose())
