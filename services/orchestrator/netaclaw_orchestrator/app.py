"""Composition root of the orchestrator: the only place where its parts are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.chat.v1.chat_service_pb2_grpc import add_ChatServiceServicer_to_server
from netaclaw.model.v1.model_service_pb2_grpc import add_ModelServiceServicer_to_server
from netaclaw.session.v1.session_command_service_pb2_grpc import add_SessionCommandServiceServicer_to_server
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw.store.v1.journal_service_pb2 import Notice
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceStub
from netaclaw.tool.v1.tool_service_pb2_grpc import add_ToolServiceServicer_to_server
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_chassis.channel import connect
from netaclaw_chassis.ids import new_id
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.link import check_exposure, load
from netaclaw_chassis.server import GrpcServer, PortInUse, Servicer
from netaclaw_orchestrator.admission import Admission, Limits
from netaclaw_orchestrator.branch_summary import BranchSummaries
from netaclaw_orchestrator.cancelling import TurnCancels
from netaclaw_orchestrator.chat import ChatTurns
from netaclaw_orchestrator.checkpoints import Checkpoints
from netaclaw_orchestrator.commands import SessionCommandServicer
from netaclaw_orchestrator.compact_command import Compactions
from netaclaw_orchestrator.delegation.reading import DelegationReader
from netaclaw_orchestrator.fetching import Fetcher, NoticeReader
from netaclaw_orchestrator.instance import Instance
from netaclaw_orchestrator.large_content import Contents
from netaclaw_orchestrator.live_session import Services
from netaclaw_orchestrator.models import ModelServicer
from netaclaw_orchestrator.owners import Owners
from netaclaw_orchestrator.prelude import Preludes
from netaclaw_orchestrator.questions import Patience
from netaclaw_orchestrator.recovery import Recovery
from netaclaw_orchestrator.service import ChatServicer
from netaclaw_orchestrator.session_list import SessionList
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.settings import Settings
from netaclaw_orchestrator.side_work import SideWork
from netaclaw_orchestrator.standing_approvals import QuestionReader
from netaclaw_orchestrator.tools import ToolServicer
from netaclaw_orchestrator.tree_reader import TreeReader
from netaclaw_orchestrator.watch import Watcher

PUBLIC = "public"
CLAIMS_PER_LEASE = 5
"""Turns of dead instances are looked for so often; a turn goes on soon after its lease has run out."""


@asynccontextmanager
async def open_app(settings: Settings, models: ModelCatalogue) -> AsyncIterator[Ports]:
    """Start the orchestrator; yields its port. Stops in order: no new calls, turns cancelled, leases given back.

    Raises StartError when the store cannot be used or the port is taken. Closes `models` at the end.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.close)
        token, link = settings.service_token, load(settings.link)
        check_exposure(settings.host, token, link, "NETACLAW_ORCHESTRATOR_HOST")
        internal = await stack.enter_async_context(connect(settings.store_internal_address, token, link))
        public = await stack.enter_async_context(connect(settings.store_address, token, link))
        runner = await stack.enter_async_context(connect(settings.runner_address, token, link))
        journal, reads = JournalServiceStub(internal), SessionServiceStub(public)
        delegation = _delegation(settings)
        delegations = DelegationReader(reads)
        instance_id = settings.instance_id or new_id()
        fetcher = Fetcher(journal)
        stack.push_async_callback(fetcher.close)
        contents, questions = Contents(reads), QuestionReader(journal)
        services = Services(
            instance_id=instance_id,
            journal=journal,
            runner=RunnerServiceStub(runner),
            models=models,
            preludes=Preludes(delegation),
            delegations=delegations,
            contents=contents,
            questions=questions,
            patience=Patience(settings.clarify_timeout_s, settings.approval_timeout_s),
            idle_s=settings.idle_session_s,
            compaction_threshold=settings.compaction_threshold,
        )
        sessions = Sessions(services, fetcher)
        owners = Owners(instance_id, journal, sessions, lambda address: connect(address, token, link))
        stack.push_async_callback(owners.close)
        session_list = SessionList(reads)
        watcher = Watcher(journal, sessions, owners, session_list, heartbeat_s=settings.heartbeat_s)
        agents = AgentServiceStub(public)
        summaries = BranchSummaries(journal, agents, models, sessions, contents)
        side_work = SideWork()
        commands = SessionCommandServicer(
            instance_id, journal, reads, sessions=sessions, owners=owners, summaries=summaries, side_work=side_work
        )
        compactions = Compactions(
            journal, reads, models, sessions=sessions, commands=commands, summaries=summaries, side_work=side_work
        )
        turns = ChatTurns(instance_id, sessions, watcher, contents)
        limits = Limits(settings.streams_per_owner, settings.turns_per_owner, settings.key_check_s)
        admission = await stack.enter_async_context(Admission(IdentityServiceStub(internal), sessions, limits))
        chat = ChatServicer(
            turns,
            sessions,
            watcher,
            owners,
            commands=commands,
            compactions=compactions,
            delegations=delegations,
            questions=questions,
            admission=admission,
            cancels=TurnCancels(sessions, owners, side_work),
        )
        tools = ToolServicer(agents, models, delegation)
        servicers = _servicers(chat, commands, tools, ModelServicer(models))
        server = GrpcServer(settings.host, settings.port, servicers, service_token=token, link=link)
        await _listen(server)
        stack.push_async_callback(server.stop, 0.5)
        instance = Instance(journal, instance_id, lambda: sessions.release(lost=True))
        instance.address = settings.advertised_address or server.address
        await instance.start(settings.start_timeout_s)
        stack.push_async_callback(instance.close)
        stack.push_async_callback(sessions.close)
        stack.push_async_callback(side_work.close)

        def noticed(notice: Notice) -> None:
            sessions.noticed(notice)
            watcher.noticed(notice)
            session_list.noticed(notice)

        interval_s = instance.lease_s / CLAIMS_PER_LEASE
        recovery = Recovery(instance_id, journal, sessions, TreeReader(journal, delegations), interval_s=interval_s)
        for task in (
            NoticeReader(journal, instance_id, noticed),
            Checkpoints(journal, sessions.owned),
            recovery,
        ):
            task.start()
            stack.push_async_callback(task.close)
        yield {PUBLIC: server.address}


async def _listen(server: GrpcServer) -> None:
    try:
        await server.start()
    except PortInUse as error:
        raise StartError(str(error)) from error


def _delegation(settings: Settings) -> SubagentSettings:
    return SubagentSettings(
        enabled=settings.subagents_enabled,
        max_concurrent=settings.subagent_max_concurrent,
        max_per_turn=settings.subagent_max_per_turn,
        timeout_seconds=settings.subagent_timeout_s,
        max_tool_rounds=settings.subagent_max_tool_rounds,
        stall_seconds=settings.subagent_stall_s,
        max_tool_calls=settings.subagent_max_tool_calls,
        max_tokens=settings.subagent_max_tokens,
        batch_timeout_seconds=settings.subagent_batch_timeout_s,
        batch_max_tokens=settings.subagent_batch_max_tokens,
    )


def _servicers(
    chat: ChatServicer, commands: SessionCommandServicer, tools: ToolServicer, models: ModelServicer
) -> list[Servicer]:
    return [
        Servicer("netaclaw.chat.v1.ChatService", add_ChatServiceServicer_to_server, chat),
        Servicer("netaclaw.session.v1.SessionCommandService", add_SessionCommandServiceServicer_to_server, commands),
        Servicer("netaclaw.tool.v1.ToolService", add_ToolServiceServicer_to_server, tools),
        Servicer("netaclaw.model.v1.ModelService", add_ModelServiceServicer_to_server, models),
    ]
