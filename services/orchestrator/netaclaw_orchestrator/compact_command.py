"""Compaction that a person asks for, of a session in which no turn runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest
from netaclaw.store.v1.journal_service_pb2 import EntryWrite, EventWrite, LeafWrite, Write
from netaclaw_agent.compaction import NothingToCompact, find_cut, recent_tokens
from netaclaw_agent.model import ModelError
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.branch_summary import BranchSummaries
from netaclaw_orchestrator.commands import SessionCommandServicer
from netaclaw_orchestrator.compaction import NotCompacted, Wish, announced, done_event
from netaclaw_orchestrator.journal import JournalWriter, translated
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.side_work import SideWork

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


class Compactions:
    """Runs them, at most one per session; a client that goes away cancels nothing."""

    def __init__(
        self,
        journal: JournalServiceAsyncStub,
        reads: SessionServiceAsyncStub,
        models: ModelCatalogue,
        *,
        sessions: Sessions,
        commands: SessionCommandServicer,
        summaries: BranchSummaries,
        side_work: SideWork,
    ) -> None:
        self._journal = journal
        self._reads = reads
        self._models = models
        self._sessions = sessions
        self._commands = commands
        self._summaries = summaries
        self._side_work = side_work

    async def compact(self, owner_id: str, session_id: str, instructions: str) -> Entry:
        """Compact the path and answer the new entry, once it is written.

        Raises NetaclawError: TURN_RUNNING, OWNED_ELSEWHERE, SESSION_NOT_FOUND, NOT_COMPACTED, or the model's reason.
        """
        work = self._run(owner_id, session_id, Wish(instructions))
        return await self._side_work.run(owner_id, session_id, "the compaction", work)

    async def _run(self, owner_id: str, session_id: str, wish: Wish) -> Entry:
        async with self._sessions.trees.alone(session_id):
            generation = await self._commands.acquire(session_id, owner_id)
            writer = JournalWriter(
                self._journal,
                self._sessions.publisher(session_id, owner_id),
                owner_id=owner_id,
                session_id=session_id,
                generation=generation,
            )
            try:
                return await self._write(owner_id, session_id, wish, writer)
            finally:
                await writer.close()
                await self._sessions.give_back(session_id, generation)

    async def _write(self, owner_id: str, session_id: str, wish: Wish, writer: JournalWriter) -> Entry:
        with translated():
            asked = GetSessionRequest(session_id=session_id)
            session = (await self._reads.GetSession(asked, metadata=calls.outgoing(owner_id))).session
        path = await self._summaries.path(owner_id, session_id, session.leaf_entry_id) if session.leaf_entry_id else []
        try:
            model = self._models.get(await self._summaries.model_name(owner_id, session, path))
            window = model.context_window
            cut = find_cut(path, window, kept_tokens=recent_tokens(path, window))
            body = await announced(writer, lambda **payload: _event(session_id, "", payload), model, cut, wish)
        except ModelError as error:
            raise _refused(str(error), error.reason) from error
        except NothingToCompact as nothing:
            raise _refused(str(nothing)) from nothing
        except NotCompacted as failed:
            raise _refused(str(failed), failed.reason) from failed
        entry = Entry(
            entry_id=new_id(),
            session_id=session_id,
            parent_entry_id=session.leaf_entry_id,
            kind=EntryKind.ENTRY_KIND_COMPACTION,
            state=EntryState.ENTRY_STATE_COMPLETE,
            compaction=body,
        )
        leaf = LeafWrite(leaf_entry_id=entry.entry_id, expected_leaf_entry_id=session.leaf_entry_id)
        done = _event(session_id, entry.entry_id, {"compaction_done": done_event(entry)})
        await writer.append(Write(entry=EntryWrite(entry=entry)), Write(leaf=leaf), done)
        return entry


def _event(session_id: str, entry_id: str, payload: Mapping[str, object]) -> Write:
    event = ChatEvent(session_id=session_id, entry_id=entry_id, **payload)  # type: ignore[arg-type]  # checked by protobuf
    return Write(event=EventWrite(event=event))


def _refused(message: str, reason: str = "NOT_COMPACTED") -> NetaclawError:
    return NetaclawError(cast("Reason", Reason.Value(f"REASON_{reason}")), message)
