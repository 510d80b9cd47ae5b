"""Streams that survive cuts: every durable event once, in order."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

import grpc

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, WatchRequest, WatchTarget
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState
from netaclaw.session.v1.entry_pb2 import EntryKind
from netaclaw_client.client import Client
from netaclaw_client.retry import Backoff, is_cut, is_limit, retry_after_s
from netaclaw_client.streams import cut, responses
from netaclaw_client.view import Gap, SessionView

_ENDS = frozenset({"done", "error"})


async def follow(
    client: Client,
    session_id: str,
    after_seq: int = 0,
    *,
    snapshot: Callable[[SessionView], None] | None = None,
    backoff: Backoff | None = None,
) -> AsyncGenerator[ChatEvent, None]:
    """Events of a session after a seq, for as long as the caller iterates: each durable one once, in order.

    Cuts, silence, slow-reader ends and gaps are followed by another Watch from the last seq, after a pause, and so is a
    limit that refuses it once something has been followed. When events before a snapshot are gone, the tree is read
    again and given to `snapshot`, and events go on after it; without `snapshot` the OUT_OF_RANGE error is raised. Other
    errors are raised as they come.
    """
    events = _followed(client, session_id, after_seq, snapshot, backoff or Backoff(), begun=False)
    async with aclosing(events):
        async for event in events:
            yield event


async def _followed(
    client: Client,
    session_id: str,
    last: int,
    snapshot: Callable[[SessionView], None] | None,
    backoff: Backoff,
    *,
    begun: bool,
) -> AsyncGenerator[ChatEvent, None]:
    while True:
        delay = 0.0
        try:
            async with aclosing(_watch(client, session_id, last)) as events:
                async for event in events:
                    begun = True
                    last = event.seq or last
                    if event.seq or event.HasField("heartbeat"):
                        backoff.progress()
                    yield event
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.OUT_OF_RANGE and snapshot is not None:
                view = await _reloaded(client, session_id, backoff)
                if view is not None:
                    last = view.seq
                    snapshot(view)
            elif not _is_resumable(error, begun) or backoff.exhausted:
                raise
            else:
                delay = retry_after_s(error)
        except Gap:
            if backoff.exhausted:
                raise
        await backoff.pause(delay)


async def _reloaded(client: Client, session_id: str, backoff: Backoff) -> SessionView | None:
    """The session as it stands; None when reading it was cut: then the next Watch asks for it again."""
    try:
        return await client.load(session_id)
    except grpc.aio.AioRpcError as error:
        if not is_cut(error) or backoff.exhausted:
            raise
    return None


def _is_resumable(error: grpc.aio.AioRpcError, begun: bool) -> bool:
    """Whether another try may bring more; a limit is an answer where nothing had begun."""
    return is_cut(error) or (begun and is_limit(error))


async def run_turn(
    client: Client, request: ChatRequest, after_seq: int = 0, *, backoff: Backoff | None = None
) -> AsyncGenerator[ChatEvent, None]:
    """Send a message and yield its session's events after a seq, until its turn's `done` or `error`, or the receipt
    that says that it was taken back.

    Survives cuts: before the first event the same request is sent again under one request_id, so that it starts one
    turn; after it, or once the message is known to wait, the session is followed from the last seq.
    """
    backoff = backoff or Backoff()
    sent = ChatRequest()
    sent.CopyFrom(request)
    sent.request_id = sent.request_id or str(uuid.uuid4())
    turn = _Turn(after_seq, sent.request_id)
    asked = False
    while not turn.turn_id and not turn.waits:
        delay = 0.0
        try:
            async with aclosing(_chat(client, sent, turn)) as events:
                async for event in events:
                    yield event
                    if turn.ended_by(event):
                        return
            if turn.over:
                return
            if backoff.exhausted:
                raise cut("the stream ended before its first event")
        except grpc.aio.AioRpcError as error:
            if not _is_resumable(error, asked) or backoff.exhausted:
                raise
            delay = retry_after_s(error)
        except Gap:
            if backoff.exhausted:
                raise
        asked = True
        await backoff.pause(delay)
    rest = _followed(client, turn.session_id, turn.last, None, backoff, begun=True)
    async with aclosing(rest) as events:
        async for event in events:
            turn.note(event)
            yield event
            if turn.ended_by(event):
                return


async def running_turn(
    client: Client, view: SessionView, turn_id: str, *, backoff: Backoff | None = None
) -> AsyncGenerator[ChatEvent, None]:
    """Events after a view of a session in which a turn runs, until that turn's `done` or `error`. Survives cuts."""
    async with aclosing(follow(client, view.session_id, view.seq, backoff=backoff)) as events:
        async for event in events:
            yield event
            if event.turn_id == turn_id and event.WhichOneof("event") in _ENDS:
                return


@dataclass(slots=True)
class _Turn:
    """What is known of a message that was sent."""

    last: int
    request_id: str
    session_id: str = ""
    turn_id: str = ""
    waits: bool = False
    """Whether it is queued: then its receipts say which turn takes it."""
    over: bool = False
    """Whether its end was told, and the caller had seen it before."""

    def note(self, event: ChatEvent) -> None:
        """A turn is named by its user entry, or by the receipt of a message that waited for it."""
        self.session_id = event.session_id or self.session_id
        receipt = event.message_receipt
        if receipt.request_id == self.request_id:
            self.waits = True
            if receipt.state == ReceiptState.RECEIPT_STATE_TAKEN:
                self.turn_id = event.turn_id
        elif not self.turn_id and not self.waits and event.session_entry_added.entry.kind == EntryKind.ENTRY_KIND_USER:
            self.turn_id = event.turn_id
        self.over = self.over or (event.seq <= self.last and self.ended_by(event))

    def ended_by(self, event: ChatEvent) -> bool:
        """Whether the turn ends with it, or will not begin: the message was taken back."""
        receipt = event.message_receipt
        if receipt.request_id == self.request_id and receipt.state == ReceiptState.RECEIPT_STATE_RETRACTED:
            return True
        return bool(self.turn_id) and event.turn_id == self.turn_id and event.WhichOneof("event") in _ENDS


async def _chat(client: Client, request: ChatRequest, turn: _Turn) -> AsyncGenerator[ChatEvent, None]:
    """One Chat call's events that are new to the turn. Raises Gap when one is missing."""
    async with aclosing(responses(client.chat.Chat(request))) as received:
        async for response in received:
            for event in response.events:
                turn.note(event)
                if _is_next(event, turn.last):
                    turn.last = event.seq or turn.last
                    yield event


async def _watch(client: Client, session_id: str, last: int) -> AsyncGenerator[ChatEvent, None]:
    """One Watch. Raises Gap when an event is missing, by its seq or by a heartbeat's word."""
    request = WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=last)])
    async with aclosing(responses(client.chat.Watch(request))) as received:
        async for response in received:
            for event in response.events:
                if event.session_id not in ("", session_id):
                    continue
                if event.WhichOneof("event") == "heartbeat" and event.heartbeat.seq > last:
                    raise Gap(last, event.heartbeat.seq)
                if _is_next(event, last):
                    last = event.seq or last
                    yield event


def _is_next(event: ChatEvent, last: int) -> bool:
    """Whether an event is to be taken: live ones always, durable ones in their turn. Raises Gap."""
    if event.seq > last + 1:
        raise Gap(last, event.seq)
    return event.seq == 0 or event.seq == last + 1
