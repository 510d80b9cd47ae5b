"""A suite that asks for keys, two owners with sessions in it, and every way to call it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import grpc

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from netaclaw.store.v1.identity_service_pb2 import CreateKeyRequest, RevokeKeyRequest
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.topology import ENVOY_SERVICE, SERVICES
from tests.conformance.wire import BINARY, Connection, frame, request

TOKEN = "shown between services"
CONTENT = "in parallel: count the files; list the files"
WAITS_S = 20.0
SILENCE_S = 0.4
"""A stream that says nothing for so long is taken for open."""

WAYS = ("grpc", "grpc-web", "envoy grpc", "envoy grpc-web")


@dataclass(frozen=True)
class Outcome:
    """How a call ended: its status, words and first message. OPEN is a stream that stays silent."""

    status: str
    words: str = ""
    message: bytes = b""
    retry: bool = False


@dataclass
class Owner:
    """An owner with a key, and what belongs to it."""

    name: str
    key: str
    key_id: str
    ids: dict[str, str] = field(default_factory=dict)


@dataclass
class House:
    """The running suite."""

    suite: Suite
    database_url: str
    ann: Owner
    bob: Owner
    expired: str
    revoked: str

    async def call(self, way: str, method: str, message: bytes, credential: str | None) -> Outcome:
        """One call to its first message or its end."""
        metadata = (("authorization", f"Bearer {credential}"),) if credential is not None else ()
        if way.endswith("grpc-web"):
            address = self.suite.envoy_address if way.startswith("envoy") else self.suite.web_address
            return await _web_call(address, method, message, dict(metadata))
        address = self.suite.envoy_address if way.startswith("envoy") else self.suite.address
        return await grpc_call(address, method, message, metadata)

    async def rows_of(self, owner: str) -> Mapping[str, str]:
        """Everything that the database holds of an owner, as one fingerprint a table."""
        connection = await asyncpg.connect(self.database_url)
        try:
            tables = await connection.fetch(
                "SELECT table_name FROM information_schema.columns"
                " WHERE table_schema = 'public' AND column_name = 'owner_id'"
            )
            found = {}
            for (table,) in tables:
                rows = await connection.fetch(f"SELECT t::text FROM {table} t WHERE owner_id = $1 ORDER BY 1", owner)
                found[table] = "\n".join(row[0] for row in rows)
            return found
        finally:
            await connection.close()

    @asynccontextmanager
    async def identity(self) -> AsyncIterator[Any]:
        """The store's keys."""
        async with connect(self.suite.ports("store")["internal"], TOKEN) as channel:
            yield IdentityServiceStub(channel)


async def grpc_call(address: str, method: str, message: bytes, metadata: Sequence[tuple[str, str]]) -> Outcome:
    """The same over gRPC, on a connection of its own."""
    async with grpc.aio.insecure_channel(address) as channel:
        start: Any = channel.unary_stream(method)
        call = start(message, metadata=tuple(metadata), timeout=WAITS_S)
        try:
            first = await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(call.read())), SILENCE_S * 10)
        except TimeoutError:
            call.cancel()
            return Outcome("OPEN")
        except grpc.aio.AioRpcError as error:
            return Outcome(error.code().name, error.details() or "")
        call.cancel()
        return Outcome("OK", message=b"" if first is grpc.aio.EOF else first)


async def _web_call(address: str, method: str, message: bytes, metadata: Mapping[str, str]) -> Outcome:
    connection = await Connection.open(address)
    headers = {"host": address, "content-type": BINARY, "accept": BINARY, "x-grpc-web": "1", **metadata}
    try:
        await connection.send(request(method, [frame(message)], headers))
        answer = await connection.headers()
        try:
            async with asyncio.timeout(SILENCE_S * 10):
                while answer.header("transfer-encoding") == "chunked" and await connection.piece(answer):
                    first = _first_message(bytes(answer.body))
                    if first is not None:
                        return Outcome("OK", message=first)
        except TimeoutError:
            return Outcome("OPEN")
        code = next(code for code in grpc.StatusCode if code.value[0] == answer.code)
        return Outcome(code.name, answer.words)
    finally:
        connection.writer.transport.abort()


def _first_message(body: bytes) -> bytes | None:
    """None while it is not whole, and for a body that begins with its trailer."""
    if len(body) < 5 or body[0] & 0x80 or len(body) < (end := 5 + int.from_bytes(body[1:5], "big")):
        return None
    return body[5:end]


@asynccontextmanager
async def open_house(database_url: str, directory: Path, workspace: Path) -> AsyncIterator[House]:
    """First without the need for keys, to make them; then with it, through the same database."""
    environ = os.environ | {
        "NETACLAW_DATABASE_URL": database_url,
        "NETACLAW_SERVICE_TOKEN": TOKEN,
        "NETACLAW_KEY_CHECK_SECONDS": "0.2",
        "NETACLAW_LOG_LEVEL": "WARNING",
    }
    options = SuiteOptions(directory, {"files": workspace}, environ=environ)
    async with Suite(options) as suite:
        (ann, bob), expired, revoked = await _furnished(suite)
    asking = SuiteOptions(directory, {"files": workspace}, environ=environ | {"NETACLAW_KEYS_REQUIRED": "true"})
    async with Suite(asking, services=(*SERVICES, ENVOY_SERVICE)) as suite:
        yield House(suite, database_url, ann, bob, expired=expired, revoked=revoked)


async def _furnished(suite: Suite) -> tuple[list[Owner], str, str]:
    owners = []
    async with connect(suite.ports("store")["internal"], TOKEN) as channel:
        keys = IdentityServiceStub(channel)
        for name in ("ann", "bob"):
            made = await keys.CreateKey(CreateKeyRequest(owner_id=name, name="test"))
            owners.append(Owner(name, made.secret, made.key_id))
        short = CreateKeyRequest(owner_id="ann")
        short.expire_time.FromSeconds(1)
        expired = (await keys.CreateKey(short)).secret
        gone = await keys.CreateKey(CreateKeyRequest(owner_id="ann"))
        await keys.RevokeKey(RevokeKeyRequest(key_id=gone.key_id))
    for owner in owners:
        owner.ids = await _belongings(suite.address, owner)
    return owners, expired, gone.secret


async def _belongings(address: str, owner: Owner) -> dict[str, str]:
    """A session with a delegated turn, and an agent."""
    credential = (("authorization", f"Bearer {owner.key}"),)
    async with grpc.aio.insecure_channel(address) as channel:
        chat: Any = ChatServiceStub(channel)
        agents: Any = AgentServiceStub(channel)
        done = await chat.ExecuteChat(ExecuteChatRequest(content=CONTENT), metadata=credential, timeout=60)
        wanted = CreateAgentRequest(agent=Agent(name=f"helper-of-{owner.name}", system_prompt="Help."))
        made = await agents.CreateAgent(wanted, metadata=credential)
    return {
        "session_id": done.session_id,
        "turn_id": done.turn_id,
        "entry_id": done.assistant_entry_id,
        "leaf_entry_id": done.assistant_entry_id,
        "batch_entry_id": done.subagent_batches[0].batch_entry_id,
        "task_id": done.subagent_batches[0].items[0].task_id,
        "agent_id": made.agent.agent_id,
    }
