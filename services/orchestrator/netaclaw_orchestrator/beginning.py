"""Asking the store to begin a turn, until its answer is known: a turn begun unheard would block its session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import RETRY_DELAYS_S, translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


def ask_to_begin(journal: JournalServiceAsyncStub, request: BeginTurnRequest) -> asyncio.Task[BeginTurnResponse]:
    """The request is on its way when this returns; the task ends with the store's answer, or a NetaclawError.

    A store that stays away is asked again for a while, with the same ids: a turn that an earlier try has begun is
    answered as JOINED, and left to whoever claims it. Do not cancel the task: shield it.
    """
    first = journal.BeginTurn(request, metadata=calls.outgoing(request.owner_id))
    return asyncio.create_task(_answered(journal, request, first))


async def _answered(
    journal: JournalServiceAsyncStub,
    request: BeginTurnRequest,
    call: grpc.aio.UnaryUnaryCall[BeginTurnRequest, BeginTurnResponse],
) -> BeginTurnResponse:
    for delay in (*RETRY_DELAYS_S, None):
        try:
            with translated():
                return await call
        except NetaclawError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE or delay is None:
                raise
        await asyncio.sleep(delay)  # the backoff between tries, bounded by RETRY_DELAYS_S
        call = journal.BeginTurn(request, metadata=calls.outgoing(request.owner_id))
    raise AssertionError("the last try raises")
