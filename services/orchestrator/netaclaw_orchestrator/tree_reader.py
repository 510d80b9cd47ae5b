"""Reads what a dead owner has left in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netaclaw.session.v1.entry_pb2 import Entry, EntryKind
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest
from netaclaw.store.v1.journal_service_pb2 import Draft, ReadEventsRequest, ReadPathRequest
from netaclaw_chassis import calls
from netaclaw_orchestrator.delegation.outcome import LeftBehind
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.journal import read_events, translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


class TreeReader:
    """Every read raises NetaclawError when the store cannot be asked."""

    def __init__(
        self, journal: JournalServiceAsyncStub, sessions: SessionServiceAsyncStub, delegations: DelegationReader
    ) -> None:
        self._journal = journal
        self._sessions = sessions
        self._delegations = delegations

    async def path(self, owner_id: str, session_id: str) -> list[Entry]:
        """The path to the leaf, root first."""
        with translated():
            call = self._journal.ReadPath(ReadPathRequest(owner_id=owner_id, session_id=session_id))
            return [entry async for page in call for entry in page.entries]

    async def drafts(self, owner_id: str, session_id: str, seq: int) -> list[Draft]:
        """Text of what was being written."""
        request = ReadEventsRequest(owner_id=owner_id, session_id=session_id, after_seq=seq)
        return [draft async for page in read_events(self._journal, request) for draft in page.drafts]

    async def batches(
        self, owner_id: str, session_id: str, turn_id: str, open_calls: set[str]
    ) -> dict[str, LeftBehind]:
        """The turn's delegations, by the id of their call; only of calls that have no result."""
        batches: dict[str, Entry] = {}
        ended: set[str] = set()
        request = GetSessionTreeRequest(session_id=session_id)
        while True:
            with translated():
                page = await self._sessions.GetSessionTree(request, metadata=calls.outgoing(owner_id))
            for entry in page.entries:
                if entry.kind == EntryKind.ENTRY_KIND_SUBAGENT_BATCH:
                    if entry.turn_id == turn_id and entry.tool_call_id in open_calls:
                        batches[entry.tool_call_id] = entry
                elif entry.kind == EntryKind.ENTRY_KIND_SUBAGENT_RESULT:
                    ended.add(entry.tool_call_id)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return {
            call_id: await self._delegations.left_behind(owner_id, session_id, entry, result_written=call_id in ended)
            for call_id, entry in batches.items()
        }
