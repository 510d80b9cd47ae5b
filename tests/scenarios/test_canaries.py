"""Secrets of the services' environments: other ones in each, and none of them comes out anywhere."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_service_pb2 import ListSubagentEntriesRequest, ListSubagentEntriesResponse
from netaclaw_cli import child as children
from netaclaw_cli.topology import GATEWAY, ORCHESTRATOR, RUNNER, SERVICES, STORE, environment, wanted_ports
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Reply, Text
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import WORKSPACE, RunningSuite
from tests.scenarios.test_tools_shell import Request, delegate, follow, results_of, session_of, shell

LOOK = "env; set; export -p; cat /proc/self/environ; for p in $PPID 1 /proc/[0-9]*; do cat /proc/${p##*/}/environ; done"
HOLD = "i=0; until [ -e go ] || [ $i = 400 ]; do sleep 0.05; i=$((i + 1)); done"


@dataclass(frozen=True)
class Watched:
    """Four service processes, each with secrets of its own."""

    suite: RunningSuite
    running: Mapping[str, children.Child]
    logs: Path
    canaries: Mapping[str, str]
    """By the name of the service and of the variable."""

    def found_in(self, text: str | bytes) -> list[str]:
        """Whose canaries a text holds."""
        raw = text.encode() if isinstance(text, str) else text
        return [name for name, canary in self.canaries.items() if canary.encode() in raw]


@asynccontextmanager
async def watched(database_url: str, directory: Path, workspace: Path, model: FakeOpenAI) -> AsyncIterator[Watched]:
    """Every service gets the same variables with values of its own; the store a password with its address."""
    canaries: dict[str, str] = {}
    addresses: dict[tuple[str, str], str] = {}
    running: dict[str, children.Child] = {}
    base = {"NETACLAW_OPENAI_BASE_URL": model.base_url, "NETACLAW_MODEL_MAX_TRIES": "1", "NETACLAW_LOG_LEVEL": "DEBUG"}
    own = {"NETACLAW_DATA_DIR": str(directory), "NETACLAW_WORKSPACES": f"{WORKSPACE}={workspace}"}
    async with AsyncExitStack() as stack:
        for service in SERVICES:
            made = environment(service, base, own, wanted_ports(service, 0), addresses)
            for variable in ("NETACLAW_OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "UNRELATED"):
                canaries[f"{service.name} {variable}"] = made[variable] = f"canary-{secrets.token_hex(12)}"
            if service.name == STORE:
                password = canaries["store address"] = f"canary-{secrets.token_hex(12)}"
                made["NETACLAW_DATABASE_URL"] = f"{database_url}&password={password}"
            started = await children.start(service, made, directory, directory / f"{service.name}.log")
            stack.push_async_callback(_end, started)
            running[service.name] = started
            addresses |= {(service.name, name): started.ports[name] for name in service.ports}
        suite = RunningSuite(
            addresses[GATEWAY, "public"],
            addresses[GATEWAY, "web"],
            addresses[STORE, "internal"],
            database_url,
            workspace,
        )
        yield Watched(suite, running, directory, canaries)


async def _end(child: children.Child) -> None:
    child.kill_group()
    await child.wait()


def below(pid: int) -> Iterator[int]:
    """All descendants of a process."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from below(int(child))


async def every_row(database_url: str) -> list[object]:
    """Every value that stands in the database."""
    connection = await asyncpg.connect(database_url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found: list[object] = []
        for (table,) in tables:
            for row in await connection.fetch(f'SELECT * FROM "{table}"'):
                found.extend(row.values())
        return found
    finally:
        await connection.close()


async def shut_out(database_url: str) -> None:
    """The database takes no more connections and drops those that it has."""
    name = database_url.partition("/test_")[2].partition("?")[0]
    connection = await asyncpg.connect(database_url.replace(f"/test_{name}?", "/postgres?"))
    try:
        await connection.execute(f'ALTER DATABASE "test_{name}" WITH ALLOW_CONNECTIONS false')
        await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", f"test_{name}"
        )
    finally:
        await connection.close()


def model_that_repeats_keys(model: FakeOpenAI) -> None:
    """Children look around and then meet an error with the key in it, the main agent looks and meets one at the end."""

    def refusal() -> Reply:
        keys = [request.headers.get("Authorization", "") for request in model.requests]
        return Reply(status=400, error={"message": f"bad keys {keys}", "type": "invalid_request_error"})

    def child(request: Request) -> Reply:
        if not results_of(request):
            return Reply([shell(f"{HOLD}; {LOOK}")])
        return Reply([Text("seen")]) if "calm" in request["messages"][1]["content"] else refusal()

    main = [Reply([delegate("look, calm", "look, and fail")]), Reply([shell(LOOK)])]
    by_turn = follow(main, child)

    def rule(request: Request) -> Reply:
        said = sum(message["role"] == "assistant" for message in request["messages"])
        return refusal() if said >= len(main) and len(results_of(request)) == len(main) else by_turn(request)

    model.rule = rule


async def refused(call: object) -> str:
    """What a client is told of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]  # a call of any kind
    error = caught.value
    return f"{error.details()} {error.debug_error_string()} {error.trailing_metadata()}"


async def transcripts(
    client: Client, session_id: str, rows: list[dict[str, object]]
) -> list[ListSubagentEntriesResponse]:
    return [
        await client.sessions.ListSubagentEntries(
            ListSubagentEntriesRequest(session_id=session_id, task_id=str(row["task_id"]))
        )
        for row in rows
    ]


@dataclass
class Traces:
    """What a turn has left, by place."""

    seen: list[ChatEvent]
    environments: list[bytes]
    """Of the runner's descendants while two children were in a command."""
    rows: list[dict[str, object]]
    texts: dict[str, list[str] | list[bytes]]


async def run_and_read(house: Watched, client: Client) -> Traces:
    """A turn with two children that ends in an error, and everything that can be read of it."""
    suite = house.suite
    session_id = await session_of(suite, client, shell_enabled=True)
    events = chat(client, ChatRequest(session_id=session_id, content="go"))
    seen: list[ChatEvent] = []
    while sum(event.subagent_event.process_event.type == "tool_call" for event in seen) < 2:
        seen += await until(events, "subagent_event")
    environments = [environ(pid) for pid in below(house.running[RUNNER].pid)]
    (suite.workspace / "go").touch()
    seen += await until(events, "error")
    rows = await suite.rows("subagent_session", "sort_order")
    table = await every_row(suite.database_url)
    assert len(table) > 100
    errors = [await refused(client.chat.ExecuteChat(ExecuteChatRequest(session_id="x", content="y")))]
    texts: dict[str, list[str] | list[bytes]] = {
        "live events": [str(event) for event in seen],
        "entries": [str(page) for page in await suite.tree(client, session_id)],
        "events": [str(event) for event in await suite.events(session_id)],
        "transcripts": [str(each) for each in await transcripts(client, session_id, rows)],
        "rows": [value if isinstance(value, bytes) else str(value).encode() for value in table],
        "errors": errors,
    }
    await shut_out(suite.database_url)
    for asked in (ExecuteChatRequest(session_id=session_id, content="more"), ExecuteChatRequest(content="more")):
        errors.append(await refused(client.chat.ExecuteChat(asked)))
    return Traces(seen, environments, rows, texts)


async def test_no_canary_of_any_service_comes_out_anywhere(
    postgres_url: str, tmp_path: Path, workspace: Path, model_server: FakeOpenAI
) -> None:
    model_that_repeats_keys(model_server)
    async with (
        watched(postgres_url, tmp_path, workspace, model_server) as house,
        house.suite.client() as client,
    ):
        traces = await run_and_read(house, client)
        own = {name: environ(child.pid) for name, child in house.running.items()}
        logs = {path.name: path.read_bytes() for path in house.logs.glob("*.log")}

    looked = [text for request in model_server.requests for text in results_of(request.body) if "TERM=dumb" in text]
    assert len(looked) >= 3  # two children and the tool host have really looked
    assert len(traces.environments) >= 3  # the zygote and two workers at least
    assert sorted(str(row["status"]) for row in traces.rows) == ["completed", "failed"]
    assert traces.seen[-1].error.reason
    for name, environment_of_it in own.items():  # each service does hold its own, and nobody else's
        assert {found.split()[0] for found in house.found_in(environment_of_it)} == {name}
    keys = {request.headers["Authorization"] for request in model_server.requests}
    assert keys == {f"Bearer {house.canaries[f'{name} NETACLAW_OPENAI_API_KEY']}" for name in (RUNNER, ORCHESTRATOR)}
    assert set(logs) == {f"{service.name}.log" for service in SERVICES}
    places: dict[str, list[str] | list[bytes]] = {
        **traces.texts,
        "worker environments": traces.environments,
        "what models are asked": [json.dumps(request.body) for request in model_server.requests],
        "logs": list(logs.values()),
    }
    for place, texts in places.items():
        assert [found for text in texts for found in house.found_in(text)] == [], place


def environ(pid: int) -> bytes:
    """The environment that a process was started with; empty where it is kept from its own user, too, as a worker's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return b""
