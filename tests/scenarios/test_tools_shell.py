"""Commands and edits through the whole suite: where they run, what is kept, and that nothing outlives a stop."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolCallState
from netaclaw_agent.guidance import SUBAGENT_GUIDANCE
from netaclaw_client.client import Client
from netaclaw_runner.worker_link import WorkerLink
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.integration.runner.rig import sleeping
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite, RunningSuite

Request = dict[str, Any]


def shell(command: str, **more: object) -> Call:
    return Call("run_shell", json.dumps({"command": command, **more}))


def delegate(*goals: str, tool_names: list[str] | None = None) -> Call:
    chosen = {} if tool_names is None else {"toolNames": tool_names}
    return Call("delegate_parallel", json.dumps({"tasks": [{"goal": goal, **chosen} for goal in goals]}))


def is_child(request: Request) -> bool:
    """Whether a subagent asks."""
    return SUBAGENT_GUIDANCE[:40] in request["messages"][0]["content"]


def results_of(request: Request) -> list[str]:
    """What the tools of this conversation have answered."""
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


def follow(main: list[Reply], child: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """The main agent's replies one after the other; a child's by a rule."""

    def rule(request: Request) -> Reply:
        if is_child(request):
            return child(request)
        said = [message for message in request["messages"] if message["role"] == "assistant"]
        return main[len(said)]

    return rule


async def session_of(suite: RunningSuite, client: Client, **fields: object) -> str:
    """A session with an agent of its own."""
    agent = Agent(name="worker", **fields)  # type: ignore[arg-type]  # fields of the message
    made = await client.agents.CreateAgent(CreateAgentRequest(agent=agent))
    return await suite.new_session(client, agent_id=made.agent.agent_id)


async def main_calls(suite: RunningSuite, client: Client, session_id: str) -> list[ToolCallPart]:
    """The main agent's tool calls, in order."""
    entries = [entry for page in await suite.tree(client, session_id) for entry in page.entries]
    parts = [part for entry in entries for part in entry.assistant.parts]
    return [part.tool_call for part in parts if part.HasField("tool_call")]


@pytest.mark.parametrize("topology", ["in_process", "four_processes"])
async def test_the_main_agent_runs_commands_and_edits_in_its_tool_host(
    topology: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    edit = Call("edit_file", '{"path": "src/one.py", "old_text": "b = 2", "new_text": "b = 3"}')
    main = [Reply([edit]), Reply([shell("cat one.py; exit 3", cwd="src")]), Reply([Text("done")])]
    model_server.rule = follow(main, lambda _: Reply([Text("?")]))
    async with open_suite(topology, NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite, suite.client() as client:
        session_id = await session_of(suite, client, shell_enabled=True)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        edited, ran = await main_calls(suite, client, session_id)

    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert edited.result.content == "edited 1 place, from line 2, in src/one.py"
    assert ran.result.content == "a = 1\nb = 3\n# exit code 3"
    assert (ran.state, ran.result.is_error) == (ToolCallState.TOOL_CALL_STATE_COMPLETED, False)


async def test_a_childs_commands_are_evidence(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    def child(request: Request) -> Reply:
        return Reply([Text("it fails")] if results_of(request) else [shell("echo running; exit 2")])

    model_server.rule = follow([Reply([delegate("run the tests")]), Reply([Text("done")])], child)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, shell_enabled=True)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        entries = [entry for page in await suite.tree(client, session_id) for entry in page.entries]
    [result] = [entry.subagent_result for entry in entries if entry.HasField("subagent_result")]
    [ran] = result.evidence_summaries

    assert (ran.kind, ran.value, ran.detail) == ("command", 2, "echo running; exit 2")
    assert "running\n# exit code 2" in result.final_results[0].tool_results[0].preview


@pytest.mark.parametrize("tool_names", [None, [], ["run_shell"], ["run_shell", "list_files"]])
async def test_a_tool_that_is_off_for_the_parent_never_runs_in_a_child(
    open_suite: OpenSuite, model_server: FakeOpenAI, tool_names: list[str] | None
) -> None:
    """C52: no list, an empty list, lists that name it, and a model that calls it though it was not offered."""
    offered: list[set[str]] = []

    def child(request: Request) -> Reply:
        offered.append({tool["function"]["name"] for tool in request.get("tools", [])})
        return Reply([Text("refused")] if results_of(request) else [shell("touch was-here")])

    main = [Reply([delegate("try it", tool_names=tool_names)]), Reply([Text("done")])]
    model_server.rule = follow(main, child)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        assert not (suite.workspace / "was-here").exists()

    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert "run_shell" not in offered[0]
    if tool_names is not None:
        assert offered[0] == set(tool_names) - {"run_shell"}
    told = [results_of(request.body) for request in model_server.requests if is_child(request.body)]
    assert "refused" in told[-1][0]


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_stop_ends_children_with_all_that_they_have_started_and_frees_their_places(
    calls: int, open_suite: OpenSuite, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C12: two children with processes in sessions of their own, a third that waits; then delegate again."""
    stop, stops, slow = WorkerLink.stop, asyncio.Queue[None](), asyncio.Event()

    async def stop_slowly(link: WorkerLink, farewell: Message | None, *, abrupt: bool = False) -> None:
        stops.put_nowait(None)
        await slow.wait()
        await stop(link, farewell, abrupt=abrupt)

    monkeypatch.setattr(WorkerLink, "stop", stop_slowly)
    mark = 80_000_000 + os.getpid()  # names this test's processes, whatever else runs on this machine
    daemon = f"setsid -f sleep {mark} >/dev/null 2>&1; (setsid sleep {mark} &) >/dev/null 2>&1; echo all; sleep {mark}"
    goals = ("one", "two", "three")

    def child(request: Request) -> Reply:
        quick = "quick" in request["messages"][1]["content"]
        return Reply([Text("done at once")] if quick else [shell(daemon)])

    first = [delegate(*goals)] if calls == 1 else [delegate(goal) for goal in goals]
    model_server.rule = follow([Reply(first), Reply([delegate("quick")]), Reply([Text("done")])], child)
    settings = {
        "NETACLAW_OPENAI_BASE_URL": model_server.base_url,
        "NETACLAW_SUBAGENT_MAX_CONCURRENT": "2",
        "NETACLAW_RUNNER_MAX_WORKERS": "2",
    }
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await session_of(suite, client, shell_enabled=True)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        await until(events, "tool_result_streamed", 2)
        stopping = asyncio.ensure_future(client.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        for _ in range(2):
            await stops.get()
        for _ in range(20):  # longer than it takes to tell of an end
            await suite.tree(client, session_id)
        assert not stopping.done(), "a stop is answered when all are gone, also where one never began"
        slow.set()
        await stopping
        [*_, done] = await until(events, "done")
        assert not sleeping(mark)
        asked = len(model_server.requests)
        again = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))
        rows = await suite.rows("subagent_session", "started_at NULLS FIRST, sort_order")

    assert done.done.outcome == TurnOutcome.TURN_OUTCOME_CANCELLED
    assert again.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert sorted(row["status"] for row in rows) == ["cancelled"] * 3 + ["completed"]
    after = [request.body["messages"] for request in model_server.requests[asked:]]
    assert not any(goal in messages[1]["content"] for messages in after for goal in goals if len(messages) == 2)


async def test_no_secret_of_a_service_comes_out_of_a_command_or_an_error(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C53: a child prints its environment and its parent's; then the model server echoes the key in an error."""
    canary = "canary-5b1e"
    command = "env; set; for p in $PPID 1; do cat /proc/$p/environ; done; cat /proc/self/environ"

    def child(request: Request) -> Reply:
        if results_of(request):
            return Reply(status=400, error={"message": f"bad key {canary}-key", "type": "invalid_request_error"})
        return Reply([shell(command)])

    model_server.rule = follow([Reply([delegate("look")]), Reply([Text("done")])], child)
    settings = {
        "NETACLAW_OPENAI_BASE_URL": model_server.base_url,
        "NETACLAW_OPENAI_API_KEY": f"{canary}-key",
        "UNRELATED": f"{canary}-unrelated",
    }
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await session_of(suite, client, shell_enabled=True)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        tree, events = await suite.tree(client, session_id), await suite.events(session_id)
        rows = await suite.rows("subagent_session", "sort_order")

    printed = [text for request in model_server.requests for text in results_of(request.body) if "TERM=dumb" in text]
    assert printed
    for text in [*printed, str(tree), str(events), str(rows)]:
        assert canary not in text
