"""How much a caller may have open at once, and the end of what a revoked key has opened: behind every way in."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.identity_service_pb2 import CheckKeysRequest
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.sessions import Sessions

if TYPE_CHECKING:  # a name of the type stubs only
    from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceAsyncStub

log = logging.getLogger(__name__)

_RETRY_AFTER_S = 1.0
_CHECK_WITHIN_S = 5.0
_MAX_ASKED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """For each owner, and for each address that calls come from; on this instance."""

    streams: int = 4096
    turns: int = 256
    key_check_s: float = 15.0
    """So often the keys of open streams are looked at."""


@dataclass(eq=False, slots=True)
class _Stream:
    call: calls.Call
    task: asyncio.Task[object]
    revoked: bool = False


class Admission:
    """Counts open streams and running turns, and ends streams whose key is revoked or has expired; an async context."""

    def __init__(self, identity: IdentityServiceAsyncStub, sessions: Sessions, limits: Limits) -> None:
        self._identity = identity
        self._sessions = sessions
        self._limits = limits
        self._streams: set[_Stream] = set()
        self._open: Counter[tuple[str, str]] = Counter()
        self._checking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._checking = asyncio.create_task(self._check_keys())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Counts the stream that the current task serves. Raises LIMIT_REACHED; later UNAUTHENTICATED, when its key is
        revoked."""
        call, task = calls.current(), asyncio.current_task()
        if call is None or task is None:
            yield
            return
        counted = [pair for pair in (("owner", call.owner), ("address", call.address)) if pair[1]]
        for kind, name in counted:
            if self._open[kind, name] >= self._limits.streams:
                raise _reached(f"open_streams_per_{kind}", self._limits.streams)
        stream = _Stream(call, task)
        self._streams.add(stream)
        self._open.update(counted)
        try:
            yield
        except asyncio.CancelledError:
            if not stream.revoked:
                raise
            task.uncancel()
            raise NetaclawError(Reason.REASON_UNAUTHENTICATED, "the key was revoked or has expired") from None
        finally:
            self._streams.discard(stream)
            for pair in counted:
                self._open[pair] -= 1
                if not self._open[pair]:
                    del self._open[pair]

    def turn(self, owner_id: str, session_id: str) -> None:
        """Raises LIMIT_REACHED when the owner has too many turns running for one more in another session."""
        live = self._sessions.get(session_id, owner_id) if session_id else None
        if live is not None and live.busy:
            return  # joins the running turn, or waits for its end
        if self._sessions.running_turns(owner_id) >= self._limits.turns:
            raise _reached("running_turns_per_owner", self._limits.turns)

    async def _check_keys(self) -> None:
        while True:
            await asyncio.sleep(self._limits.key_check_s)
            asked = sorted({stream.call.key_id for stream in self._streams if stream.call.key_id})[:_MAX_ASKED]
            if not asked:
                continue
            try:
                request = CheckKeysRequest(key_ids=asked)
                answer = await self._identity.CheckKeys(request, timeout=_CHECK_WITHIN_S)
            except grpc.aio.AioRpcError as error:
                log.warning("keys of open streams were not checked", extra={"status": error.code().name})
                continue
            self._end_streams_of(set(asked) - set(answer.valid_key_ids))

    def _end_streams_of(self, keys: set[str]) -> None:
        for stream in [stream for stream in self._streams if stream.call.key_id in keys]:
            stream.revoked = True
            stream.task.cancel()


def _reached(limit: str, value: int) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_LIMIT_REACHED,
        f"the limit {limit} of {value} is reached; try again later",
        metadata={"limit": limit, "value": str(value)},
        retry_after=_RETRY_AFTER_S,
    )
