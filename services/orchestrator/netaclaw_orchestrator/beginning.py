"""Asking the store to begin a turn, until its answer is known: a turn begun unheard would block its session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_chassis import calls
from netaclaw_orchestrator.journal import translated, while_away

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


def ask_to_begin(journal: JournalServiceAsyncStub, request: BeginTurnRequest) -> asyncio.Task[BeginTurnResponse]:
    """The request is on its way when this returns; the task ends with the store's answer, or a NetaclawError.

    A store that stays away, or that waits for a heartbeat of this instance, is asked again for a while, with the same
    ids: a turn that an earlier try has begun is answered as JOINED, and left to whoever claims it. Do not cancel the
    task: shield it.
    """

    def ask() -> grpc.aio.UnaryUnaryCall[BeginTurnRequest, BeginTurnResponse]:
        return journal.BeginTurn(request, metadata=calls.outgoing(request.owner_id))

    under_way = [ask()]

    async def attempt() -> BeginTurnResponse:
        with translated():
            return await (under_way.pop() if under_way else ask())

    return asyncio.create_task(while_away(attempt))
