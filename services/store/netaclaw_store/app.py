"""The store's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from netaclaw.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
from netaclaw.session.v1 import session_service_pb2, session_service_pb2_grpc
from netaclaw.store.v1 import (
    identity_service_pb2,
    identity_service_pb2_grpc,
    journal_service_pb2,
    journal_service_pb2_grpc,
)
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.link import check_exposure, load
from netaclaw_chassis.server import GrpcServer, PortInUse, Servicer
from netaclaw_store import embedded
from netaclaw_store.agent_service import AgentService
from netaclaw_store.commands import Commands
from netaclaw_store.database import Database, close_pool, open_pool
from netaclaw_store.delegation_reads import DelegationReads
from netaclaw_store.identity_service import IdentityService
from netaclaw_store.journal_service import JournalService
from netaclaw_store.leases import Leases
from netaclaw_store.notices import Notices
from netaclaw_store.replay import Replay
from netaclaw_store.retention import Retention, RetentionPolicy
from netaclaw_store.session_reads import SessionReads
from netaclaw_store.session_service import SessionService
from netaclaw_store.settings import DEFAULT_WORKSPACE, StoreSettings


@asynccontextmanager
async def open_app(settings: StoreSettings) -> AsyncIterator[Ports]:
    """The running store; yields its ports. Raises StartError, and SettingsError for TLS that cannot be spoken.

    Stops in this order: both servers, retention, notices, the pool, the embedded Postgres.
    """
    token, link = settings.service_token, load(settings.link)
    check_exposure(settings.host, token, link, "NETACLAW_STORE_HOST")
    async with AsyncExitStack() as stack:
        url = settings.database_url
        if not url:
            server = await embedded.start(settings.data_dir, fsync=settings.embedded_fsync)
            stack.push_async_callback(server.stop)
            keeper = asyncio.create_task(server.keep_running())
            stack.push_async_callback(_end, keeper)
            url = server.url
        pool = await open_pool(url)
        stack.push_async_callback(close_pool, pool)
        database = Database(url, pool)
        notices = await stack.enter_async_context(Notices(database, settings.notice_poll_seconds))
        await stack.enter_async_context(Retention(database, _retention(settings)))
        inner, outer = _internal(settings, database, notices), _public(settings, database)
        internal = GrpcServer(settings.host, settings.internal_port, inner, service_token=token, link=link)
        public = GrpcServer(settings.host, settings.port, outer, service_token=token, link=link)
        for each in (internal, public):
            try:
                await each.start()
            except PortInUse as error:
                raise StartError(str(error)) from error
            stack.push_async_callback(each.stop)
        yield {"public": public.address, "internal": internal.address}


def _retention(settings: StoreSettings) -> RetentionPolicy:
    return RetentionPolicy(
        max_age_seconds=settings.event_retention_days * 86_400,
        max_events=settings.event_retention_count,
        interval_seconds=settings.event_retention_interval_seconds,
    )


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _public(settings: StoreSettings, database: Database) -> list[Servicer]:
    sessions = SessionService(SessionReads(database), DelegationReads(database), settings.workspaces)
    return [
        Servicer(
            session_service_pb2.DESCRIPTOR.services_by_name["SessionService"].full_name,
            session_service_pb2_grpc.add_SessionServiceServicer_to_server,
            sessions,
        ),
        Servicer(
            agent_service_pb2.DESCRIPTOR.services_by_name["AgentService"].full_name,
            agent_service_pb2_grpc.add_AgentServiceServicer_to_server,
            AgentService(database),
        ),
    ]


def _internal(settings: StoreSettings, database: Database, notices: Notices) -> list[Servicer]:
    journal = JournalService(
        database,
        Leases(database, settings.lease_seconds),
        Commands(database, frozenset({DEFAULT_WORKSPACE, *settings.workspaces})),
        Replay(database),
        notices,
    )
    return [
        Servicer(
            journal_service_pb2.DESCRIPTOR.services_by_name["JournalService"].full_name,
            journal_service_pb2_grpc.add_JournalServiceServicer_to_server,
            journal,
        ),
        Servicer(
            identity_service_pb2.DESCRIPTOR.services_by_name["IdentityService"].full_name,
            identity_service_pb2_grpc.add_IdentityServiceServicer_to_server,
            IdentityService(database),
        ),
    ]
