"""Cancelling whatever runs in a session, wherever it runs, and in whatever state of beginning it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import translated
from netaclaw_orchestrator.owners import Owners, onward
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.side_work import SideWork
from netaclaw_orchestrator.turn import Turn

log = logging.getLogger(__name__)

ASKED_S = 5.0
"""So long another instance may take to say what it is beginning."""
LOOK_AGAIN_S = 0.2
LOOKS = 75
"""A turn whose owner has died is waited for about as long as it takes until another has taken it over: longer than the
default lease."""


class TurnCancels:
    """Finds what runs and ends it."""

    def __init__(self, sessions: Sessions, owners: Owners, side_work: SideWork) -> None:
        self._sessions = sessions
        self._owners = owners
        self._side_work = side_work

    async def cancel(self, request: CancelTurnRequest, owner_id: str, *, passed_on: bool) -> str:
        """Cancel the session's turn, or this one where the request names one; returns its id once everything of it is
        gone, and "" when none was there. A turn that is just being begun, or taken over, is caught.

        A call that another instance has passed on is not passed on again. Raises NetaclawError: SESSION_NOT_FOUND, and
        SERVICE_UNAVAILABLE when the turn has had no owner for too long.
        """
        wanted = CancelTurnRequest(session_id=request.session_id, turn_id=request.turn_id)
        self._sessions.beginnings.cancel(owner_id, request.session_id, request.turn_id)
        if not request.turn_id:  # a message that is caught may wait for its end
            await self._side_work.cancel(owner_id, request.session_id)
        for look in range(1 if passed_on else LOOKS):
            if look > 1:
                await asyncio.sleep(LOOK_AGAIN_S)  # between two looks for an owner
            turn_id = await self._look(wanted, owner_id, passed_on=passed_on, first=look == 0)
            if turn_id is not None:
                return turn_id
        raise NetaclawError(
            Reason.REASON_SERVICE_UNAVAILABLE,
            "the turn is being taken over: try again",
            metadata={"service": "orchestrator"},
        )

    async def _look(self, wanted: CancelTurnRequest, owner_id: str, *, passed_on: bool, first: bool) -> str | None:
        """As `cancel`; None when there is a turn, and nobody has it yet. It is named then: no later one is wanted."""
        session_id = wanted.session_id
        caught = self._sessions.beginnings.cancel(owner_id, session_id, wanted.turn_id)
        for beginning in caught:
            await beginning.wait()
        live = self._sessions.get(session_id, owner_id)
        if live is not None and live.turn is not None and live.busy:
            return await _cancelled(live.turn, wanted.turn_id)
        found = await self._owners.look_up(session_id, owner_id)
        running = found.session.running_turn_id
        if found.address and passed_on:
            if caught or running:
                raise NetaclawError(Reason.REASON_OWNED_ELSEWHERE, "another instance owns the session")
            return ""
        if first and not passed_on and not running and not wanted.turn_id:
            return await self._ask_around(wanted, owner_id, found.other_addresses)
        if found.address:
            return await self._pass_on(wanted, owner_id, found.address)
        if not running or wanted.turn_id not in ("", running):
            return ""
        wanted.turn_id = running
        return None

    async def _ask_around(self, wanted: CancelTurnRequest, owner_id: str, addresses: Sequence[str]) -> str | None:
        """As `_look`, where the store knows of no turn: its message may just have come to another instance."""

        async def ask(address: str) -> str | None:
            try:
                return await self._pass_on(wanted, owner_id, address, within_s=ASKED_S)
            except NetaclawError as error:
                log.info("not asked", extra={"reason": error.reason_name})
                return ""

        answers = await asyncio.gather(*(ask(address) for address in addresses))
        return next((answer for answer in answers if answer), None if None in answers else "")

    async def _pass_on(
        self, wanted: CancelTurnRequest, owner_id: str, address: str, within_s: float | None = None
    ) -> str | None:
        """As `_look`, by another instance."""
        try:
            with translated():
                call = self._owners.at(address).CancelTurn(wanted, metadata=onward(owner_id), timeout=within_s)
                return (await call).turn_id
        except NetaclawError as error:
            gone = error.code is grpc.StatusCode.UNAVAILABLE and within_s is None
            if gone or error.reason == Reason.REASON_OWNED_ELSEWHERE:
                return None  # it is dying, or has just lost the session
            raise


async def _cancelled(turn: Turn, wanted_id: str) -> str:
    if wanted_id not in ("", turn.turn_id):
        return ""
    await turn.cancel()
    return turn.turn_id
