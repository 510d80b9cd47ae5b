"""The store beside bare Postgres, asyncpg and protobuf."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import grpc

from bench.figures import Figure, Sample, alternate, median_figure
from netaclaw.chat.v1.event_pb2 import ChatEvent, TodoUpdate
from netaclaw.session.v1.entry_pb2 import AssistantBody, Entry, EntryKind, EntryState, Part, TextPart, TodoItem
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest as PublicCreate
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest, GetSessionTreeRequest
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.store.v1.journal_service_pb2 import (
    AcquireSessionRequest,
    AppendRequest,
    CreateSessionRequest,
    EntryWrite,
    EventWrite,
    HeartbeatRequest,
    ReadEventsRequest,
    Write,
)
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_chassis.calls import OWNER_KEY
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import settle
from netaclaw_store import embedded
from netaclaw_store.app import open_app
from netaclaw_store.queries import SQL
from netaclaw_store.settings import StoreSettings

OWNER = "local"
METADATA = ((OWNER_KEY, OWNER),)
BATCH = 200
BATCHES = 20
ROUNDS = 9


@dataclass
class Rig:
    """A store on its own database, reached over gRPC, and a bare connection beside it."""

    journal: Any
    sessions: Any
    tree_bytes: Any
    """GetSessionTree whose answer stays bytes."""
    bare: asyncpg.Connection
    instance_id: str

    async def session(self) -> tuple[str, int]:
        """A new session and its generation."""
        session_id = new_id()
        made = CreateSessionRequest(owner_id=OWNER, request=PublicCreate(session_id=session_id))
        await self.journal.CreateSession(made)
        acquire = AcquireSessionRequest(instance_id=self.instance_id, owner_id=OWNER, session_id=session_id)
        held = await self.journal.AcquireSession(acquire)
        return session_id, held.generation

    async def append(
        self, session_id: str, generation: int, batches: Sequence[Sequence[Write]], first: int = 1
    ) -> None:
        """Append the batches one after the other on one stream."""
        await self.send(requests(session_id, generation, batches, first))

    async def send(self, batches: Sequence[AppendRequest]) -> None:
        """The same with messages made beforehand."""
        call = self.journal.Append()
        for request in batches:
            await call.write(request)
            answer = await call.read()
            if answer is grpc.aio.EOF:
                raise RuntimeError(await call.details())
        call.cancel()


def requests(
    session_id: str, generation: int, batches: Sequence[Sequence[Write]], first: int = 1
) -> list[AppendRequest]:
    """The messages that append the batches."""
    return [
        AppendRequest(session_id=session_id, generation=generation, append_no=number, writes=writes)
        for number, writes in enumerate(batches, start=first)
    ]


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """The store in this process: what is measured is its work and its database's, over a real socket."""
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netaclaw-bench-")))
        postgres = await embedded.start(data)
        stack.push_async_callback(postgres.stop)
        settings = StoreSettings(
            data_dir=data, database_url=postgres.url, port=0, internal_port=0, lease_seconds=3600.0
        )
        ports = await stack.enter_async_context(open_app(settings))
        internal = await stack.enter_async_context(connect(ports["internal"]))
        public = await stack.enter_async_context(connect(ports["public"]))
        bare = await asyncpg.connect(postgres.url)
        stack.push_async_callback(bare.close)
        untyped: Any = public
        tree_bytes = untyped.unary_unary(
            "/netaclaw.session.v1.SessionService/GetSessionTree",
            request_serializer=GetSessionTreeRequest.SerializeToString,
        )
        made = Rig(JournalServiceStub(internal), SessionServiceStub(public), tree_bytes, bare, new_id())
        beat = HeartbeatRequest(instance_id=made.instance_id, incarnation_id=new_id(), address="127.0.0.1:1")
        await made.journal.Heartbeat(beat)
        settle()  # as a service does when it has started
        yield made


def _todo(number: int) -> Write:
    todos = [TodoItem(todo_id="1", text=f"step {number}", status="pending")]
    return Write(event=EventWrite(event=ChatEvent(todo_update=TodoUpdate(todos=todos))))


def _entry(number: int, parent: str) -> Entry:
    return Entry(
        entry_id=new_id(),
        parent_entry_id=parent,
        kind=EntryKind.ENTRY_KIND_ASSISTANT,
        state=EntryState.ENTRY_STATE_COMPLETE,
        assistant=AssistantBody(parts=[Part(text=TextPart(text=f"answer {number} " * 8))], attempt=1),
    )


async def append() -> Sequence[Figure]:
    """store.append: durable events per second in batches of 200. Floor: raw asyncpg with the same batches, statements
    and commits. Requests and parameters are made beforehand: a writer's work is not the store's."""
    rates: list[float] = []
    floors: list[float] = []
    async with rig() as made:
        for _ in range(ROUNDS):
            rates.append(await append_rate(made))
            floors.append(await _bare_rate(made, (await made.session())[0]))
    figure = median_figure("store.append", "events/s", rates, floors, limit=0.5)
    return [replace(figure, at_least=True)]


async def append_rate(made: Rig) -> float:
    """Durable events per second in batches of 200."""
    session_id, generation = await made.session()
    batches = requests(session_id, generation, [[_todo(n) for n in range(BATCH)] for _ in range(BATCHES)])
    began = time.perf_counter()
    await made.send(batches)
    return BATCH * BATCHES / (time.perf_counter() - began)


async def _bare_rate(made: Rig, session_id: str) -> float:
    event = _todo(1).event.event
    payload = event.todo_update.SerializeToString()
    kind = ChatEvent.DESCRIPTOR.fields_by_name["todo_update"].number
    no_entries: tuple[list[object], ...] = ([],) * 11
    names = [""] * BATCH
    parameters = [
        (
            *(session_id, OWNER, 0, *no_entries),
            *(list(range(n * BATCH + 1, (n + 1) * BATCH + 1)), [kind] * BATCH, names, names, names, names),
            *([payload] * BATCH, (n + 1) * BATCH, "", "", n + 1),
        )
        for n in range(BATCHES)
    ]
    began = time.perf_counter()
    for each in parameters:
        async with made.bare.transaction():
            await made.bare.fetchrow(SQL["lock_for_append"], session_id)
            await made.bare.fetch(SQL["append_rows"], *each)
    return BATCH * BATCHES / (time.perf_counter() - began)


async def snapshot() -> Sequence[Figure]:
    """store.snapshot10k: all pages of a tree of 10,000 entries. Floor: SELECT of the same rows and serialising them."""
    values: list[float] = []
    floors: list[float] = []
    async with rig() as made:
        session_id, generation = await made.session()
        await _fill(made, session_id, generation, 10_000)
        tokens, count = await _page_tokens(made, session_id)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await _read_pages(made, session_id, tokens)
            values.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            rows = await made.bare.fetch(
                "SELECT body, parent_entry_id, label, updated_seq, create_time, update_time FROM entry"
                " WHERE session_id = $1 ORDER BY entry_no",
                session_id,
            )
            size = sum(len(_bare_entry(row).SerializeToString()) for row in rows)
            floors.append((time.perf_counter() - began) * 1000)
            if count != len(rows) or not size:
                raise RuntimeError(f"{count} entries read, {len(rows)} stored")
    return [median_figure("store.snapshot10k", "ms", values, floors, limit=1.5)]


def _bare_entry(row: asyncpg.Record) -> Entry:
    entry = Entry.FromString(row["body"])
    entry.parent_entry_id, entry.label, entry.updated_seq = row["parent_entry_id"], row["label"], row["updated_seq"]
    entry.create_time.FromDatetime(row["create_time"])
    entry.update_time.FromDatetime(row["update_time"])
    return entry


async def _page_tokens(made: Rig, session_id: str) -> tuple[list[str], int]:
    """The tokens of all pages of a tree, and how many entries they hold."""
    tokens, count = [""], 0
    while True:
        request = GetSessionTreeRequest(session_id=session_id, page_size=1000, page_token=tokens[-1])
        page = await made.sessions.GetSessionTree(request, metadata=METADATA)
        count += len(page.entries)
        if not page.next_page_token:
            return tokens, count
        tokens.append(page.next_page_token)


async def _read_pages(made: Rig, session_id: str, tokens: Sequence[str]) -> None:
    """Read the pages as bytes: what a reader makes of them is not the store's work."""
    for token in tokens:
        request = GetSessionTreeRequest(session_id=session_id, page_size=1000, page_token=token)
        await made.tree_bytes(request, metadata=METADATA)


async def _fill(made: Rig, session_id: str, generation: int, count: int) -> None:
    batches: list[list[Write]] = []
    parent = ""
    for number in range(count):
        if number % 200 == 0:
            batches.append([])
        entry = _entry(number, parent)
        parent = entry.entry_id
        batches[-1].append(Write(entry=EntryWrite(entry=entry)))
    await made.append(session_id, generation, batches)


async def resume() -> Sequence[Figure]:
    """store.resume100k: first page of events near the end of a session of 100,000. Floor: a unary read, same path."""
    values: list[float] = []
    floors: list[float] = []
    async with rig() as made:
        session_id, generation = await made.session()
        await made.append(session_id, generation, [[_todo(n) for n in range(500)] for _ in range(200)])
        for _ in range(100):
            began = time.perf_counter()
            call = made.journal.ReadEvents(ReadEventsRequest(owner_id=OWNER, session_id=session_id, after_seq=99_990))
            if not (await call.read()).events:
                raise RuntimeError("no events")
            values.append((time.perf_counter() - began) * 1000)
            call.cancel()
            began = time.perf_counter()
            await made.sessions.GetSession(GetSessionRequest(session_id=session_id), metadata=METADATA)
            floors.append((time.perf_counter() - began) * 1000)
    return [median_figure("store.resume100k", "ms", values, floors, limit=2.0)]


async def growth() -> Sequence[Figure]:
    """store.growth: one append and one snapshot page with 1,000,000 entries in the store. Floor: with 1,000, in a store
    of its own."""
    async with rig() as large, rig() as small:
        samples = [await _append_and_page(made) for made in (large, small)]
        template = await large.bare.fetchrow("SELECT body FROM entry LIMIT 1")
        assert template is not None
        await _million(large.bare, template["body"])
        values, floors = await alternate(300, *samples, warm_up=30)
    return [median_figure("store.growth", "ms", values, floors, limit=1.2)]


async def _append_and_page(made: Rig) -> Sample:
    """One append to a session of 1,000 entries, and the first page of its tree."""
    session_id, generation = await made.session()
    await _fill(made, session_id, generation, 1_000)
    numbers = itertools.count(6)

    async def sample() -> float:
        number = next(numbers)
        began = time.perf_counter()
        await made.append(session_id, generation, [[Write(entry=EntryWrite(entry=_entry(number, "")))]], number)
        request = GetSessionTreeRequest(session_id=session_id, page_size=200)
        await made.sessions.GetSessionTree(request, metadata=METADATA)
        return (time.perf_counter() - began) * 1000

    return sample


async def _million(bare: asyncpg.Connection, body: bytes) -> None:
    """1,000,000 entries in 10,000 sessions, straight into the tables."""
    await bare.execute(
        "INSERT INTO session (session_id, owner_id, workspace, seq, entry_count)"
        " SELECT 'filled-' || n, 'other', 'default', 100, 100 FROM generate_series(1, 10000) n"
    )
    await bare.execute(
        "INSERT INTO entry (session_id, entry_id, owner_id, entry_no, kind, state, body, body_bytes)"
        " SELECT 'filled-' || s, 'e-' || s || '-' || n, 'other', n, 2, 2, $1::bytea, length($1::bytea)"
        " FROM generate_series(1, 10000) s, generate_series(1, 100) n",
        body,
        timeout=600,
    )
    await bare.execute("VACUUM ANALYZE entry", timeout=600)
    await bare.execute("CHECKPOINT", timeout=600)  # the filling is no part of what is measured
