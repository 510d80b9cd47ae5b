"""Data that went missing elsewhere: large notices, statements behind a migration or a pooler, reshaped arguments."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_command_service_pb2 import UpdateSessionRequest
from netaclaw_chassis.lifecycle import StartError
from netaclaw_client import read_content
from netaclaw_orchestrator import answer as answer_stream
from netaclaw_store.app import open_app
from netaclaw_store.settings import StoreSettings
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.pairs import Side, open_pair
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite

ARGUMENTS = json.loads((Path(__file__).parents[1] / "cases" / "store-args-01.json").read_text())["raw_arguments"]
LEASE = {"NETACLAW_LEASE_SECONDS": "2"}
LARGE = 1_000_000
DEAF_S = 5.0


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_large_events_reach_every_stream_and_a_broken_listener_misses_none(
    postgres_url: str, tmp_path: Path, workspace: Path, model_server: FakeOpenAI
) -> None:
    """C46: 7 KB of ASCII, 3 KB of three-byte characters, 1 MB; then the listening connections are away for 5 s."""
    large = "y" * LARGE

    async def rule(request: dict[str, Any]) -> Reply:
        return Reply([Text(large[n : n + 100_000]) for n in range(0, LARGE, 100_000)])

    model_server.rule = rule
    directory = tmp_path / "data"
    directory.mkdir()
    opened = open_pair(
        postgres_url,
        directory,
        workspace,
        NETACLAW_OPENAI_BASE_URL=model_server.base_url,
        NETACLAW_NOTICE_POLL_SECONDS="600",
    )
    async with opened as pair, pair.one.client() as client:
        session_id = await pair.one.suite.new_session(client)
        async with followers(session_id, pair.one.suite, pair.two.suite) as both:
            for content in ("x" * 7_000, "漢" * 1_000):
                answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=content))
            for each in both:
                await each.until_kind("done", 2)
            await check_whole(pair.two.suite, client, *both)
            shown = both[1].view.entries[answer.assistant_entry_id].assistant.parts[0].text
            assert (len(shown.text), shown.size_bytes) == (32 * 1024, LARGE)
            for side in (pair.one, pair.two):
                async with side.client() as reader:
                    assert await read_content(reader, session_id, shown.content_id) == large
        quiet = await pair.one.suite.new_session(client)  # nobody owns it: its watchers live on notices alone
        async with followers(quiet, pair.one.suite, pair.two.suite) as both:
            await rename(pair.one, quiet, "before")
            for each in both:
                await each.until_kind("session_updated")
            async with deaf(postgres_url):
                for n in range(10):
                    await rename(pair.one, quiet, f"title {n}")
            for each in both:
                await each.until_kind("session_updated", 11)
            await check_whole(pair.two.suite, client, *both)


@pytest.mark.parametrize("as_arguments", [False, True])
async def test_an_answer_that_no_entry_can_hold_ends_its_turn_and_the_next_message_is_answered(
    as_arguments: bool, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C46: beyond the limit of a message nothing is refused in silence, and no turn is left running for ever."""
    piece = "z" * 100_000

    async def rule(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["content"] == "again":
            return Reply([Text("here")])
        return Reply([Call("list_files", json.dumps({"path": piece * 11}))] if as_arguments else [Text(piece)] * 11)

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            events = until(chat(client, ChatRequest(session_id=session_id, content="go")), "error")
            *_, ended = await events
            await follower.until_kind("error")
            parts = follower.view.entries[ended.error.assistant_entry_id].assistant.parts
            kept = await read_content(client, session_id, parts[0].text.content_id) if parts else ""
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
    assert (ended.error.reason, answer.final_content) == ("LIMIT_REACHED", "here")
    assert ("768 KiB" if as_arguments else "992 KiB") in ended.error.message
    assert kept == ("" if as_arguments else piece * 10)


async def test_a_turn_whose_write_the_store_refuses_goes_on_instead_of_running_for_ever(
    open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C60: whatever the reason, an owner that cannot write gives the session back, and the turn is taken over."""
    monkeypatch.setattr(answer_stream, "MAX_CALLS_BYTES", 16 * LARGE)
    replies = [Reply([Call("list_files", json.dumps({"path": "z" * 2 * LARGE}))]), Reply([Text("short")])]

    async def rule(request: dict[str, Any]) -> Reply:
        return replies.pop(0)

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url, **LEASE) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            with pytest.raises(grpc.aio.AioRpcError):
                await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
    (assistant,) = [entry for entry in follower.view.entries.values() if entry.HasField("assistant")]
    assert [part.text.text for part in assistant.assistant.parts] == ["short"]


async def test_many_large_results_beside_each_other_are_kept_whole(
    open_suite: OpenSuite, model_server: FakeOpenAI, workspace: Path
) -> None:
    """C46: twenty results of 64 KiB each make more than a message can carry; the model reads every byte of them."""
    (workspace / "large.txt").write_text("".join(f"{n:032}\n" for n in range(1_900)))

    async def rule(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return Reply([Text("done")])
        return Reply([Call("read_file", json.dumps({"path": "large.txt"})) for _ in range(20)])

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
            (entry, *_) = [each for each in follower.view.entries.values() if each.HasField("assistant")]
            results = [part.tool_call.result for part in entry.assistant.parts]
            apart = [result for result in results if result.content_id]
            wholes = [await read_content(client, session_id, result.content_id) for result in apart]
    assert (answer.final_content, answer.tool_call_count) == ("done", 20)
    told = [m["content"] for m in model_server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert set(told) == {(workspace / "large.txt").read_text()}
    assert wholes == [told[0]] * len(apart)
    assert len(apart) >= 9
    assert [result.content for result in results if not result.content_id] == [told[0]] * (20 - len(apart))


async def rename(side: Side, session_id: str, title: str) -> None:
    """Once, and again for as long as the store has no connection for it."""
    session = Session(session_id=session_id, title=title)
    request = UpdateSessionRequest(session=session, update_mask={"paths": ["title"]})
    async with side.client() as client:
        while True:
            try:
                await client.commands.UpdateSession(request)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
            else:
                return


@asynccontextmanager
async def deaf(url: str) -> AsyncIterator[None]:
    """Break the stores' listening connections, and keep new ones out for a while."""
    name = url.partition("@/")[2].partition("?")[0]
    maintenance = url.replace(f"/{name}?", "/postgres?", 1)
    listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN %' AND datname = "
    await execute(maintenance, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false', f"{listening} '{name}'")
    reopened = asyncio.get_running_loop().call_later(DEAF_S, lambda: None)
    try:
        yield
        await asyncio.sleep(max(0.0, reopened.when() - asyncio.get_running_loop().time()))  # the case says how long
    finally:
        reopened.cancel()
        await execute(maintenance, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


async def test_no_call_fails_while_a_migration_runs_beside_two_stores(
    postgres_url: str, tmp_path: Path, workspace: Path
) -> None:
    """C49: columns are added and indexes rebuilt from a third connection while two stores work."""
    directory = tmp_path / "data"
    directory.mkdir()
    over = asyncio.Event()

    async def chatting(side: Side) -> int:
        async with side.client() as client:
            session_id = await side.suite.new_session(client)
            for n in itertools.count(1):
                answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count files"))
                assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
                await side.suite.tree(client, session_id)
                if over.is_set():
                    return n
        raise AssertionError("counting never ends")

    async def migrating() -> None:
        for n in range(8):
            await execute(
                postgres_url,
                f"ALTER TABLE session ADD COLUMN extra_{n} text NOT NULL DEFAULT 'x'",
                f"ALTER TABLE entry ADD COLUMN extra_{n} integer",
                f"ALTER TABLE turn ADD COLUMN extra_{n} integer",
                "REINDEX INDEX CONCURRENTLY session_pkey",
            )
        over.set()

    async with open_pair(postgres_url, directory, workspace) as pair:
        *turns, _ = await asyncio.gather(*map(chatting, (pair.one, pair.one, pair.two, pair.two)), migrating())
    assert all(turns)


class Pooler:
    """Stands before a Postgres as a pooler does: what a client is told of its session is made up."""

    def __init__(self, url: str) -> None:
        match = re.fullmatch(r"postgresql://(\w+)@/(\w+)\?host=(.+)&port=(\d+)", url)
        assert match is not None
        user, self._database, sockets, port = match.groups()
        self._socket = f"{sockets}/.s.PGSQL.{port}"
        self._user = user
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{self._user}:canary@127.0.0.1:{port}/{self._database}?sslmode=disable"

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        up = asyncio.create_task(self._pass(reader, server_writer))
        try:
            kind = b""
            while kind != b"Z":  # ReadyForQuery: the session is open
                head = await server_reader.readexactly(5)
                kind, length = head[:1], int.from_bytes(head[1:], "big")
                body = await server_reader.readexactly(length - 4)
                writer.write(head + (bytes(3) + b"\x07" + body[4:] if kind == b"K" else body))  # BackendKeyData
            await self._pass(server_reader, writer)
        finally:
            up.cancel()
            writer.close()
            server_writer.close()

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()


async def test_a_pooler_before_the_database_is_refused_at_start(postgres_url: str) -> None:
    """C49: notifications and prepared statements do not pass a transaction pooler, so the store says so at once."""
    async with Pooler(postgres_url) as pooled:
        with pytest.raises(StartError) as caught:
            async with open_app(StoreSettings(database_url=pooled, port=0, internal_port=0)):
                pass
    assert "pooler" in str(caught.value)
    assert "NETACLAW_DATABASE_URL" in str(caught.value)
    assert "canary" not in str(caught.value)


async def test_argument_texts_go_back_to_the_model_byte_for_byte(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C50: key order, doubled keys and 17 digits stay as they came; what is no JSON is kept, and a tool error."""

    async def rule(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return Reply([Text("I see.")])
        return Reply([Call("list_files", raw) for raw in ARGUMENTS])

    model_server.rule = rule
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        stored = (await suite.tree(client, session_id))[0].entries[1]
    assert answer.final_content == "I see."
    shown = [part.tool_call for part in stored.assistant.parts if part.HasField("tool_call")]
    assert [call.arguments_json for call in shown] == ARGUMENTS
    assert "9007199254740993" in shown[0].arguments_json
    assert [call.result.is_error for call in shown] == [True] * len(ARGUMENTS)  # list_files knows none of these names
    *_, told = [m for m in model_server.requests[-1].body["messages"] if m["role"] == "assistant"]
    wrapped = json.dumps({"invalid_arguments": ARGUMENTS[3]}, ensure_ascii=False)  # NaN is no JSON: servers that parse
    sent = [*ARGUMENTS[:3], wrapped, *ARGUMENTS[4:]]  # arguments would refuse every later request of the session
    assert [call["function"]["arguments"] for call in told["tool_calls"]] == sent
    results = [m["content"] for m in model_server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert len(results) == len(ARGUMENTS)
    assert all("not valid JSON" in results[n] or "JSON" in results[n] for n in (2, 3))
