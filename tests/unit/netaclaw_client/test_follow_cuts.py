"""A stream that ends after any event of a delegated turn, in any way: the view at the end is the uncut one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ChatResponse, WatchRequest, WatchResponse
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceServicer, add_ChatServiceServicer_to_server
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw_client import Backoff, Client, SessionView, equal, follow, run_turn
from tests.faults.proxy import Proxy
from tests.unit.netaclaw_client import story

MEANWHILE = 3
"""So many events happen while a client is away: the live ones among them are lost to it."""
ANSWER, CHILDREN = "I ask two. ", {story.TASKS[0]: "one and two", story.TASKS[1]: "three"}


def _log() -> list[ChatEvent]:
    """A delegated turn as it is sent, with the text that is being written."""
    first, second = story.TASKS
    turn = story.whole_turn()
    return [
        *turn[:3],
        story.started(),
        story.delta(0, ANSWER[:5]),
        story.delta(5, ANSWER[5:]),
        *turn[3:8],
        story.started(task_id=first),
        story.delta(0, CHILDREN[first][:4], task_id=first),
        turn[8],
        story.started(task_id=second),
        story.delta(0, CHILDREN[second], task_id=second),
        story.delta(4, CHILDREN[first][4:], task_id=first),
        *turn[9:],
    ]


LOG = _log()
LAST = LOG[-1].seq


@dataclass(frozen=True)
class Cut:
    """How streams end after their k-th event."""

    k: int
    way: str
    first_only: bool = False
    """Later streams are whole."""


class Server(ChatServiceServicer):
    """Keeps the resume contract over the log, and cuts its streams."""

    def __init__(self) -> None:
        self.cut = Cut(0, "")
        self.streams = 0
        self.lose_connections: Callable[[], None] = lambda: None
        self._at = 0
        self._sent = self._taken = 0
        self._all_taken = asyncio.Event()

    def begin(self, cut: Cut) -> None:
        """Nothing has happened yet."""
        self.cut = cut
        self._at = self._sent = self._taken = self.streams = 0

    def took(self) -> None:
        """The client has an event."""
        self._taken += 1
        self._all_taken.set()

    async def Chat(self, request: ChatRequest, context: Any) -> AsyncIterator[ChatResponse]:
        async for event in self._events([], context):
            yield ChatResponse(events=[event])

    async def Watch(self, request: WatchRequest, context: Any) -> AsyncIterator[WatchResponse]:
        happened = LOG[: self._at]
        replayed = [event for event in happened if event.seq > request.targets[0].after_seq]
        async for event in self._events([*replayed, *_snapshots(happened)], context):
            yield WatchResponse(events=[event])

    async def _events(self, past: Sequence[ChatEvent], context: Any) -> AsyncIterator[ChatEvent]:
        """What happened before, then what happens; cut where the cut says."""
        self.streams += 1
        whole = self.cut.first_only and self.streams > 1
        left = len(LOG) if whole else self.cut.k
        for event in past:
            if left:
                left -= 1
                self._sent += 1
                yield event
        while left and self._at < len(LOG):
            left -= 1
            self._sent += 1
            self._at += 1
            yield LOG[self._at - 1]
        if not whole:
            self._at = min(self._at + MEANWHILE, len(LOG))
            await self._end(context)

    async def _end(self, context: Any) -> None:
        if self.cut.way == "without trailers":
            while self._taken < self._sent:
                self._all_taken.clear()
                await self._all_taken.wait()
            self.lose_connections()
            await asyncio.Event().wait()  # until the server learns of it
        if self.cut.way != "with OK":
            await context.abort(grpc.StatusCode[self.cut.way.removeprefix("with ")], "cut")


def _snapshots(happened: Sequence[ChatEvent]) -> list[ChatEvent]:
    """assistant_stream_start with the text so far, for all that is being written."""
    view = SessionView()
    for event in happened:
        view.apply(event)
    return [
        story.started(draft.attempt, draft.text, entry_id=entry_id, task_id=task_id)
        for (entry_id, task_id), draft in view.drafts.items()
    ]


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, Client]]:
    """A server and a client with a proxy between them."""
    server = Server()  # type: ignore[abstract]  # answers only what these tests ask
    listening = grpc.aio.server()
    add_ChatServiceServicer_to_server(server, listening)
    port = listening.add_insecure_port("127.0.0.1:0")
    await listening.start()
    try:
        async with Proxy(f"127.0.0.1:{port}") as proxy, Client(proxy.address) as client:
            server.lose_connections = proxy.cut
            yield server, client
    finally:
        await listening.stop(None)


def uncut() -> SessionView:
    view = SessionView(session_id=story.SESSION)
    for event in LOG:
        view.apply(event)
    return view


async def check(server: Server, events: AsyncGenerator[ChatEvent, None]) -> None:
    """Nothing twice, nothing missing, and what is shown on the way is always the beginning of the whole text."""
    view = SessionView(session_id=story.SESSION)
    seqs: list[int] = []
    async with asyncio.timeout(20), aclosing(events):
        async for event in events:
            server.took()
            assert view.apply(event)
            seqs += [event.seq] if event.seq else []
            for (_, task_id), draft in view.drafts.items():
                assert (CHILDREN[task_id] if task_id else ANSWER).startswith(draft.text)
            if view.seq == LAST:
                break
    assert seqs == list(range(1, LAST + 1))
    assert equal(view, uncut()) == []
    assert view.drafts == {}


def quick() -> Backoff:
    async def no_pause(seconds: float) -> None:
        pass

    return Backoff(sleep=no_pause)


CUTS = [
    ("with UNAVAILABLE", False),
    ("with INTERNAL", False),  # as a proxy says it, without details
    ("with OK", False),
    ("without trailers", True),
]


@pytest.mark.parametrize(("way", "first_only"), CUTS)
async def test_a_watch_that_is_cut_after_any_event_gives_the_whole_turn_once(way: str, first_only: bool) -> None:
    async with serving() as (server, client):
        for k in range(1, len(LOG) + 1):
            server.begin(Cut(k, way, first_only))
            await check(server, follow(client, story.SESSION, backoff=quick()))
            assert server.streams > 1 or k == len(LOG)


@pytest.mark.parametrize(("way", "first_only"), CUTS)
async def test_a_message_whose_stream_is_cut_after_any_event_gives_the_whole_turn_once(
    way: str, first_only: bool
) -> None:
    request = ChatRequest(session_id=story.SESSION, content="count them")
    async with serving() as (server, client):
        for k in range(1, len(LOG) + 1):
            server.begin(Cut(k, way, first_only))
            await check(server, run_turn(client, request, backoff=quick()))
