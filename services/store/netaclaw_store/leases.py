"""Who owns a session: heartbeats, leases, generations, and what is left by owners that died."""

from __future__ import annotations

import asyncpg

from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_store.codec import Row, agent_from, session_from, timestamp
from netaclaw_store.compactions import EndedSession, end_orphaned
from netaclaw_store.database import Database
from netaclaw_store.delegations import shorten_task
from netaclaw_store.pages import MAX_RESPONSE_BYTES
from netaclaw_store.queries import SQL

MAX_CLAIMS = 100
MAX_QUEUED_BYTES = 1024 * 1024
"""Contents of waiting messages that are handed over with a claimed turn."""
_DEFAULT_CLAIMS = 10


def session_not_found(session_id: str) -> NetaclawError:
    return NetaclawError(Reason.REASON_SESSION_NOT_FOUND, "no such session", metadata={"session_id": session_id})


async def owned_session(connection: asyncpg.Connection, owner_id: str, session_id: str) -> Row:
    """The session's row. Raises SESSION_NOT_FOUND, for another owner's session as well."""
    row: Row | None = await connection.fetchrow(SQL["read_session"], session_id, owner_id)
    if row is None:
        raise session_not_found(session_id)
    return row


def owned_elsewhere(session: Row) -> NetaclawError:
    """Another live instance holds the session of a row of `lock_session`."""
    return NetaclawError(
        Reason.REASON_OWNED_ELSEWHERE,
        "another instance owns the session",
        metadata={"instance_id": session["holder_id"], "address": session["holder_address"]},
    )


def not_alive() -> NetaclawError:
    """The caller's own lease has run out; nothing was written, and its next heartbeat makes the same work."""
    words = "the instance has no lease: it is to send a heartbeat first"
    return NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, words, retry_after=1.0)


def stale_generation(generation: int) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_STALE_GENERATION,
        "another owner has taken the session",
        metadata={"generation": str(generation)},
    )


def turn_running(session: Row) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_TURN_RUNNING,
        "a turn is running in the session",
        metadata={"turn_id": session["running_turn_id"]},
    )


class Leases:
    """Heartbeats and leases, by the database's clock."""

    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    async def heartbeat(self, request: j.HeartbeatRequest) -> j.HeartbeatResponse:
        """Renew or register. A newer incarnation ends the leases of the older at once; the older one is refused."""
        seconds = 0.0 if request.leaving else self._lease_seconds

        async def work(connection: asyncpg.Connection) -> None:
            names = (request.instance_id, request.incarnation_id)
            row = await connection.fetchrow(SQL["renew_instance"], *names, request.address, seconds)
            if row is None:
                raise NetaclawError(Reason.REASON_STALE_GENERATION, "a newer process of this instance is running")
            if request.leaving:
                await connection.execute(SQL["free_leases"], request.instance_id, "")
            elif row["is_new"]:
                await connection.execute(SQL["free_leases"], *names)
                await connection.execute(SQL["forget_dead_instances"])

        await self._database.transact(work)
        return j.HeartbeatResponse(lease_ms=int(seconds * 1000))

    async def acquire(self, request: j.AcquireSessionRequest) -> j.AcquireSessionResponse:
        """Take the lease of a session in which no turn runs."""

        async def work(connection: asyncpg.Connection) -> j.AcquireSessionResponse:
            session = await connection.fetchrow(SQL["lock_session"], request.session_id, request.owner_id)
            if session is None:
                raise session_not_found(request.session_id)
            if session["holder_id"] not in ("", request.instance_id):
                raise owned_elsewhere(session)
            if session["running_turn_id"]:
                raise turn_running(session)
            generation = await connection.fetchval(SQL["take_lease"], request.session_id, request.instance_id)
            if generation is None:
                raise not_alive()
            return j.AcquireSessionResponse(generation=generation, session=session_from(session))

        return await self._database.transact(work)

    async def release(self, request: j.ReleaseSessionRequest) -> j.ReleaseSessionResponse:
        """Give a lease back, unless it is lost already. A turn that still runs is claimed by whoever looks next."""
        names = (request.session_id, request.instance_id, request.generation)
        await self._database.write(lambda connection: connection.execute(SQL["release_lease"], *names))
        return j.ReleaseSessionResponse()

    async def claim_due(self, request: j.ClaimDueRequest) -> tuple[j.ClaimDueResponse, list[EndedSession]]:
        """Take running turns whose owner is gone; no two claimers get the same one.

        Compactions of such owners are ended first; their sessions are answered, too.
        """
        limit = min(request.limit or _DEFAULT_CLAIMS, MAX_CLAIMS)

        async def work(connection: asyncpg.Connection) -> tuple[j.ClaimDueResponse, list[EndedSession]]:
            ended = await end_orphaned(connection, MAX_CLAIMS)
            response = j.ClaimDueResponse()
            orphans = await connection.fetch(SQL["orphaned_turns"], limit)
            if request.HasField("held"):
                unheard = (request.instance_id, list(request.held.turn_ids), limit)
                orphans += await connection.fetch(SQL["unheard_turns"], *unheard)
            for orphan in {row["session_id"]: row for row in orphans}.values():
                claimed = await self._claim(connection, request.instance_id, orphan)
                response.turns.append(claimed)
                if response.ByteSize() > MAX_RESPONSE_BYTES:  # the others are for the next claim
                    break
            for row in await connection.fetch(SQL["orphaned_queues"], limit, request.instance_id):
                response.waiting.add(owner_id=row["owner_id"], session_id=row["session_id"])
            return response, ended

        return await self._database.transact(work)

    async def _claim(self, connection: asyncpg.Connection, instance_id: str, orphan: Row) -> j.ClaimedTurn:
        session_id, owner_id = orphan["session_id"], orphan["owner_id"]
        generation = await connection.fetchval(SQL["take_lease"], session_id, instance_id)
        if generation is None:
            raise not_alive()
        session = await connection.fetchrow(SQL["lock_session"], session_id, owner_id)
        turn_id = session["running_turn_id"]
        turn = await connection.fetchrow(SQL["count_takeover"], session_id, turn_id)
        claimed = j.ClaimedTurn(
            owner_id=owner_id,
            session=session_from(session),
            turn_id=turn_id,
            generation=generation,
            takeovers=turn["takeovers"],
        )
        agent = await connection.fetchrow(SQL["find_agent"], owner_id, turn["agent_id"], "assistant")
        if agent is None:  # deleted since: the default one goes on, made where it is missing, as when a turn begins
            await connection.execute(SQL["default_agent"], owner_id, new_id())
            agent = await connection.fetchrow(SQL["find_agent"], owner_id, "", "assistant")
        claimed.agent.CopyFrom(agent_from(agent))
        claimed.presets.extend(agent_from(row) for row in await connection.fetch(SQL["presets"], owner_id))
        for row in await connection.fetch(SQL["waiting_messages"], session_id, MAX_QUEUED_BYTES):
            if row["content"] is None:  # what cannot enter the turn from here begins one of its own, from the rows
                claimed.queued.add(request_id=row["request_id"], when_busy=WHEN_BUSY_ENQUEUE)
                continue
            claimed.queued.add(
                request_id=row["request_id"], when_busy=row["when_busy"], content=bytes(row["content"]).decode()
            )
        return claimed

    async def owner(self, request: j.GetOwnerRequest) -> j.GetOwnerResponse:
        """Who holds the session's lease, and which tasks of the running turn are open, or which instances there are."""

        async def work(connection: asyncpg.Connection) -> j.GetOwnerResponse:
            row = await connection.fetchrow(SQL["owner_of_session"], request.session_id, request.owner_id)
            if row is None:
                raise session_not_found(request.session_id)
            response = j.GetOwnerResponse(
                instance_id=row["holder_id"], address=row["holder_address"], session=session_from(row)
            )
            if row["holder_expire_time"] is not None:
                response.expire_time.CopyFrom(timestamp(row["holder_expire_time"]))
            if row["running_turn_id"]:
                names = (request.session_id, request.owner_id, row["running_turn_id"])
                tasks = await connection.fetch(SQL["open_tasks"], *names)
                for task in tasks:
                    shown = response.open_tasks.add()
                    shown.MergeFromString(task["task"])
                    shorten_task(shown, len(tasks))
            elif request.instance_id:
                others = await connection.fetch(SQL["other_instances"], request.instance_id)
                response.other_addresses.extend(other["address"] for other in others)
            return response

        return await self._database.snapshot(work)
