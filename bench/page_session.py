"""A session of many entries, written through the store as turns write it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc

from bench.store import OWNER, requests
from netaclaw.session.v1.entry_pb2 import AssistantBody, Entry, EntryKind, EntryState, Part, TextPart, UserBody
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest as PublicCreate
from netaclaw.store.v1.journal_service_pb2 import (
    AcquireSessionRequest,
    CreateSessionRequest,
    EntryWrite,
    HeartbeatRequest,
    LeafWrite,
    ReleaseSessionRequest,
    Write,
)
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_store.app import open_app
from netaclaw_store.settings import StoreSettings

COUNT = 5_000
BATCH = 200
_ANSWER = "Answer {n} has **some words**, and a list:\n\n- one of {n}\n- two with `code`\n\nAnd a last paragraph.\n" * 2


def texts() -> Iterator[str]:
    """What the entries say, in order: a question, its answer, and so on."""
    for n in range(COUNT // 2):
        yield f"Question {n}: what is to be said about it, in a sentence or two of the usual length?"
        yield _ANSWER.format(n=n)


def _entries() -> list[Entry]:
    entries: list[Entry] = []
    parent = ""
    turn = ""
    for number, text in enumerate(texts()):
        entry = Entry(entry_id=new_id(), parent_entry_id=parent, state=EntryState.ENTRY_STATE_COMPLETE)
        if number % 2 == 0:
            turn = new_id()
            entry.kind = EntryKind.ENTRY_KIND_USER
            entry.user.CopyFrom(UserBody(text=text))
        else:
            entry.kind = EntryKind.ENTRY_KIND_ASSISTANT
            entry.assistant.CopyFrom(AssistantBody(parts=[Part(text=TextPart(text=text))], attempt=1))
        entry.turn_id = turn
        parent = entry.entry_id
        entries.append(entry)
    return entries


async def fill(data: Path, database_url: str) -> tuple[str, str]:
    """Write the session into a database that no suite uses yet; its id and that of its last entry."""
    settings = StoreSettings(data_dir=data, database_url=database_url, port=0, internal_port=0, lease_seconds=1.0)
    async with open_app(settings) as ports, connect(ports["internal"]) as internal:
        journal = JournalServiceStub(internal)
        session_id, instance_id = new_id(), new_id()
        made = PublicCreate(session_id=session_id, title="A long conversation")
        await journal.CreateSession(CreateSessionRequest(owner_id=OWNER, request=made))
        beat = HeartbeatRequest(instance_id=instance_id, incarnation_id=new_id(), address="127.0.0.1:1")
        await journal.Heartbeat(beat)
        acquire = AcquireSessionRequest(instance_id=instance_id, owner_id=OWNER, session_id=session_id)
        held = await journal.AcquireSession(acquire)
        entries = _entries()
        writes = [Write(entry=EntryWrite(entry=entry)) for entry in entries]
        writes.append(Write(leaf=LeafWrite(leaf_entry_id=entries[-1].entry_id)))
        batches = [writes[at : at + BATCH] for at in range(0, len(writes), BATCH)]
        call = journal.Append()
        for request in requests(session_id, held.generation, batches):
            await call.write(request)
            if await call.read() is grpc.aio.EOF:
                raise RuntimeError(await call.details())
        call.cancel()
        release = ReleaseSessionRequest(instance_id=instance_id, session_id=session_id, generation=held.generation)
        await journal.ReleaseSession(release)
    return session_id, entries[-1].entry_id
