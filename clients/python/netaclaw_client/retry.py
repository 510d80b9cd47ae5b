"""When to try again after a cut, and after how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

_LONGEST_DELAY_S = 60.0
_DETAILS_KEY = "grpc-status-details-bin"
_AGAIN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED})
_OF_THE_ROAD = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""What a cut connection can look like behind a proxy. From a service itself these carry details."""


@dataclass(slots=True)
class Backoff:
    """Exponential pauses with full jitter; `sleep` and `jitter` (from 0 to 1) are injected by tests."""

    first_s: float = 0.1
    longest_s: float = 5.0
    max_attempts: int = 0
    """Tries without any progress before giving up; 0 never gives up."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    _attempts: int = 0

    @property
    def exhausted(self) -> bool:
        """True when no further try is allowed."""
        return 0 < self.max_attempts <= self._attempts

    def progress(self) -> None:
        """Something arrived: the next pause is short again."""
        self._attempts = 0

    async def pause(self, at_least_s: float = 0.0) -> None:
        """Wait before the next try, and `at_least_s` longer where the suite asked for that."""
        longest = min(self.longest_s, self.first_s * 2 ** min(self._attempts, 16))
        self._attempts += 1
        await self.sleep(at_least_s + longest * self.jitter())


def is_cut(error: grpc.aio.AioRpcError) -> bool:
    """Whether the stream was cut on its way, or asks to be opened again; other errors are answers."""
    if error.code() in _AGAIN:
        return True
    return error.code() in _OF_THE_ROAD and not any(key == _DETAILS_KEY for key, _ in error.trailing_metadata() or ())


def is_limit(error: grpc.aio.AioRpcError) -> bool:
    """Whether a limit refused a call that may be made again after `retry_after_s`."""
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and retry_after_s(error) > 0


def retry_after_s(error: grpc.aio.AioRpcError) -> float:
    """The delay that the suite asks for before another try; 0 where it asks for none, a minute at most."""
    retry = RetryInfo()
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            details = Status.FromString(value).details
            found = any(detail.Unpack(retry) for detail in details)
            return min(_LONGEST_DELAY_S, retry.retry_delay.ToNanoseconds() / 1e9) if found else 0.0
    return 0.0
