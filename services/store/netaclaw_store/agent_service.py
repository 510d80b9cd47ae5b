"""AgentService: agents of the caller."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc

from netaclaw.agent.v1 import agent_service_pb2 as p
from netaclaw.agent.v1.agent_pb2 import Agent, AgentOption
from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceServicer
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.calls import owner_id
from netaclaw_chassis.errors import InvalidRequest, NetaclawError, Violations
from netaclaw_chassis.ids import new_id
from netaclaw_store.agent_rules import apply_mask, check_agent
from netaclaw_store.checks import check_id, check_optional_id
from netaclaw_store.codec import agent_body, agent_from
from netaclaw_store.database import Database
from netaclaw_store.pages import fitting, page_size, read_token, write_token
from netaclaw_store.queries import SQL
from netaclaw_store.session_reads import moment_in

Context = grpc.aio.ServicerContext[Any, Any]


class AgentService(AgentServiceServicer):
    """AgentService on the public port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def CreateAgent(self, request: p.CreateAgentRequest, context: Context) -> p.CreateAgentResponse:
        owner = owner_id()
        _check("agent_id", request.agent_id, required=False)
        check_agent(request.agent)
        agent_id = request.agent_id or new_id()
        body = agent_body(request.agent)

        async def work(connection: asyncpg.Connection) -> Agent:
            row = await connection.fetchrow(SQL["insert_agent"], owner, agent_id, request.agent.name, body)
            if row is None:
                row = await connection.fetchrow(SQL["find_agent"], owner, agent_id, "")
                if row is None or row["name"] != request.agent.name or bytes(row["body"]) != body:
                    raise _taken(request.agent.name if row is None else agent_id)
            return agent_from(row)

        return p.CreateAgentResponse(agent=await self._database.transact(work))

    async def GetAgent(self, request: p.GetAgentRequest, context: Context) -> p.GetAgentResponse:
        owner = owner_id()
        _check("agent_id", request.agent_id)
        row = await self._database.read(
            lambda connection: connection.fetchrow(SQL["find_agent"], owner, request.agent_id, "")
        )
        if row is None:
            raise _not_found(request.agent_id)
        return p.GetAgentResponse(agent=agent_from(row))

    async def ListAgents(self, request: p.ListAgentsRequest, context: Context) -> p.ListAgentsResponse:
        owner = owner_id()
        size = page_size(request.page_size, 50, 200)
        cursor = read_token(request.page_token, ("agents", owner), (str, str))
        before = moment_in(cursor[0]) if cursor else None
        rows = await self._database.read(
            lambda connection: connection.fetch(
                SQL["list_agents"], owner, before, cursor[1] if cursor else "", size + 1
            )
        )
        agents = fitting(agent_from(row) for row in rows[:size])
        response = p.ListAgentsResponse(agents=agents)
        if len(agents) < len(rows):
            last = rows[len(agents) - 1]
            response.next_page_token = write_token(("agents", owner), last["create_time"].isoformat(), last["agent_id"])
        return response

    async def UpdateAgent(self, request: p.UpdateAgentRequest, context: Context) -> p.UpdateAgentResponse:
        owner = owner_id()
        agent_id = request.agent.agent_id
        _check("agent.agent_id", agent_id)
        if not request.etag:
            raise InvalidRequest([("etag", "is missing")])

        async def work(connection: asyncpg.Connection) -> Agent:
            row = await connection.fetchrow(SQL["lock_agent"], owner, agent_id)
            if row is None:
                raise _not_found(agent_id)
            if request.etag != str(row["etag_no"]):
                raise NetaclawError(
                    Reason.REASON_STALE_ETAG,
                    "the agent has changed since it was read",
                    metadata={"etag": str(row["etag_no"])},
                )
            merged = apply_mask(agent_from(row), request.agent, list(request.update_mask.paths))
            check_agent(merged)
            if merged.name != row["name"] and await connection.fetchval(SQL["find_agent"], owner, "", merged.name):
                raise _taken(merged.name)
            return agent_from(
                await connection.fetchrow(SQL["update_agent"], owner, agent_id, merged.name, agent_body(merged))
            )

        return p.UpdateAgentResponse(agent=await self._database.transact(work))

    async def PublishAgent(self, request: p.PublishAgentRequest, context: Context) -> p.PublishAgentResponse:
        owner = owner_id()
        _check("agent_id", request.agent_id)
        row = await self._database.transact(
            lambda connection: connection.fetchrow(SQL["publish_agent"], owner, request.agent_id, request.published)
        )
        if row is None:
            raise _not_found(request.agent_id)
        return p.PublishAgentResponse(agent=agent_from(row))

    async def DeleteAgent(self, request: p.DeleteAgentRequest, context: Context) -> p.DeleteAgentResponse:
        owner = owner_id()
        _check("agent_id", request.agent_id)
        await self._database.transact(
            lambda connection: connection.execute(SQL["delete_agent"], owner, request.agent_id)
        )
        return p.DeleteAgentResponse()

    async def ListAgentOptions(
        self, request: p.ListAgentOptionsRequest, context: Context
    ) -> p.ListAgentOptionsResponse:
        owner = owner_id()
        size = page_size(request.page_size, 100, 500)
        cursor = read_token(request.page_token, ("options", owner), (str,))
        rows = await self._database.read(
            lambda connection: connection.fetch(SQL["list_agent_options"], owner, cursor[0] if cursor else "", size + 1)
        )
        agents = [agent_from(row) for row in rows[:size]]
        options = fitting(AgentOption(agent_id=a.agent_id, name=a.name, description=a.description) for a in agents)
        response = p.ListAgentOptionsResponse(options=options)
        if len(options) < len(rows):
            response.next_page_token = write_token(("options", owner), options[-1].name)
        return response


def _check(field: str, agent_id: str, *, required: bool = True) -> None:
    found = Violations()
    (check_id if required else check_optional_id)(found, field, agent_id)
    found.raise_if_any()


def _not_found(agent_id: str) -> NetaclawError:
    return NetaclawError(Reason.REASON_AGENT_NOT_FOUND, "no such agent", metadata={"agent_id": agent_id})


def _taken(what: str) -> NetaclawError:
    return NetaclawError(
        Reason.REASON_ALREADY_EXISTS, "an agent of that id or name exists with other content", metadata={"id": what}
    )
