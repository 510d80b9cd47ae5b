"""Messages of people to one child. Each enters once and has its receipts, also under a later owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from netaclaw.chat.v1.event_pb2 import ReceiptState, SteerReceipt
from netaclaw.subagent.v1.envelope_pb2 import Steer
from netaclaw.subagent.v1.runner_service_pb2 import RunCommand
from netaclaw_chassis.ids import new_id

if TYPE_CHECKING:  # a batch makes its children
    from netaclaw_orchestrator.delegation.batch_journal import BatchJournal

_QUEUED = ReceiptState.RECEIPT_STATE_QUEUED
_TAKEN = ReceiptState.RECEIPT_STATE_TAKEN
_MISSED = ReceiptState.RECEIPT_STATE_MISSED


class Steering:
    """What was sent to a child, by request id, and what became of it."""

    def __init__(self, journal: BatchJournal, task_id: str, command: Callable[[RunCommand], Awaitable[None]]) -> None:
        self._journal = journal
        self._task_id = task_id
        self._command = command
        self._receipts: dict[str, ReceiptState] = {}

    def recover(self, receipts: Sequence[SteerReceipt]) -> None:
        """Take over what an earlier owner has journaled, in order."""
        self._receipts.update((receipt.request_id, receipt.state) for receipt in receipts)

    async def send(self, request_id: str, content: str, *, running: bool) -> ReceiptState:
        """Pass a message on, where the child is running. Returns once its receipt is committed.

        A message that is sent again is the same: while it waits the runner is told again, which lets it enter once.
        """
        request_id = request_id or new_id()
        state = self._receipts.get(request_id)
        if state is None:
            state = _QUEUED if running else _MISSED
            await self._receipt(request_id, state)
        if state == _QUEUED and running:
            await self._command(RunCommand(steer=Steer(request_id=request_id, content=content)))
        return state

    async def taken(self, request_id: str) -> None:
        """The child has taken a message."""
        if self._receipts.get(request_id) == _QUEUED:
            await self._receipt(request_id, _TAKEN)

    def close(self, written: asyncio.Future[None]) -> asyncio.Future[None]:
        """The child's end is being written: what it has not taken is missed. Returns the last of these writes."""
        for request_id, state in self._receipts.items():
            if state == _QUEUED:
                written = self._receipt(request_id, _MISSED)
        return written

    def _receipt(self, request_id: str, state: ReceiptState) -> asyncio.Future[None]:
        self._receipts[request_id] = state
        return self._journal.receipt(self._task_id, request_id, state)
