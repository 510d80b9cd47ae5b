"""What an orchestrator and a client do to a store, in a few words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest

from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.chat.v1.event_pb2 import TURN_OUTCOME_COMPLETED, ChatEvent, Done
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_chassis.calls import OWNER_KEY
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_chassis.ids import new_id
from netaclaw_store.app import open_app
from netaclaw_store.settings import StoreSettings

if TYPE_CHECKING:  # these names exist in the stubs only
    from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceAsyncStub
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub
    from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

OWNER = "ann"
INSTANCE = "orchestrator-1"


def metadata(owner: str = OWNER) -> tuple[tuple[str, str], ...]:
    """What the gateway adds to a call of this owner."""
    return ((OWNER_KEY, owner),)


@dataclass
class Store:
    """A running store with stubs of all its services."""

    url: str
    ports: dict[str, str]
    journal: JournalServiceAsyncStub
    keys: IdentityServiceAsyncStub
    sessions: SessionServiceAsyncStub
    agents: AgentServiceAsyncStub

    async def beat(self, instance: str = INSTANCE, **fields: Any) -> j.HeartbeatResponse:
        """A heartbeat; each call without incarnation_id is a new process."""
        fields.setdefault("incarnation_id", new_id())
        return await self.journal.Heartbeat(j.HeartbeatRequest(instance_id=instance, address=f"{instance}:1", **fields))

    async def begin(self, session_id: str, content: str = "hello", **fields: Any) -> j.BeginTurnResponse:
        """Begin a turn with fresh ids, unless they are given."""
        fields = {
            "instance_id": INSTANCE,
            "owner_id": OWNER,
            "turn_id": new_id(),
            "user_entry_id": new_id(),
            "assistant_entry_id": new_id(),
            **fields,
        }
        return await self.journal.BeginTurn(j.BeginTurnRequest(session_id=session_id, content=content, **fields))

    async def new_turn(self, **fields: Any) -> Turn:
        """A turn in a session of its own."""
        begun = await self.begin(new_id(), create_session=True, **fields)
        return Turn(self, begun)

    async def tree(self, session_id: str, owner: str = OWNER, page_size: int = 1000) -> list[e.Entry]:
        """All pages of the tree."""
        entries: list[e.Entry] = []
        token = ""
        while True:
            request = p.GetSessionTreeRequest(session_id=session_id, page_size=page_size, page_token=token)
            page = await self.sessions.GetSessionTree(request, metadata=metadata(owner))
            assert page.ByteSize() <= 1024 * 1024
            entries.extend(page.entries)
            token = page.next_page_token
            if not token:
                return entries

    async def replay(self, session_id: str, after_seq: int = 0, owner: str = OWNER) -> list[ChatEvent]:
        """All durable events after a seq."""
        request = j.ReadEventsRequest(owner_id=owner, session_id=session_id, after_seq=after_seq)
        return [event async for page in self.journal.ReadEvents(request) for event in page.events]

    async def query(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Look at the rows themselves."""
        connection = await asyncpg.connect(self.url)
        try:
            rows: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
            return rows
        finally:
            await connection.close()


@dataclass
class Turn:
    """A running turn, written by its owner."""

    store: Store
    begun: j.BeginTurnResponse
    append_no: int = 0
    events: list[ChatEvent] = field(default_factory=list)

    @property
    def session_id(self) -> str:
        return self.begun.session.session_id

    @property
    def anchor_id(self) -> str:
        return self.begun.session.leaf_entry_id

    @property
    def user_id(self) -> str:
        return self.begun.events[0].entry_id

    def request(self, *writes: j.Write, append_no: int | None = None, **fields: Any) -> j.AppendRequest:
        if append_no is None:
            self.append_no += 1
            append_no = self.append_no
        values: dict[str, Any] = {"generation": self.begun.generation, **fields}
        return j.AppendRequest(session_id=self.session_id, append_no=append_no, writes=writes, **values)

    async def append(self, *writes: j.Write, **fields: Any) -> j.AppendResponse:
        """One batch on a stream of its own."""
        response = await append(self.store, self.request(*writes, **fields))
        self.events.extend(response.events)
        return response

    def assistant(self, *parts: e.Part, state: e.EntryState = e.ENTRY_STATE_COMPLETE) -> e.Entry:
        """The anchor with these parts."""
        return e.Entry(
            entry_id=self.anchor_id,
            parent_entry_id=self.user_id,
            turn_id=self.begun.turn_id,
            kind=e.ENTRY_KIND_ASSISTANT,
            state=state,
            assistant=e.AssistantBody(parts=parts, attempt=1),
        )

    def batch(self, *tasks: s.SubagentTask, entry_id: str) -> e.Entry:
        """A SUBAGENT_BATCH entry on the anchor."""
        shown = s.SubagentBatch(
            parent_entry_id=self.anchor_id, batch_entry_id=entry_id, tool_call_id="call-1", items=tasks
        )
        shown.counts.total = len(tasks)
        return e.Entry(
            entry_id=entry_id,
            parent_entry_id=self.anchor_id,
            turn_id=self.begun.turn_id,
            kind=e.ENTRY_KIND_SUBAGENT_BATCH,
            state=e.ENTRY_STATE_STREAMING,
            tool_call_id="call-1",
            subagent_batch=s.SubagentBatchBody(batch=shown),
        )

    async def finish(self, *writes: j.Write) -> j.AppendResponse:
        """Close the turn with a done event."""
        done = ChatEvent(turn_id=self.begun.turn_id, entry_id=self.anchor_id, done=Done(outcome=TURN_OUTCOME_COMPLETED))
        end = j.TurnEndWrite(turn_id=self.begun.turn_id, outcome=TURN_OUTCOME_COMPLETED)
        return await self.append(*writes, event_write(done), j.Write(turn_end=end))


def text(words: str) -> e.Part:
    return e.Part(text=e.TextPart(text=words))


def entry_write(entry: e.Entry, *, quiet: bool = False) -> j.Write:
    return j.Write(entry=j.EntryWrite(entry=entry, quiet=quiet))


def event_write(event: ChatEvent) -> j.Write:
    return j.Write(event=j.EventWrite(event=event))


async def append(store: Store, *requests: j.AppendRequest) -> j.AppendResponse:
    """Send requests on one stream; answers the last response once the stream has ended: drafts come behind it."""
    call = store.journal.Append()
    response: Any = None
    for request in requests:
        await call.write(request)
        response = await call.read()
        if response is grpc.aio.EOF:
            metadata = await call.trailing_metadata()
            raise grpc.aio.AioRpcError(await call.code(), grpc.aio.Metadata(), metadata, await call.details() or "")
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert isinstance(response, j.AppendResponse)
    return response


@asynccontextmanager
async def refused(reason: Reason) -> AsyncIterator[list[NetaclawError]]:
    """The block must end with a call that fails for this reason; the error is in the list afterwards."""
    found: list[NetaclawError] = []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield found
    found.append(from_rpc(caught.value))
    assert found[0].reason_name == Reason.Name(reason).removeprefix("REASON_"), str(found[0])


@asynccontextmanager
async def running_store(settings: StoreSettings) -> AsyncIterator[Store]:
    """A store in this process, and channels to both of its ports."""
    async with (
        open_app(settings) as ports,
        connect(ports["internal"]) as internal,
        connect(ports["public"]) as public,
    ):
        yield Store(
            settings.database_url,
            dict(ports),
            JournalServiceStub(internal),
            IdentityServiceStub(internal),
            SessionServiceStub(public),
            AgentServiceStub(public),
        )
