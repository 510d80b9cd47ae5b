"""The pool, and what its failures mean."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import asyncpg

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.lifecycle import StartError
from netaclaw_store.migrations import migrate

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[asyncpg.Connection], Awaitable[T]]

MIN_SERVER_VERSION = 15
MAX_CONNECTIONS = 16
COMMAND_TIMEOUT_S = 30.0
ACQUIRE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
_ATTEMPTS = 3
SERVER_SETTINGS: Mapping[str, str] = {
    "application_name": "netaclaw-store",
    "timezone": "UTC",
    # Every statement is served by an index, and a test proves it: plan once, and never read a whole table because it
    # is small at that moment.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}
_READ_WRITE: Mapping[str, Any] = {}
_SNAPSHOT: Mapping[str, Any] = {"isolation": "repeatable_read", "readonly": True}


class LostRace(Exception):
    """A transaction found that another one was quicker: try again and see what it did."""


class DatabaseFault(asyncpg.PostgresError):  # type: ignore[misc]  # the driver ships no types
    """A fault of ours, by its kind alone: the driver's words may repeat what was to be stored, and this is logged."""


_GONE = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
_AGAIN = (
    LostRace,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.UniqueViolationError,
)
"""Losing a race: the whole transaction is tried again and sees the winner."""
_REFUSED = (
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.OperatorInterventionError,
    asyncpg.LockNotAvailableError,
)
"""A full disk, a server that has become a standby, a statement that an operator cancels: nothing was written, and the
same may work later."""


class Database:
    """Runs whole units of work on pooled connections."""

    def __init__(self, url: str, pool: asyncpg.Pool) -> None:
        self._url = url
        self._pool = pool

    async def read(self, work: Work[T]) -> T:
        """Run reading statements, each with a snapshot of its own; once more when the connection was lost."""
        return await self._try(work, None, repeatable=True)

    async def snapshot(self, work: Work[T]) -> T:
        """Run reading statements that all see the same committed rows."""
        return await self._try(work, _SNAPSHOT, repeatable=True)

    async def write(self, work: Work[T]) -> T:
        """Run work whose single writing statement is its own transaction; never sent twice over a lost connection."""
        return await self._try(work, None, repeatable=False)

    async def transact(self, work: Work[T]) -> T:
        """Run work in one transaction, again from the start when it lost a race; work keeps no state outside.

        Raises UNAVAILABLE (DATABASE_UNAVAILABLE) when the database cannot be reached or takes no work. A commit whose
        answer was lost is not repeated.
        """
        return await self._try(work, _READ_WRITE, repeatable=False)

    async def _try(self, work: Work[T], options: Mapping[str, Any] | None, *, repeatable: bool) -> T:
        attempt = 0
        while True:
            attempt += 1
            begun = False
            try:
                async with asyncio.timeout(ACQUIRE_TIMEOUT_S):  # the pool's own timeout would cost a task
                    connection = await self._pool.acquire()
                begun = True
                try:
                    return await _within(connection, work, options)
                finally:
                    await self._pool.release(connection, timeout=ACQUIRE_TIMEOUT_S)
            except _AGAIN as error:
                if attempt >= _ATTEMPTS:
                    raise _fault(error) from None
            except _GONE as error:
                if isinstance(error, ValueError):  # an argument of ours that does not fit its column
                    raise _fault(error) from None
                if attempt >= _ATTEMPTS or (begun and not repeatable):
                    raise _unavailable() from error
            except _REFUSED as error:
                log.error("the database refuses work", extra={"error": type(error).__name__})
                raise _unavailable("the database cannot take this now") from None
            except asyncpg.PostgresError as error:
                if begun:
                    raise _fault(error) from None
                # A refused connection is no fault of the work, whatever the refusal's reason.
                log.error("the database refuses a connection", extra={"error": type(error).__name__})
                raise _unavailable() from None

    async def listen(self, channel: str, heard: Callable[[str], None]) -> asyncpg.Connection:
        """A connection of its own that calls `heard` with the payloads of a channel; close it when done."""
        try:
            connection = await asyncpg.connect(self._url, timeout=CONNECT_TIMEOUT_S)
            try:
                await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: heard(payload))
            except BaseException:
                connection.terminate()  # left open by a cancellation, it would keep the event loop from closing
                raise
        except _GONE as error:
            raise _unavailable() from error
        return connection


async def _within(connection: asyncpg.Connection, work: Work[T], options: Mapping[str, Any] | None) -> T:
    try:
        if options is None:
            return await work(connection)
        async with connection.transaction(**options):
            return await work(connection)
    except asyncio.CancelledError:
        await _tidy(connection)
        raise
    except (asyncpg.PostgresError, asyncpg.InternalClientError) as error:
        if connection.is_closed():  # whatever a dying server said with its last breath
            raise ConnectionError("the connection was lost") from error
        raise


async def _tidy(connection: asyncpg.Connection) -> None:
    """After a cancellation: a statement that was parsed and not run has begun a transaction that the driver knows
    nothing of, and the next one on this connection would meet it."""
    try:
        await connection.reset(timeout=ACQUIRE_TIMEOUT_S)
    except (*_GONE, asyncpg.PostgresError, asyncpg.InternalClientError):
        connection.terminate()


def _unavailable(words: str = "the database cannot be reached") -> NetaclawError:
    return NetaclawError(Reason.REASON_DATABASE_UNAVAILABLE, words, retry_after=1.0)


def _fault(error: Exception) -> DatabaseFault:
    fault = DatabaseFault(f"{type(error).__name__} {getattr(error, 'sqlstate', '')}")
    fault.__traceback__ = error.__traceback__
    return fault


async def open_pool(url: str) -> asyncpg.Pool:
    """Connect, check the server's version, migrate, and open the pool. Raises StartError with one clear line."""
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    except (*_GONE, asyncpg.PostgresError, ValueError) as error:
        raise StartError(f"the database cannot be reached: {_why(error)}") from error
    try:
        version = connection.get_server_version()
        if version.major < MIN_SERVER_VERSION:
            raise StartError(f"the database is Postgres {version.major}; netaclaw needs {MIN_SERVER_VERSION} or newer")
        await _refuse_pooler(connection)
        await migrate(connection)
    except asyncpg.PostgresError as error:
        raise StartError(f"the database cannot be prepared: {_why(error)}") from error
    finally:
        await connection.close()
    return await asyncpg.create_pool(
        url,
        min_size=2,
        max_size=MAX_CONNECTIONS,
        command_timeout=COMMAND_TIMEOUT_S,
        max_inactive_connection_lifetime=0,
        reset=_leave_as_it_is,
        server_settings=SERVER_SETTINGS,
    )


async def _refuse_pooler(connection: asyncpg.Connection) -> None:
    """Raise StartError when something between us and the server hands our statements to sessions of its choice.

    It tells a process id of its own making. Notifications, prepared statements and locks of a session do not pass it.
    """
    async with connection.transaction():
        serving = await connection.fetchval("SELECT pg_backend_pid()")
    if serving != connection.get_server_pid():
        raise StartError(
            "NETACLAW_DATABASE_URL leads to a connection pooler; give the address of the server itself:"
            " the store keeps a pool of its own, and listens on it"
        )


async def _leave_as_it_is(_connection: asyncpg.Connection) -> None:
    """No settings, listeners or locks outlive a unit of work here, so a release costs no round trip."""


def _why(error: BaseException) -> str:
    """One line without the address: a driver's words about it may repeat a password."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    if isinstance(error, ValueError | asyncpg.InterfaceError):
        return "NETACLAW_DATABASE_URL is not an address that the driver understands"
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


async def close_pool(pool: asyncpg.Pool) -> None:
    """Close gracefully; cut connections that are still busy after a second."""
    try:
        async with asyncio.timeout(1.0):
            await pool.close()
    except TimeoutError:
        pool.terminate()
