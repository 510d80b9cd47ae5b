"""Reads what a dead owner has left in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1.journal_service_pb2 import (
    Draft,
    ReadDelegationsRequest,
    ReadEventsRequest,
    ReadPathRequest,
)
from netaclaw_orchestrator.delegation.outcome import LeftBehind
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.journal import read_events, translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


class TreeReader:
    """Every read raises NetaclawError when the store cannot be asked."""

    def __init__(self, journal: JournalServiceAsyncStub, delegations: DelegationReader) -> None:
        self._journal = journal
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
        self, owner_id: str, session_id: str, anchor_id: str, open_calls: set[str]
    ) -> dict[str, LeftBehind]:
        """The delegations of an anchor, by the id of their call; only of calls that have no result."""
        batches: dict[str, LeftBehind] = {}
        request = ReadDelegationsRequest(owner_id=owner_id, session_id=session_id, parent_entry_id=anchor_id)
        with translated():
            async for page in self._journal.ReadDelegations(request):
                if page.tool_call_id not in open_calls:
                    continue
                if page.tool_call_id in batches:
                    batches[page.tool_call_id].tasks.extend(page.tasks)
                else:
                    left = LeftBehind(page.batch_entry_id, page.title, list(page.tasks), [], page.result_written)
                    batches[page.tool_call_id] = left
                for told in page.steer_receipts:
                    batches[page.tool_call_id].receipts.setdefault(told.task_id, []).append(told.receipt)
        for left in batches.values():
            left.steps.extend(await self._delegations.steps(owner_id, session_id, left.batch_entry_id))
        return batches
