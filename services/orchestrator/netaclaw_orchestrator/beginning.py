"""Turns that are being begun: the store is asked until its answer is known; a cancel in the meantime catches them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import translated, while_away

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub


class Beginning:
    """A message, or a claimed turn, until a turn runs with it here or it is known that none will."""

    def __init__(self, owner_id: str, session_id: str, turn_id: str) -> None:
        self._owner_id = owner_id
        self._session_id = session_id
        self._turn_id = turn_id
        self._over = asyncio.Event()
        self.cancelled = False
        """Whether the turn is to be cancelled as soon as it runs."""
        self.handed_on = False
        """Whether whoever opened it has left it to somebody else, who is to say that it is over."""

    def becomes(self, session_id: str, turn_id: str) -> None:
        """Name what the store is asked for, once that is known."""
        self._session_id, self._turn_id = session_id, turn_id

    def concerns(self, owner_id: str, session_id: str, turn_id: str) -> bool:
        """Whether a cancel of the session's turn, or of this one where it names one, means it."""
        mine = (owner_id, session_id) == (self._owner_id, self._session_id)
        return mine and turn_id in ("", self._turn_id)

    def over(self) -> None:
        """Its turn runs, or none does."""
        self._over.set()

    async def wait(self) -> None:
        """Return once it is over."""
        await self._over.wait()


class Beginnings:
    """What is being begun on this instance."""

    def __init__(self) -> None:
        self._open: set[Beginning] = set()

    @contextmanager
    def of(self, owner_id: str, session_id: str, turn_id: str = "") -> Iterator[Beginning]:
        """Over at the end, unless it was handed on."""
        beginning = Beginning(owner_id, session_id, turn_id)
        with self.going_on(beginning):
            yield beginning

    @contextmanager
    def going_on(self, beginning: Beginning) -> Iterator[None]:
        """For whom it was handed on to."""
        self._open.add(beginning)
        beginning.handed_on = False
        try:
            yield
        finally:
            if not beginning.handed_on:
                beginning.over()
                self._open.discard(beginning)

    async def settled(self, owner_id: str, session_id: str) -> None:
        """Wait for all that is being begun in a session by now."""
        for beginning in [each for each in self._open if each.concerns(owner_id, session_id, "")]:
            await beginning.wait()

    def cancel(self, owner_id: str, session_id: str, turn_id: str = "") -> list[Beginning]:
        """Have the turns cancelled that are being begun in a session, or only this one. Wait for each, then look for
        what runs."""
        caught = [each for each in self._open if each.concerns(owner_id, session_id, turn_id)]
        for each in caught:
            each.cancelled = True
        return caught


def ask_to_begin(
    journal: JournalServiceAsyncStub, request: BeginTurnRequest, on_unheard: Callable[[], None]
) -> asyncio.Task[BeginTurnResponse]:
    """The request is on its way when this returns; the task ends with the store's answer, or a NetaclawError.

    A store that stays away, or that waits for a heartbeat of this instance, is asked again for a while, with the same
    ids: a turn that an earlier try has begun is answered as JOINED, and left to whoever claims it. Do not cancel the
    task: shield it. `on_unheard` is told when the store has stayed away: it may have begun the turn all the same.
    """

    def ask() -> grpc.aio.UnaryUnaryCall[BeginTurnRequest, BeginTurnResponse]:
        return journal.BeginTurn(request, metadata=calls.outgoing(request.owner_id))

    under_way = [ask()]

    async def attempt() -> BeginTurnResponse:
        with translated():
            return await (under_way.pop() if under_way else ask())

    async def asked() -> BeginTurnResponse:
        try:
            return await while_away(attempt)
        except NetaclawError as error:
            if error.code is grpc.StatusCode.UNAVAILABLE:
                on_unheard()
            raise

    return asyncio.create_task(asked())


def begin_request(make: Callable[[], str], **fields: object) -> BeginTurnRequest:
    """A BeginTurnRequest with fresh ids for the turn and its first two entries."""
    return BeginTurnRequest(
        turn_id=make(),
        user_entry_id=make(),
        assistant_entry_id=make(),
        **fields,  # type: ignore[arg-type]  # fields of the message
    )
