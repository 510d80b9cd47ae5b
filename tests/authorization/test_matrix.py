"""Every public method, every kind of caller, every way in: nobody reads, changes or learns of what is another's."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from netaclaw.chat.v1.chat_service_pb2 import WatchRequest, WatchTarget
from netaclaw.store.v1.identity_service_pb2 import CreateKeyRequest, RevokeKeyRequest
from netaclaw_chassis.ids import new_id
from tests.authorization.house import TOKEN, WAYS, House, Outcome, grpc_call, open_house
from tests.fakes.postgres import PostgresServer

SERVICES = {
    "netaclaw.agent.v1.agent_service_pb2": "AgentService",
    "netaclaw.chat.v1.chat_service_pb2": "ChatService",
    "netaclaw.model.v1.model_service_pb2": "ModelService",
    "netaclaw.session.v1.session_command_service_pb2": "SessionCommandService",
    "netaclaw.session.v1.session_service_pb2": "SessionService",
    "netaclaw.tool.v1.tool_service_pb2": "ToolService",
}
INTERNAL = (
    "/netaclaw.store.v1.JournalService/ReadPath",
    "/netaclaw.store.v1.IdentityService/ListKeys",
    "/netaclaw.subagent.v1.RunnerService/GetStatus",
)
LAST = ("DeleteAgent", "DeleteBranch", "DeleteSession", "DeleteAllSessions")
"""What the owner does at the end, since nothing is left to ask for afterwards."""
NOT_ADDRESSED = frozenset(
    {"Ping", "CreateAgent", "ListAgents", "ListAgentOptions", "ListSessions", "ListWorkspaces", "ListTools"}
    | {"ListModels", "DeleteAllSessions"}
)
"""Methods that name nothing that could be another's."""


def methods() -> Iterator[MethodDescriptor]:
    for module, name in SERVICES.items():
        yield from importlib.import_module(module).DESCRIPTOR.services_by_name[name].methods


def path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


METHODS = sorted(methods(), key=lambda method: LAST.index(method.name) if method.name in LAST else -1)


def asked(method: MethodDescriptor, ids: dict[str, str]) -> bytes:
    """A request of the method about things with these ids, right in all else."""
    message: Any = GetMessageClass(method.input_type)()  # of any method
    _fill(message, ids)
    if method.name == "UpdateSession":
        message.session.title = "changed"
        message.update_mask.paths.append("title")
    if method.name == "UpdateAgent":
        message.agent.description, message.etag = "changed", "1"
        message.update_mask.paths.append("description")
    if method.name == "CreateAgent":
        message.agent.Clear()
        message.agent.name, message.agent.system_prompt = f"n{new_id()}"[:30], "Help."
        message.agent_id = new_id()
    if method.name == "Watch":
        message = WatchRequest(targets=[WatchTarget(session_id=ids["session_id"])])
    if method.name in ("Chat", "ExecuteChat"):
        message.ClearField("leaf_entry_id")
        message.request_id = ""
    return bytes(message.SerializeToString())


def _fill(message: Any, ids: dict[str, str]) -> None:
    words = {"content": "hello", "nonce": "n", "request_id": "r-1", "answer": "yes", "content_id": new_id(), **ids}
    for each in message.DESCRIPTOR.fields:
        if each.name in words:
            setattr(message, each.name, words[each.name])
        elif each.name in ("session", "agent"):
            _fill(getattr(message, each.name), ids)
        elif each.type == FieldDescriptor.TYPE_BOOL and each.name == "published":
            message.published = True
        elif each.type == FieldDescriptor.TYPE_ENUM and each.name == "level":
            message.level = 1


def nobodys() -> dict[str, str]:
    """Ids of nothing."""
    names = ("session_id", "turn_id", "entry_id", "leaf_entry_id", "task_id", "batch_entry_id", "agent_id")
    return {name: new_id() for name in names}


def without_ids(outcome: Outcome) -> tuple[str, str]:
    """Status and words, with every id the same."""
    return outcome.status, re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<id>", outcome.words)


@pytest.fixture
async def house(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[House]:
    workspace = tmp_path / "files"
    workspace.mkdir()
    (workspace / "one.txt").write_text("one\n")
    with postgres_server.database() as url:
        async with open_house(url, tmp_path / "data", workspace) as opened:
            yield opened


async def test_the_matrix(house: House) -> None:
    before = await house.rows_of("ann")
    for way in WAYS:
        for method in METHODS:
            await refuses_strangers(house, way, method)
            await tells_others_nothing(house, way, method)
    for internal in INTERNAL:
        for way in WAYS:
            assert (await house.call(way, internal, b"", house.ann.key)).status == "UNIMPLEMENTED", (way, internal)
    assert await house.rows_of("ann") == before
    await believes_services_alone(house)
    assert await house.rows_of("ann") == before
    for way in WAYS:
        for method in METHODS:
            if method.name not in LAST:
                await serves_the_owner(house, way, method)
    for method in METHODS:
        if method.name in LAST:
            await serves_the_owner(house, WAYS[0], method)


async def refuses_strangers(house: House, way: str, method: MethodDescriptor) -> None:
    for credential in (None, "", "nonsense", "ncl_" + "x" * 43, house.expired, house.revoked):
        outcome = await house.call(way, path(method), asked(method, house.ann.ids), credential)
        assert outcome.status == "UNAUTHENTICATED", (way, method.name, credential, outcome)
        assert not outcome.message


async def tells_others_nothing(house: House, way: str, method: MethodDescriptor) -> None:
    """Another owner hears about ann's things what it hears about nothing."""
    other = await house.call(way, path(method), asked(method, house.ann.ids), house.bob.key)
    assert not any(value.encode() in other.message for value in house.ann.ids.values()), (way, method.name)
    if method.name in NOT_ADDRESSED:
        return
    if method.name == "CreateSession":  # clients choose these ids: one that is taken can only be refused
        assert other.status == "NOT_FOUND"
        return
    nothing = await house.call(way, path(method), asked(method, nobodys()), house.bob.key)
    assert without_ids(other) == without_ids(nothing), (way, method.name)
    assert other.status == "NOT_FOUND" or (method.name in FORGIVING and other.status == "OK"), (way, method.name, other)


FORGIVING = frozenset({"CancelTurn", "DeleteSession", "DeleteAgent"})
"""Idempotent: what is not there is as good as done, and the answer is the same."""


async def serves_the_owner(house: House, way: str, method: MethodDescriptor) -> None:
    outcome = await house.call(way, path(method), asked(method, house.ann.ids), house.ann.key)
    own = {
        "CancelSubagent": "NOT_FOUND",  # the task has ended
        "SteerSubagent": "NOT_FOUND",
        "RetractMessage": "NOT_FOUND",
        "ReadContent": "NOT_FOUND",
        "RespondClarify": "NOT_FOUND",  # nothing was asked
    }
    if method.name == "UpdateAgent" and way != WAYS[0]:
        own["UpdateAgent"] = "ABORTED"  # it was changed since
    fitting = {own.get(method.name, "OK")} | ({"FAILED_PRECONDITION"} if method.name in BUSY else set())
    assert outcome.status in fitting, (way, method.name, outcome)


BUSY = frozenset({"Chat", "ExecuteChat", "SwitchLeaf", "ForkSession", "DeleteBranch", "Compact"})
"""May come while the turn of the call before is still running, or find nothing more to compact."""


async def believes_services_alone(house: House) -> None:
    """Identity in metadata counts with the suite's own token, and not without it."""
    for method in METHODS:
        if method.name in LAST or method.name in ("UpdateSession", "UpdateAgent", "SetThinkingLevel"):
            continue
        service = "store" if method.containing_service.name in ("SessionService", "AgentService") else "orchestrator"
        address = house.suite.ports(service)["public"]
        forged = (("netaclaw-owner-id", "ann"),)
        for metadata in (forged, (*forged, ("netaclaw-service-token", "wrong"))):
            outcome = await grpc_call(address, path(method), asked(method, house.ann.ids), metadata)
            assert outcome.status == "UNAUTHENTICATED", (method.name, outcome)
    token = (("netaclaw-service-token", TOKEN),)
    listing = "/netaclaw.session.v1.SessionService/ListSessions"
    store = house.suite.ports("store")["public"]
    nobody = await grpc_call(store, listing, b"", token)
    assert nobody.status == "UNAUTHENTICATED"
    served = await grpc_call(store, listing, b"", (*token, ("netaclaw-owner-id", "ann")))
    assert house.ann.ids["session_id"].encode() in served.message


async def to_its_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_revoked_key_ends_its_streams_and_no_others(house: House) -> None:
    for address in (house.suite.address, house.suite.envoy_address):
        async with house.identity() as keys, grpc.aio.insecure_channel(address) as channel:
            made = await keys.CreateKey(CreateKeyRequest(owner_id="ann"))
            watch = WatchRequest(targets=[WatchTarget(session_id=house.ann.ids["session_id"])]).SerializeToString()
            start: Any = channel.unary_stream("/netaclaw.chat.v1.ChatService/Watch")
            ending, staying = (
                start(watch, metadata=(("authorization", f"Bearer {key}"),)) for key in (made.secret, house.ann.key)
            )
            await asyncio.gather(ending.read(), staying.read())
            await keys.RevokeKey(RevokeKeyRequest(key_id=made.key_id))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asyncio.wait_for(to_its_end(ending), 10)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert not staying.done()
            staying.cancel()
