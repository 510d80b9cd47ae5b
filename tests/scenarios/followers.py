"""Clients that follow a session all the time, and what has to be true of them in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw_client.client import Client
from netaclaw_client.comparison import equal
from netaclaw_client.follow import follow
from netaclaw_client.view import SessionView
from tests.scenarios.reading import of_kind
from tests.scenarios.suites import RunningSuite


class Follower:
    """A client's view, kept by following the session from one side."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.view = SessionView(session_id=session_id)
        self.events: list[ChatEvent] = []
        self._changed = asyncio.Condition()
        self._client = client

    async def run(self, from_seq: int = 0) -> None:
        """Follow until it is cancelled, or the session is gone."""
        async for event in follow(self._client, self.view.session_id, from_seq):
            async with self._changed:
                self.view.apply(event)
                self.events.append(event)
                self._changed.notify_all()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: bool(holds()))

    async def until_more(self) -> None:
        """Wait for the next event."""
        async with self._changed:
            await self._changed.wait()

    async def until_kind(self, kind: str, count: int = 1) -> None:
        await self.until(lambda: len(of_kind(self.events, kind)) >= count)

    @property
    def durable(self) -> list[ChatEvent]:
        return [event for event in self.events if event.seq]

    @property
    def written(self) -> set[str]:
        """All that is being written, as it is shown."""
        return {draft.text for draft in self.view.drafts.values() if draft.started}


@asynccontextmanager
async def followers(session_id: str, *sides: RunningSuite) -> AsyncIterator[list[Follower]]:
    async with AsyncExitStack() as stack:
        made = [Follower(await stack.enter_async_context(side.client()), session_id) for side in sides]
        tasks = [asyncio.create_task(each.run()) for each in made]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def check_whole(suite: RunningSuite, client: Client, *followed: Follower) -> None:
    """Every view equals the stored tree, every follower saw the same durable events, and their seq is dense."""
    session_id = followed[0].view.session_id
    stored = SessionView.from_tree(await suite.tree(client, session_id))
    for each in followed:
        await each.until(lambda each=each: each.view.seq >= stored.seq)  # type: ignore[misc]  # one use
        assert equal(each.view, stored) == []
        assert [event.seq for event in each.durable] == list(range(1, stored.seq + 1))
        assert [e.WhichOneof("event") for e in each.durable] == [e.WhichOneof("event") for e in followed[0].durable]
