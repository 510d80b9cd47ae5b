"""Bad input gets a clear error through the gateway, and nothing that was stored is lost by it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterable, Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    CancelSubagentRequest,
    ChatRequest,
    ExecuteChatRequest,
    PingRequest,
    WatchRequest,
    WatchTarget,
)
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import ToolCallState
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest, SwitchLeafRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest, ListSubagentEntriesRequest
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_client.client import Client
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.suites import OpenSuite, run_python

NOBODY = "01890000-0000-7000-8000-000000000000"

Ask = Callable[[Client, str], Awaitable[object]]


async def read(call: AsyncIterable[object]) -> None:
    async for _ in call:
        pass


NOT_FOUND: dict[str, tuple[Ask, str]] = {
    "session of Chat": (
        lambda c, s: read(c.chat.Chat(ChatRequest(session_id=NOBODY, content="x"))),
        "SESSION_NOT_FOUND",
    ),
    "session of ExecuteChat": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(session_id=NOBODY, content="x")),
        "SESSION_NOT_FOUND",
    ),
    "session of GetSession": (
        lambda c, s: c.sessions.GetSession(GetSessionRequest(session_id=NOBODY)),
        "SESSION_NOT_FOUND",
    ),
    "session of Watch": (
        lambda c, s: read(c.chat.Watch(WatchRequest(targets=[WatchTarget(session_id=NOBODY)]))),
        "SESSION_NOT_FOUND",
    ),
    "agent by id": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(session_id=s, content="x", agent_id=NOBODY)),
        "AGENT_NOT_FOUND",
    ),
    "agent by name": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(session_id=s, content="x", agent_name="nobody")),
        "AGENT_NOT_FOUND",
    ),
    "entry to continue from": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(session_id=s, content="x", leaf_entry_id=NOBODY)),
        "ENTRY_NOT_FOUND",
    ),
    "entry to switch to": (
        lambda c, s: c.commands.SwitchLeaf(SwitchLeafRequest(session_id=s, leaf_entry_id=NOBODY)),
        "ENTRY_NOT_FOUND",
    ),
    "task": (
        lambda c, s: c.chat.CancelSubagent(CancelSubagentRequest(session_id=s, task_id=NOBODY)),
        "TASK_NOT_FOUND",
    ),
    "task's transcript": (
        lambda c, s: c.sessions.ListSubagentEntries(ListSubagentEntriesRequest(session_id=s, task_id=NOBODY)),
        "TASK_NOT_FOUND",
    ),
    "workspace": (
        lambda c, s: c.commands.CreateSession(CreateSessionRequest(workspace="nowhere")),
        "WORKSPACE_NOT_FOUND",
    ),
}

INVALID: dict[str, tuple[Ask, list[str]]] = {
    "empty content": (lambda c, s: read(c.chat.Chat(ChatRequest(content=" \n"))), ["content"]),
    "long content": (lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(content="é" * 200_000)), ["content"]),
    "malformed ids, all named at once": (
        lambda c, s: read(c.chat.Chat(ChatRequest(session_id="../x", content="", agent_id="A", leaf_entry_id="1"))),
        ["content", "session_id", "agent_id", "leaf_entry_id"],
    ),
    "long request_id": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(content="x", request_id="r" * 129)),
        ["request_id"],
    ),
    "a leaf without its session": (
        lambda c, s: c.chat.ExecuteChat(ExecuteChatRequest(content="x", leaf_entry_id=NOBODY)),
        ["leaf_entry_id"],
    ),
    "the root and an entry": (
        lambda c, s: c.chat.ExecuteChat(
            ExecuteChatRequest(session_id=s, content="x", leaf_entry_id=NOBODY, from_root=True)
        ),
        ["from_root"],
    ),
    "the root and an entry, on a stream": (
        lambda c, s: read(c.chat.Chat(ChatRequest(session_id=s, content="x", leaf_entry_id=NOBODY, from_root=True))),
        ["from_root"],
    ),
    "switching to the root and to an entry": (
        lambda c, s: c.commands.SwitchLeaf(SwitchLeafRequest(session_id=s, leaf_entry_id=NOBODY, to_root=True)),
        ["to_root"],
    ),
    "switching nowhere": (
        lambda c, s: c.commands.SwitchLeaf(SwitchLeafRequest(session_id=s)),
        ["leaf_entry_id"],
    ),
    "watching nothing": (lambda c, s: read(c.chat.Watch(WatchRequest())), ["targets"]),
    "negative seq": (
        lambda c, s: read(c.chat.Watch(WatchRequest(targets=[WatchTarget(session_id=s, after_seq=-1)]))),
        ["targets[0].after_seq"],
    ),
    "long nonce": (lambda c, s: c.chat.Ping(PingRequest(nonce="n" * 200)), ["nonce"]),
}


async def refused(ask: Awaitable[object]) -> NetaclawError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask
    return from_rpc(caught.value)


async def test_what_is_unknown_is_not_found_and_what_is_wrong_names_its_fields(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count files"))
        before = await suite.tree(client, session_id)
        for name, (ask, reason) in NOT_FOUND.items():
            error = await refused(ask(client, session_id))
            assert (error.code, error.reason_name) == (grpc.StatusCode.NOT_FOUND, reason), name
        for name, (ask, fields) in INVALID.items():
            error = await refused(ask(client, session_id))
            assert error.code is grpc.StatusCode.INVALID_ARGUMENT, name
            assert [field for field, _ in error.violations] == fields, name
        assert await suite.tree(client, session_id) == before
        assert len(await suite.rows("session", "session_id")) == 1, "no refused call made a session"


async def test_a_seq_beyond_the_end_is_out_of_range_and_names_the_snapshot(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count files"))
        end = (await suite.tree(client, session_id))[0].session.seq
        watching = client.chat.Watch(WatchRequest(targets=[WatchTarget(session_id=session_id, after_seq=end + 1)]))
        error = await refused(read(watching))
    assert error.code is grpc.StatusCode.OUT_OF_RANGE
    assert error.metadata["snapshot_seq"] == str(end)


async def test_a_second_message_while_a_turn_runs_is_refused(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        call = client.chat.Chat(ChatRequest(session_id=session_id, content="HANG"))
        first = await anext(aiter(call))
        error = await refused(client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="x")))
        call.cancel()
    assert (error.code, error.reason_name) == (grpc.StatusCode.FAILED_PRECONDITION, "TURN_RUNNING")
    assert error.metadata["turn_id"] == first.events[0].turn_id


async def test_a_request_id_with_other_content_is_refused(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        request = ExecuteChatRequest(session_id=session_id, content="count files", request_id="once")
        first = await client.chat.ExecuteChat(request)
        again = await client.chat.ExecuteChat(request)
        request.content = "other"
        error = await refused(client.chat.ExecuteChat(request))
    assert again == first
    assert (error.code, error.reason_name) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")


BAD_CALLS = {
    "not JSON": Call("delegate_parallel", "{tasks: 1"),
    "no tasks": Call("delegate_parallel", '{"tasks": []}'),
    "too many tasks": Call("delegate_parallel", '{"tasks": [' + ",".join(['{"goal": "x"}'] * 101) + "]}"),
    "a preset without an agent": Call("delegate_task", '{"goal": "x", "mode": "preset"}'),
    "an unknown preset": Call("delegate_task", f'{{"goal": "x", "agentId": "{NOBODY}"}}'),
    "an unknown tool": Call("launch_rocket", "{}"),
    "a doubled and an unknown name": Call("list_files", '{"path": ".", "paths": "."}'),
    "a path outside": Call("read_file", '{"path": "../../etc/passwd"}'),
}


@pytest.mark.parametrize("name", BAD_CALLS)
async def test_bad_tool_arguments_become_an_error_that_the_model_reads(
    name: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async def rule(request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        return Reply([Text("I see.")]) if messages[-1]["role"] == "tool" else Reply([BAD_CALLS[name]])

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        pages = await suite.tree(client, session_id)
        assert await suite.rows("subagent_session", "task_id") == []
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert answer.final_content == "I see."
    call = pages[0].entries[1].assistant.parts[0].tool_call
    assert call.state in (ToolCallState.TOOL_CALL_STATE_FAILED, ToolCallState.TOOL_CALL_STATE_REFUSED)
    assert call.arguments_json == BAD_CALLS[name].arguments
    assert call.result.is_error
    told = model_server.requests[-1].body["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", call.call_id)
    assert call.result.content in told["content"]


PORTS = {
    "netaclaw_store": "NETACLAW_STORE_PORT",
    "netaclaw_runner": "NETACLAW_RUNNER_PORT",
    "netaclaw_orchestrator": "NETACLAW_ORCHESTRATOR_PORT",
    "netaclaw_gateway": "NETACLAW_GATEWAY_PORT",
}


@pytest.mark.parametrize("module", PORTS)
async def test_a_port_in_use_is_one_clear_line_and_a_failure(module: str, tmp_path: Path, postgres_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {
            PORTS[module]: str(port),
            "NETACLAW_DATA_DIR": str(tmp_path),
            "NETACLAW_DATABASE_URL": postgres_url,
            "NETACLAW_STORE_INTERNAL_PORT": "0",
            "NETACLAW_LOG_LEVEL": "ERROR",
        }
        code, _, words = await run_python("-m", module, **environ)
    assert code != 0
    (line,) = words.strip().splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


async def test_an_unreachable_database_is_one_clear_line_without_its_password(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    environ = {
        "NETACLAW_DATA_DIR": str(tmp_path),
        "NETACLAW_DATABASE_URL": f"postgresql://me:canary-secret@127.0.0.1:{port}/db",
        "NETACLAW_STORE_PORT": "0",
        "NETACLAW_STORE_INTERNAL_PORT": "0",
        "NETACLAW_LOG_LEVEL": "ERROR",
    }
    code, out, words = await run_python("-m", "netaclaw_store", **environ)
    assert code != 0
    (line,) = words.strip().splitlines()
    assert "database" in line
    assert "canary-secret" not in out + words


async def test_an_orchestrator_without_a_store_says_so_and_ends(tmp_path: Path) -> None:
    environ = {
        "NETACLAW_ORCHESTRATOR_PORT": "0",
        "NETACLAW_STORE_INTERNAL_ADDRESS": "127.0.0.1:1",
        "NETACLAW_START_TIMEOUT_SECONDS": "0.2",
        "NETACLAW_LOG_LEVEL": "CRITICAL",
    }
    code, _, words = await run_python("-m", "netaclaw_orchestrator", **environ)
    assert code != 0
    (line,) = words.strip().splitlines()
    assert "the store cannot be used" in line
