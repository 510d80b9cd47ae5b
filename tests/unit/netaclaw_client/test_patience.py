"""Streams that say nothing, suites that ask for patience, and snapshots that cannot be read at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ChatResponse, WatchRequest, WatchResponse
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceServicer, add_ChatServiceServicer_to_server
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceServicer, add_SessionServiceServicer_to_server
from netaclaw_client import Backoff, Client, SessionView, follow, run_turn
from netaclaw_client.streams import SILENT_S
from tests.unit.netaclaw_client import story

SILENT, CUT, LIMITED, STOPPING, GONE, WELL = "silent", "cut", "limited", "stopping", "gone", ""
DELAY_S = 3
CODES = {
    CUT: grpc.StatusCode.UNAVAILABLE,
    STOPPING: grpc.StatusCode.UNAVAILABLE,
    LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    GONE: grpc.StatusCode.OUT_OF_RANGE,
}


class Suite(ChatServiceServicer, SessionServiceServicer):
    """Answers each call with the next events and end of its script."""

    def __init__(self) -> None:
        self.watches: list[tuple[Sequence[ChatEvent], str]] = []
        self.chats: list[tuple[Sequence[ChatEvent], str]] = []
        self.trees: list[str] = []
        self.asked: list[str] = []
        self.watched_after: list[int] = []
        self.address = ""

    async def Watch(self, request: WatchRequest, context: Any) -> AsyncIterator[WatchResponse]:
        self.watched_after.append(request.targets[0].after_seq)
        events, end = self.watches.pop(0)
        for event in events:
            yield WatchResponse(events=[event])
        await _end(context, end)

    async def Chat(self, request: ChatRequest, context: Any) -> AsyncIterator[ChatResponse]:
        self.asked.append(request.request_id)
        events, end = self.chats.pop(0)
        for event in events:
            yield ChatResponse(events=[event])
        await _end(context, end)

    async def GetSessionTree(self, request: GetSessionTreeRequest, context: Any) -> GetSessionTreeResponse:
        await _end(context, self.trees.pop(0))
        return GetSessionTreeResponse(session=Session(session_id=story.SESSION, seq=9))


async def _end(context: Any, end: str) -> None:
    if end == SILENT:
        await asyncio.Event().wait()
    elif end:
        details: tuple[tuple[str, bytes], ...] = ()
        if end in (LIMITED, STOPPING):
            delay = AnyMessage()
            delay.Pack(RetryInfo(retry_delay=Duration(seconds=DELAY_S)))
            status = Status(code=CODES[end].value[0], details=[delay])
            details = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(CODES[end], end, details)


class Pauses(Backoff):
    """Never waits, and remembers how long it should have."""

    def __init__(self) -> None:
        super().__init__(max_attempts=4, sleep=self._sleep, jitter=lambda: 1.0)
        self.taken: list[float] = []

    async def _sleep(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
async def suite() -> AsyncIterator[Suite]:
    suite = Suite()  # type: ignore[abstract]  # answers only what these tests ask
    server = grpc.aio.server()
    add_ChatServiceServicer_to_server(suite, server)
    add_SessionServiceServicer_to_server(suite, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    suite.address = f"127.0.0.1:{port}"
    yield suite
    await server.stop(None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netaclaw_client.streams.SILENT_S", 0.1)


EVENTS = story.whole_turn()


async def followed(suite: Suite, count: int, pauses: Pauses, **more: Any) -> list[ChatEvent]:
    got: list[ChatEvent] = []
    async with (
        Client(suite.address) as client,
        aclosing(follow(client, story.SESSION, backoff=pauses, **more)) as events,
    ):
        async for event in events:
            got.append(event)
            if len(got) == count:
                break
    return got


async def turn(suite: Suite, pauses: Pauses) -> list[ChatEvent]:
    async with Client(suite.address) as client:
        request = ChatRequest(session_id=story.SESSION, content="count them")
        async with aclosing(run_turn(client, request, backoff=pauses)) as events:
            return [event async for event in events]


@pytest.mark.usefixtures("impatient")
async def test_a_stream_that_carries_nothing_is_watched_again(suite: Suite) -> None:
    suite.watches = [(EVENTS[:3], SILENT), (EVENTS[3:5], SILENT)]
    assert await asyncio.wait_for(followed(suite, 5, Pauses()), 5) == EVENTS[:5]
    assert suite.watched_after == [0, 3]


@pytest.mark.usefixtures("impatient")
async def test_a_turn_survives_silence_before_and_after_its_first_event(suite: Suite) -> None:
    suite.chats = [([], SILENT), (EVENTS[:3], SILENT)]
    suite.watches = [(EVENTS[3:], SILENT)]
    assert await asyncio.wait_for(turn(suite, Pauses()), 5) == EVENTS
    assert len(suite.asked) == 2
    assert len(set(suite.asked)) == 1


async def test_a_reader_may_take_longer_than_a_stream_may_be_silent(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    clock = loop.time
    suite.watches = [(EVENTS[:2], SILENT)]
    async with Client(suite.address) as client, aclosing(follow(client, story.SESSION, backoff=Pauses())) as events:
        assert (await anext(events)).seq == 1
        monkeypatch.setattr(loop, "time", lambda: clock() + 2 * SILENT_S)  # the reader's own time
        for _ in range(3):
            await asyncio.sleep(0)  # whatever is due by then has its turn
        assert (await anext(events)).seq == 2
    assert suite.watched_after == [0]


async def test_a_turn_whose_stream_ends_well_before_its_first_event_is_asked_for_again(suite: Suite) -> None:
    suite.chats = [([], WELL), (EVENTS, WELL)]
    assert await turn(suite, Pauses()) == EVENTS


async def test_a_snapshot_that_cannot_be_read_at_once_is_read_a_moment_later(suite: Suite) -> None:
    suite.watches = [([], GONE), ([], GONE), (EVENTS[9:10], SILENT)]
    suite.trees = [CUT, WELL]
    views: list[SessionView] = []
    assert await followed(suite, 1, Pauses(), snapshot=views.append) == EVENTS[9:10]
    assert [view.seq for view in views] == [9]


async def test_the_delay_that_the_suite_asks_for_is_kept(suite: Suite) -> None:
    suite.watches = [([], STOPPING), (EVENTS[:1], CUT), ([], LIMITED), (EVENTS[1:2], SILENT)]
    pauses = Pauses()
    assert await followed(suite, 2, pauses) == EVENTS[:2]
    assert pauses.taken == pytest.approx([DELAY_S + 0.1, 0.1, DELAY_S + 0.2])


async def test_a_limit_that_refuses_a_turn_that_may_have_begun_is_waited_for(suite: Suite) -> None:
    suite.chats = [([], CUT), ([], LIMITED), (EVENTS, WELL)]
    assert await turn(suite, Pauses()) == EVENTS


async def test_a_limit_is_an_answer_where_nothing_had_begun(suite: Suite) -> None:
    suite.watches, suite.chats = [([], LIMITED)], [([], LIMITED)]
    with pytest.raises(grpc.aio.AioRpcError, match="limited"):
        await followed(suite, 1, Pauses())
    with pytest.raises(grpc.aio.AioRpcError, match="limited"):
        await turn(suite, Pauses())
