"""Takes over the turns of instances that died."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import ClaimDueRequest
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_orchestrator.background import Background
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.tree_reader import TreeReader

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

log = logging.getLogger(__name__)

CLAIMS = 10
UNHEARD_S = 90.0
"""So long turns are looked for that this instance may have without knowing: longer than the minute for which the store
takes a turn that has just been begun to be on its way."""


class Recovery(Background):
    """Claims orphaned turns in short intervals; no two instances get the same one."""

    def __init__(
        self,
        instance_id: str,
        journal: JournalServiceAsyncStub,
        sessions: Sessions,
        reads: TreeReader,
        *,
        interval_s: float,
    ) -> None:
        self._instance_id = instance_id
        self._journal = journal
        self._sessions = sessions
        self._reads = reads
        self._interval_s = interval_s
        self._failed = False
        """Whether the last claim was not answered: the store may have made it all the same."""
        self._looks_until = 0.0
        """When to look no more for turns that this instance was not told of."""

    async def _run(self) -> None:
        while True:
            try:
                await self._claim()
            except grpc.aio.AioRpcError as error:
                log.info("no claims", extra={"reason": from_rpc(error).reason_name})
            await asyncio.sleep(self._interval_s)  # the interval itself

    async def _claim(self) -> None:
        request = ClaimDueRequest(instance_id=self._instance_id, limit=CLAIMS)
        now = asyncio.get_running_loop().time()
        if self._failed or self._sessions.unheard.is_set():
            self._looks_until = now + UNHEARD_S
        if now < self._looks_until:
            request.held.turn_ids.extend(self._sessions.running_turn_ids())
            request.held.SetInParent()
        self._failed = True
        self._sessions.unheard.clear()
        claimed = await self._journal.ClaimDue(request)
        self._failed = False
        for turn in claimed.turns:
            extra = {"turn_id": turn.turn_id, "takeovers": turn.takeovers}
            log.warning("taking over a turn", extra=extra)
            try:
                await self._sessions.take_over(turn, self._reads)
            except Exception as error:  # it was claimed: unless it is given back, nobody ever looks at it again
                reason = error.reason_name if isinstance(error, NetaclawError) else type(error).__name__
                log.warning("a turn could not be taken over", extra={**extra, "reason": reason})
                self._sessions.leave(turn.session.session_id, turn.generation)
        for waiting in claimed.waiting:
            try:
                await self._sessions.begin_next(waiting.owner_id, waiting.session_id)
            except NetaclawError as error:  # another instance was quicker, or it is looked at again
                log.info("a queue was not gone on with", extra={"reason": error.reason_name})
