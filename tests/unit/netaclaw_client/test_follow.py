"""Streams that survive cuts: every durable event once, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from netaclaw.chat.v1 import event_pb2 as chat
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ChatResponse, WatchRequest, WatchResponse
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceServicer, add_ChatServiceServicer_to_server
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceServicer, add_SessionServiceServicer_to_server
from netaclaw_client import Backoff, Client, Gap, SessionView, equal, follow, run_turn
from tests.unit.netaclaw_client import story

End = grpc.StatusCode | None
Script = list[tuple[Sequence[ChatEvent], End]]


@dataclass
class Suite(ChatServiceServicer, SessionServiceServicer):
    """Answers each call with the next events and end of its script; what is sent is a message per event."""

    watches: Script = field(default_factory=list)
    chats: Script = field(default_factory=list)
    watched_after: list[int] = field(default_factory=list)
    chat_requests: list[ChatRequest] = field(default_factory=list)
    details: bytes = b""
    address: str = ""

    async def Watch(self, request: WatchRequest, context: Any) -> AsyncIterator[WatchResponse]:
        self.watched_after.append(request.targets[0].after_seq)
        events, end = self.watches.pop(0)
        for event in events:
            yield WatchResponse(events=[event])
        await self._end(context, end)

    async def Chat(self, request: ChatRequest, context: Any) -> AsyncIterator[ChatResponse]:
        self.chat_requests.append(request)
        events, end = self.chats.pop(0)
        for event in events:
            yield ChatResponse(events=[event])
        await self._end(context, end)

    async def GetSessionTree(self, request: GetSessionTreeRequest, context: Any) -> GetSessionTreeResponse:
        last = request.page_token == "two"
        session = Session(session_id=story.SESSION, seq=9 if not last else 12)
        entries = [story.anchor(12)] if last else [story.user(1)]
        return GetSessionTreeResponse(session=session, entries=entries, next_page_token="" if last else "two")

    async def _end(self, context: Any, code: End) -> None:
        if code is not None:
            trailers = (("grpc-status-details-bin", self.details),) if self.details else ()
            await context.abort(code, "ended", trailers)


@pytest.fixture
async def suite() -> AsyncIterator[Suite]:
    suite = Suite()  # type: ignore[abstract]  # answers only what these tests ask
    server = grpc.aio.server()
    add_ChatServiceServicer_to_server(suite, server)
    add_SessionServiceServicer_to_server(suite, server)
    suite.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield suite
    await server.stop(None)


class Pauses:
    """A backoff that never waits."""

    def __init__(self, max_attempts: int = 0) -> None:
        self.taken: list[float] = []
        self.backoff = Backoff(max_attempts=max_attempts, sleep=self._sleep, jitter=lambda: 1.0)

    async def _sleep(self, seconds: float) -> None:
        self.taken.append(seconds)


async def followed(
    suite: Suite, count: int, *, after_seq: int = 0, snapshot: Callable[[SessionView], None] | None = None
) -> list[ChatEvent]:
    """The first events that follow() gives."""
    got: list[ChatEvent] = []
    async with Client(suite.address) as client:
        events = follow(client, story.SESSION, after_seq, snapshot=snapshot, backoff=Pauses(5).backoff)
        async with aclosing(events):
            async for event in events:
                got.append(event)
                if len(got) == count:
                    return got
    return got


async def test_a_cut_at_every_event_loses_and_repeats_nothing(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [(events[n : n + 1], grpc.StatusCode.UNAVAILABLE) for n in range(len(events))]
    assert await followed(suite, len(events)) == events
    assert suite.watched_after == list(range(len(events)))


async def test_what_was_applied_is_ignored_when_it_comes_again(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [(events[:5], grpc.StatusCode.UNAVAILABLE), (events[2:9], None)]
    assert await followed(suite, 9) == events[:9]


async def test_a_gap_is_followed_by_another_watch_from_the_last_event(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [([*events[:3], events[5]], None), (events[3:6], None)]
    assert await followed(suite, 6) == events[:6]
    assert suite.watched_after == [0, 3]


async def test_a_heartbeat_that_knows_more_shows_a_gap(suite: Suite) -> None:
    events = story.whole_turn()
    quiet, late = (story.event(0, heartbeat=chat.Heartbeat(seq=seq)) for seq in (2, 4))
    suite.watches = [([*events[:2], quiet, late], None), (events[2:4], None)]
    assert await followed(suite, 5) == [*events[:2], quiet, *events[2:4]]
    assert suite.watched_after == [0, 2]


async def test_a_reader_that_was_too_slow_watches_again(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [(events[:2], grpc.StatusCode.ABORTED), (events[2:4], None)]
    assert await followed(suite, 4) == events[:4]


async def test_events_that_are_gone_are_replaced_by_the_tree(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [([], grpc.StatusCode.OUT_OF_RANGE), (events[9:11], None)]
    snapshots: list[SessionView] = []
    assert await followed(suite, 2, after_seq=3, snapshot=snapshots.append) == events[9:11]
    assert suite.watched_after == [3, 9]
    assert list(snapshots[0].entries) == [story.USER, story.ANCHOR]


async def test_without_a_place_for_a_snapshot_out_of_range_is_raised(suite: Suite) -> None:
    suite.watches = [([], grpc.StatusCode.OUT_OF_RANGE)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await followed(suite, 1)
    assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED])
async def test_an_answer_is_not_tried_again(suite: Suite, code: grpc.StatusCode) -> None:
    suite.watches = [([], code)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await followed(suite, 1)
    assert caught.value.code() is code


async def test_an_internal_error_of_the_road_is_a_cut_and_one_of_a_service_is_not(suite: Suite) -> None:
    events = story.whole_turn()
    suite.watches = [([], grpc.StatusCode.INTERNAL), (events[:1], None)]
    assert await followed(suite, 1) == events[:1]
    suite.watches = [([], grpc.StatusCode.INTERNAL)]
    suite.details = b"\x08\x0d"
    with pytest.raises(grpc.aio.AioRpcError):
        await followed(suite, 1)


async def test_events_of_other_sessions_are_not_given(suite: Suite) -> None:
    events = story.whole_turn()
    other = story.event(7)
    other.session_id = "other"
    suite.watches = [([events[0], other, events[1]], None)]
    assert await followed(suite, 2) == events[:2]


async def test_pauses_grow_and_are_short_again_after_progress(suite: Suite) -> None:
    pauses, events = Pauses(), story.whole_turn()
    cut = grpc.StatusCode.UNAVAILABLE
    suite.watches = [([], cut), ([], cut), ([], cut), (events[:1], cut), (events[1:2], None)]
    async with Client(suite.address) as client:
        stream = follow(client, story.SESSION, backoff=pauses.backoff)
        async with aclosing(stream):
            async for event in stream:
                if event.seq == 2:
                    break
    assert pauses.taken == [0.1, 0.2, 0.4, 0.1]


async def test_tries_without_progress_are_bounded_when_asked(suite: Suite) -> None:
    suite.watches = [([], grpc.StatusCode.UNAVAILABLE)] * 9
    with pytest.raises(grpc.aio.AioRpcError):
        await followed(suite, 1)
    assert len(suite.watched_after) == 6


async def turn(suite: Suite, request: ChatRequest | None = None, after_seq: int = 0) -> list[ChatEvent]:
    """All that run_turn() gives."""
    request = request or ChatRequest(session_id=story.SESSION, content="count them")
    async with Client(suite.address) as client:
        events = run_turn(client, request, after_seq, backoff=Pauses(5).backoff)
        async with aclosing(events):
            return [event async for event in events]


async def test_a_turn_ends_with_its_last_event(suite: Suite) -> None:
    events = story.whole_turn()
    suite.chats = [(events, None)]
    assert await turn(suite) == events
    assert suite.watched_after == []


@pytest.mark.parametrize("cut", range(1, 17))
async def test_a_turn_that_is_cut_anywhere_is_followed_to_its_end(suite: Suite, cut: int) -> None:
    events = story.whole_turn()
    suite.chats = [(events[:cut], grpc.StatusCode.UNAVAILABLE)]
    suite.watches = [(events[cut - 1 : cut + 2], grpc.StatusCode.UNAVAILABLE), (events[cut:], None)]
    whole, given = SessionView(), SessionView()
    for event in events:
        whole.apply(event)
    for event in await turn(suite):
        given.apply(event)
    assert equal(given, whole) == []


async def test_a_message_that_was_not_acknowledged_is_sent_again_under_one_request_id(suite: Suite) -> None:
    events = story.whole_turn()
    suite.chats = [([], grpc.StatusCode.UNAVAILABLE), (events, None)]
    assert await turn(suite) == events
    first, second = suite.chat_requests
    assert first.request_id
    assert first == second


async def test_a_view_that_missed_earlier_events_gets_them_before_the_turn(suite: Suite) -> None:
    events = story.whole_turn()
    before = [story.leaf(1, "x"), story.leaf(2, "y")]
    for event in events:
        event.seq += 2
    suite.chats = [(events, None)]
    suite.watches = [([*before, *events], None)]
    assert await turn(suite) == [*before, *events]
    assert suite.watched_after == [0]


async def test_the_end_of_a_turn_before_is_not_this_turns_end(suite: Suite) -> None:
    events = story.whole_turn()
    old = story.done(1)
    old.turn_id = "before"
    for event in events:
        event.seq += 1
    suite.chats = [([old, *events], None)]
    assert await turn(suite) == [old, *events]


@pytest.mark.parametrize("end", [grpc.StatusCode.UNAVAILABLE, None])
async def test_a_message_that_waits_is_followed_when_its_stream_ends_before_its_turn(suite: Suite, end: End) -> None:
    events = story.whole_turn()
    queued, taken = (story.event(n + 1, message_receipt=chat.MessageReceipt(request_id="mine")) for n in range(2))
    queued.message_receipt.state = ReceiptState.RECEIPT_STATE_QUEUED
    taken.message_receipt.state = ReceiptState.RECEIPT_STATE_TAKEN
    queued.turn_id = "before"
    for event in events:
        event.seq += 2
    suite.chats = [([queued], end)]
    suite.watches = [([taken, *events], None)]
    request = ChatRequest(session_id=story.SESSION, content="count them", request_id="mine")
    assert await turn(suite, request) == [queued, taken, *events]
    assert suite.watched_after == [1]


async def test_a_refused_message_is_raised(suite: Suite) -> None:
    suite.chats = [([], grpc.StatusCode.FAILED_PRECONDITION)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await turn(suite)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_gaps_that_never_close_are_given_up_when_asked(suite: Suite) -> None:
    suite.watches = [([story.leaf(5, "x")], None)] * 9
    with pytest.raises(Gap):
        await followed(suite, 1)


async def test_a_loaded_view_holds_all_pages_and_the_first_ones_seq(suite: Suite) -> None:
    async with Client(suite.address) as client:
        view = await client.load(story.SESSION)
    assert (view.seq, list(view.entries)) == (9, [story.USER, story.ANCHOR])


async def test_a_turn_that_was_over_before_what_is_known_tells_nothing(suite: Suite) -> None:
    events = story.whole_turn()
    suite.chats = [(events, None)]
    request = ChatRequest(session_id=story.SESSION, content="count them", request_id="mine")
    assert await turn(suite, request, after_seq=events[-1].seq) == []
    assert suite.watched_after == []
