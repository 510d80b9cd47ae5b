"""The orchestrator's side of the journal: one writer per session, one append in flight, the rest batched.

writer.append(writes) → queue → AppendRequest(append_no) → store commits → events → publisher → the caller goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import grpc

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.journal_service_pb2 import (
    AppendRequest,
    AppendResponse,
    ReadEventsRequest,
    ReadEventsResponse,
    Write,
)
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_orchestrator.publisher import Publisher

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

log = logging.getLogger(__name__)

MAX_BATCH_WRITES = 500
MAX_BATCH_BYTES = 900 * 1024
RETRY_DELAYS_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)
"""A store that restarts is waited for about this long; a repeat of an append is safe."""

T = TypeVar("T")
AppendCall = grpc.aio.StreamStreamCall[AppendRequest, AppendResponse]


class Row:
    """A row that is written as it stands when its append is sent: once in each, however often it was posted."""

    def __init__(self, make: Callable[[], Write]) -> None:
        self._make = make
        self.sent = False
        """Whether it has gone into an append: what changes now is to be posted with a row of its own."""

    def write(self) -> Write:
        """The write, as the row stands now."""
        self.sent = True
        return self._make()

    def freeze(self) -> None:
        """What becomes of its subject from now on is not written."""
        write = self._make()
        self._make = lambda: write


@dataclass(slots=True)
class _Waiting:
    rows: Sequence[Row]
    writes: Sequence[Write]
    done: asyncio.Future[None]


class JournalWriter:
    """The only writer of one session under one lease."""

    def __init__(
        self, stub: JournalServiceAsyncStub, publisher: Publisher, *, owner_id: str, session_id: str, generation: int
    ) -> None:
        self._stub = stub
        self._publisher = publisher
        self._owner_id = owner_id
        self._session_id = session_id
        self.generation = generation
        self._append_no = 0
        self._waiting: list[_Waiting] = []
        self._pump: asyncio.Task[None] | None = None
        self._call: AppendCall | None = None
        self._failure: NetaclawError | None = None

    @property
    def sealed(self) -> bool:
        """Whether what runs is left to another owner. A deleted session has none: what runs there is to be ended."""
        return self._failure is not None and self._failure.reason != Reason.REASON_SESSION_NOT_FOUND

    @property
    def failed(self) -> bool:
        """Whether nothing more can be written here."""
        return self._failure is not None

    def seal(self) -> None:
        """Refuse everything that is appended from now on; what was appended before is still written, rows as they stand
        now: what becomes of their subjects here is not the next owner's."""
        if self._failure is None:
            self._failure = lease_lost()
            for row in [row for waiting in self._waiting for row in waiting.rows]:
                row.freeze()

    async def append(self, *writes: Write) -> None:
        """Commit the writes atomically, in order after all earlier ones, and publish their events.

        Large contents among them may be committed before the others, since together they may not fit a message.

        Returns when they are committed and published. Raises NetaclawError: STALE_GENERATION when another owner has
        the session, DATABASE_UNAVAILABLE or SERVICE_UNAVAILABLE when the store stays away; after an error every later
        append fails the same way. Cancelling the caller does not take the writes back.
        """
        await asyncio.shield(self.post(*writes))

    def post(self, *writes: Write, rows: Sequence[Row] = ()) -> asyncio.Future[None]:
        """As append, without waiting; the future may be dropped, since a failure shows at every later append.

        `rows` stand before the writes. Where all do not fit a message, the first ones may be committed before the
        others; the last one, of which the writes tell, never. A waiter that is cancelled takes the future along, not
        the writes.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            done.set_exception(self._failure)
            done.exception()
            return done
        parts = [[write] for write in writes if write.HasField("content")]  # may go ahead: nothing names them yet
        parts.append([write for write in writes if not write.HasField("content")])
        futures = [*(asyncio.get_running_loop().create_future() for _ in parts[1:]), done]
        for part, future in zip(parts, futures, strict=True):
            self._waiting.append(_Waiting(rows if future is done else (), part, future))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return done

    def abandon(self) -> None:
        """The lease has run out: what is queued or under way is given up, whatever becomes of it."""
        self.seal()
        if self._pump is not None:
            self._pump.cancel()
        self._drop_call()

    async def close(self) -> None:
        """Write out what is queued, then end the stream."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        self._drop_call()

    async def _run(self) -> None:
        while self._waiting:
            batch, writes = self._take()
            try:
                response = await self._send(writes)
                events = await self._events_of(response)
            except NetaclawError as error:
                self._fail(error, batch)
                return
            except asyncio.CancelledError:
                self._fail(self._failure or lease_lost(), batch)
                return
            self._publisher.durable(events)
            for waiting in batch:
                if not waiting.done.done():  # cancelled with its waiter
                    waiting.done.set_result(None)

    def _take(self) -> tuple[list[_Waiting], list[Write]]:
        """As many whole appends as fit into one message, at least one; and their writes. An event's row is with it.

        None where the first is too large itself: then rows of it go ahead.
        """
        count = size = 0
        writes: list[Write] = []
        taken: set[Row] = set()
        for waiting in self._waiting:
            rows = [row for row in waiting.rows if row not in taken]
            more = [*(row.write() for row in rows), *waiting.writes] if rows else waiting.writes
            added = sum(write.ByteSize() for write in more)
            fits = len(writes) + len(more) <= MAX_BATCH_WRITES and size + added <= MAX_BATCH_BYTES
            if not fits and count:
                break
            if not fits and len(rows) > 1:
                return [], _ahead(waiting)
            taken.update(rows)
            count += 1
            size += added
            writes.extend(more)
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch, writes

    async def _send(self, writes: Sequence[Write]) -> AppendResponse:
        self._append_no += 1
        request = AppendRequest(
            session_id=self._session_id, generation=self.generation, append_no=self._append_no, writes=writes
        )

        async def attempt() -> AppendResponse:
            try:
                with translated():
                    return await self._exchange(request)
            except NetaclawError:
                self._drop_call()
                raise

        return await while_away(attempt)

    async def _exchange(self, request: AppendRequest) -> AppendResponse:
        if self._call is None:
            self._call = self._stub.Append()
        try:
            await self._call.write(request)
            response = await self._call.read()
        except asyncio.InvalidStateError:  # the call ended before the write; its status says why
            response = grpc.aio.EOF
        if not isinstance(response, AppendResponse):
            code = await self._call.code()
            details = await self._call.details() or ""
            metadata = await self._call.trailing_metadata()
            if code is grpc.StatusCode.OK:
                code = grpc.StatusCode.UNAVAILABLE  # the store closed the stream: it is stopping
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details)
        return response

    async def _events_of(self, response: AppendResponse) -> Sequence[ChatEvent]:
        if not response.repeated_append:
            return response.events
        request = ReadEventsRequest(owner_id=self._owner_id, session_id=self._session_id, after_seq=self._publisher.seq)
        return [event async for page in read_events(self._stub, request) for event in page.events]

    def _fail(self, error: NetaclawError, batch: list[_Waiting]) -> None:
        self._failure = error
        log.warning("journal lost", extra={"session_id": self._session_id, "reason": error.reason_name})
        for waiting in [*batch, *self._waiting]:
            if not waiting.done.done():  # cancelled with its waiter
                waiting.done.set_exception(error)
                waiting.done.exception()  # a caller that was cancelled will not look
        self._waiting.clear()
        self._drop_call()

    def _drop_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None


def _ahead(waiting: _Waiting) -> list[Write]:
    """The first rows, but not the last one, as far as they fit a message; at least one. They wait no longer."""
    writes: list[Write] = []
    size = 0
    for row in waiting.rows[:-1]:
        write = row.write()
        size += write.ByteSize()
        if writes and (len(writes) == MAX_BATCH_WRITES or size > MAX_BATCH_BYTES):
            break
        writes.append(write)
    waiting.rows = waiting.rows[len(writes) :]
    return writes


async def while_away(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again for as long as RETRY_DELAYS_S while the store is away; each attempt must be a repeat that is safe.

    Raises the last attempt's NetaclawError.
    """
    for delay in RETRY_DELAYS_S:
        try:
            return await attempt()
        except NetaclawError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE:
                raise
        await asyncio.sleep(delay)  # the backoff between tries
    return await attempt()


async def read_events(stub: JournalServiceAsyncStub, request: ReadEventsRequest) -> AsyncIterator[ReadEventsResponse]:
    """Pages of durable events after a seq. Raises NetaclawError."""
    call = stub.ReadEvents(request)
    try:
        async for page in call:
            yield page
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from error
    finally:
        call.cancel()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn failed calls to other services into NetaclawError."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from error


def lease_lost() -> NetaclawError:
    """SHUTTING_DOWN: the session is left to another owner."""
    return NetaclawError(Reason.REASON_SHUTTING_DOWN, "the session is given to another owner")


def lost(error: BaseException) -> bool:
    """Whether the session belongs to another owner now, so that nothing more may be written."""
    return isinstance(error, NetaclawError) and error.reason == Reason.REASON_STALE_GENERATION
