"""Composition root of the orchestrator: the only place where its parts are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.chat.v1.chat_service_pb2_grpc import add_ChatServiceServicer_to_server
from netaclaw.session.v1.session_command_service_pb2_grpc import add_SessionCommandServiceServicer_to_server
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw.tool.v1.tool_service_pb2_grpc import add_ToolServiceServicer_to_server
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.policy import SubagentSettings
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.server import GrpcServer, PortInUse, Servicer
from netaclaw_orchestrator.chat import ChatTurns
from netaclaw_orchestrator.commands import SessionCommandServicer
from netaclaw_orchestrator.instance import Instance
from netaclaw_orchestrator.service import ChatServicer
from netaclaw_orchestrator.sessions import Services, Sessions
from netaclaw_orchestrator.settings import Settings
from netaclaw_orchestrator.tools import ToolServicer
from netaclaw_orchestrator.watch import Watcher

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

PUBLIC = "public"


@asynccontextmanager
async def open_app(settings: Settings, models: ModelCatalogue) -> AsyncIterator[Ports]:
    """Start the orchestrator; yields its port. Stops in order: no new calls, turns cancelled, leases given back.

    Raises StartError when the store cannot be used or the port is taken. Closes `models` at the end.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.close)
        internal = await stack.enter_async_context(connect(settings.store_internal_address))
        public = await stack.enter_async_context(connect(settings.store_address))
        runner = await stack.enter_async_context(connect(settings.runner_address))
        journal = JournalServiceStub(internal)
        delegation = SubagentSettings(
            enabled=settings.subagents_enabled,
            max_concurrent=settings.subagent_max_concurrent,
            timeout_seconds=settings.subagent_timeout_s,
            max_tool_rounds=settings.subagent_max_tool_rounds,
        )
        instance_id = settings.instance_id or new_id()
        sessions = Sessions(
            Services(
                instance_id=instance_id,
                journal=journal,
                runner=RunnerServiceStub(runner),
                models=models,
                settings=delegation,
                idle_s=settings.idle_session_s,
            )
        )
        instance = Instance(journal, instance_id, sessions.close)
        servicers = _servicers(
            instance_id=instance_id,
            sessions=sessions,
            watcher=Watcher(journal, sessions, heartbeat_s=settings.heartbeat_s),
            journal=journal,
            public=public,
            delegation=delegation,
        )
        server = GrpcServer(settings.host, settings.port, servicers)
        try:
            await server.start()
        except PortInUse as error:
            raise StartError(str(error)) from error
        stack.push_async_callback(server.stop, 0.5)
        instance.address = server.address
        await instance.start(settings.start_timeout_s)
        stack.push_async_callback(instance.close)
        stack.push_async_callback(sessions.close)
        yield {PUBLIC: server.address}


def _servicers(
    *,
    instance_id: str,
    sessions: Sessions,
    watcher: Watcher,
    journal: JournalServiceAsyncStub,
    public: grpc.aio.Channel,
    delegation: SubagentSettings,
) -> list[Servicer]:
    turns = ChatTurns(instance_id, journal, sessions, watcher)
    commands = SessionCommandServicer(instance_id, journal, SessionServiceStub(public), sessions)
    return [
        Servicer(
            "netaclaw.chat.v1.ChatService",
            add_ChatServiceServicer_to_server,
            ChatServicer(turns, sessions, watcher, commands),
        ),
        Servicer("netaclaw.session.v1.SessionCommandService", add_SessionCommandServiceServicer_to_server, commands),
        Servicer(
            "netaclaw.tool.v1.ToolService",
            add_ToolServiceServicer_to_server,
            ToolServicer(AgentServiceStub(public), delegation),
        ),
    ]
