"""One caller: the runs that it follows over one call, told of in as few messages as will do.

orders → start, attach, command of each run; events of all runs → what is ready → one message at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.runner_service_pb2 import RunEvents, RunOrder, RunRefused, RunResponse
from netaclaw_chassis.errors import InvalidRequest, NetaclawError
from netaclaw_runner.events import Reader
from netaclaw_runner.limits import Limits
from netaclaw_runner.run import Run
from netaclaw_runner.supervisor import Supervisor

log = logging.getLogger(__name__)

_ANY_SIZE = 2**31
_FEW_RUNS = 8
"""Runs beyond these stretch the pace."""
_MOST_PACES = 2.0
_URGENT_PART = 0.2
"""Of the pace, for news that somebody waits for, unless all runs have such: then nobody else's are to come."""


class Caller:
    """Runs that are over or refused are forgotten here: a later order may name them again."""

    def __init__(self, supervisor: Supervisor, limits: Limits) -> None:
        self._supervisor = supervisor
        self._response_bytes = limits.response_bytes
        self._pace_s = limits.pace_s
        self._followed: dict[str, tuple[Run, Reader]] = {}
        self._ready: dict[str, Reader] = {}
        self._refused: list[RunEvents] = []
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._complete = asyncio.Event()
        """Every run has news that somebody waits for."""
        self._sent_at = 0.0
        self._closing = False

    def obey(self, order: RunOrder) -> None:
        """Do what the order says. One that cannot be done is refused in its run's name, whatever it lacks."""
        followed = self._followed.get(order.run_id)
        kind = order.WhichOneof("order")
        if followed is not None:
            run, reader = followed
            if kind == "command" and not reader.displaced:
                run.obey(order.command)
            return
        if kind == "command":
            return  # of a run that is over, or was never here
        try:
            self._follow(order.run_id, *self._begun(order))
        except NetaclawError as error:
            self._refuse(order.run_id, error)
        except Exception as error:  # one broken order must not take the other runs with it
            log.exception("an order broke", extra={"run_id": order.run_id})
            words = f"internal error in the runner: {type(error).__name__}"
            self._refuse(order.run_id, NetaclawError(Reason.REASON_INTERNAL, words))

    def close(self) -> None:
        """No more orders come: the call ends with the last of its runs."""
        self._closing = True
        self._rush()

    def leave(self) -> None:
        """The caller is gone."""
        for run, reader in self._followed.values():
            run.leave(reader)
        self._followed.clear()

    async def take(self) -> RunResponse | None:
        """What is new of the runs, at least something of one; None after the last when no more orders come.

        The first news go at once. After a message the next one waits for company, unless somebody waits for its news.
        """
        while not self._ready and not self._refused:
            if self._closing and not self._followed:
                return None
            self._wake.clear()
            await self._wake.wait()
        await self._company()
        response = RunResponse(runs=self._refused)
        self._refused.clear()
        room = self._response_bytes
        share = room // (len(self._ready) or 1)  # a run with much to say keeps no other one silent
        for run_id, reader in list(self._ready.items()):
            waiting = reader.size
            said = self._say(run_id, reader, share, room if response.runs else _ANY_SIZE)
            if said is None:
                break  # it goes first next time
            response.runs.append(said)
            room -= waiting - reader.size
        self._urgent.clear()
        self._complete.clear()
        if any(reader.urgent for reader in self._ready.values()):
            self._note_urgent()
        self._sent_at = asyncio.get_running_loop().time()
        return response

    async def _company(self) -> None:
        """Let news gather after a message: the more runs there are, the longer; a part of it when somebody waits."""
        pace_s = self._pace_s * min(max(len(self._followed) / _FEW_RUNS, 1.0), _MOST_PACES)
        await self._set_before(self._urgent, self._sent_at + pace_s)
        await self._set_before(self._complete, self._sent_at + pace_s * _URGENT_PART)

    async def _set_before(self, event: asyncio.Event, deadline: float) -> None:
        """Wait for an event up to a time of the loop."""
        left = deadline - asyncio.get_running_loop().time()
        if left > 0 and not event.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await event.wait()

    def _say(self, run_id: str, reader: Reader, share: int, room: int) -> RunEvents | None:
        """What the run has to say; None when its next event is larger than the room. What does not fit into its share
        waits at the end of the line."""
        if reader.displaced:
            self._forget(run_id)
            return _refusal(run_id, NetaclawError(Reason.REASON_STALE_GENERATION, "a later owner has attached to it"))
        events = reader.take(share, room)
        if not events:
            return None
        del self._ready[run_id]
        if reader.finished:
            self._forget(run_id)
        elif reader.ready:
            self._ready[run_id] = reader
        return RunEvents(run_id=run_id, events=events)

    def _begun(self, order: RunOrder) -> tuple[Run, Reader]:
        kind = order.WhichOneof("order")
        if kind == "start":
            if order.start.run_id != order.run_id:
                raise InvalidRequest([("run_id", "must be that of the task")])
            return self._supervisor.start(order.start)
        if kind == "attach":
            return self._supervisor.attach(order.run_id, order.attach)
        raise InvalidRequest([("order", "must be set")])

    def _follow(self, run_id: str, run: Run, reader: Reader) -> None:
        self._followed[run_id] = run, reader

        def on_ready() -> None:
            self._ready[run_id] = reader
            self._wake.set()
            if reader.urgent:
                self._note_urgent()

        reader.on_ready = on_ready
        if reader.ready:
            on_ready()

    def _note_urgent(self) -> None:
        self._urgent.set()
        if all(reader.urgent for _, reader in self._followed.values()):
            self._complete.set()

    def _forget(self, run_id: str) -> None:
        run, reader = self._followed.pop(run_id)
        self._ready.pop(run_id, None)
        reader.on_ready = lambda: None
        run.leave(reader)

    def _refuse(self, run_id: str, error: NetaclawError) -> None:
        self._refused.append(_refusal(run_id, error))
        self._rush()

    def _rush(self) -> None:
        self._wake.set()
        self._urgent.set()


def _refusal(run_id: str, error: NetaclawError) -> RunEvents:
    return RunEvents(
        run_id=run_id, refused=RunRefused(reason=error.reason, message=str(error), metadata=error.metadata)
    )
