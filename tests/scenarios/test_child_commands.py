"""What a person may tell a running child, and what its sandbox owes it, through the whole suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    CancelSubagentRequest,
    ChatRequest,
    ExecuteChatRequest,
    SteerSubagentRequest,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState, TurnOutcome
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw.tool.v1.tool_pb2 import SandboxMode
from netaclaw_client.client import Client
from netaclaw_runner.launcher import ExecLauncher
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Wait
from tests.scenarios.reading import chat, of_kind, state_name, until
from tests.scenarios.suites import OpenSuite, RunningSuite
from tests.scenarios.test_tools_shell import Request, delegate, follow, results_of, session_of

QUEUED = ReceiptState.RECEIPT_STATE_QUEUED
TAKEN = ReceiptState.RECEIPT_STATE_TAKEN
MISSED = ReceiptState.RECEIPT_STATE_MISSED


class Held:
    """A child that reads, and answers when it is let."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()

    def __call__(self, request: Request) -> Reply:
        self.asked.set()
        if self._reads and not results_of(request):
            return Reply([Wait(self.opened), Call("list_files", "{}")])
        return Reply([Wait(self.opened), Text("an answer")])


class HeldChild(NamedTuple):
    """A running child that goes on once it is let, and the events of its turn."""

    suite: RunningSuite
    client: Client
    events: AsyncGenerator[ChatEvent, None]
    session_id: str
    task_id: str


@asynccontextmanager
async def held_child(
    open_suite: OpenSuite, model_server: FakeOpenAI, held: Held, rule: Callable[[Request], Reply] | None = None
) -> AsyncIterator[HeldChild]:
    model_server.rule = follow([Reply([delegate("look")]), Reply([Text("done")])], rule or held)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        [*_, started] = await until(events, "subagent_event")
        await held.asked.wait()
        yield HeldChild(suite, client, events, session_id, started.task_id)


@pytest.mark.parametrize("reads", [True, False])
async def test_a_message_to_a_running_child_is_queued_and_then_taken(
    reads: bool, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """Between two calls, or while the last answer is made: then the child answers once more."""
    held = Held(reads=reads)
    async with held_child(open_suite, model_server, held) as child:
        suite, client, events, session_id, task_id = child
        steer = SteerSubagentRequest(session_id=session_id, task_id=task_id, content="hurry", request_id="h")
        answered = [await client.chat.SteerSubagent(steer) for _ in range(3)]
        held.opened.set()
        seen = [*await until(events, "steer_receipt"), *await until(events, "steer_receipt")]
        answered.append(await client.chat.SteerSubagent(steer))
        seen += await until(events, "done")
        answered.append(await client.chat.SteerSubagent(steer))
        logged = of_kind(await suite.events(session_id), "steer_receipt")

    states = [each.state for each in answered]
    assert states == sorted(states)  # a worker that has not asked its model yet takes the message at once
    assert (states[0], states[-2:]) == (QUEUED, [TAKEN, TAKEN])
    receipts = [event.steer_receipt for event in logged]
    assert [(each.request_id, each.state) for each in receipts] == [("h", QUEUED), ("h", TAKEN)]
    assert [event.steer_receipt for event in of_kind(seen, "steer_receipt")] == receipts
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    heard = [request.body["messages"].count({"role": "user", "content": "hurry"}) for request in model_server.requests]
    assert max(heard) == 1


async def test_messages_without_an_id_are_different_ones(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    held = Held(reads=True)
    async with held_child(open_suite, model_server, held) as child:
        _, client, events, session_id, task_id = child
        for content in ("hurry", "hurry up"):
            steer = SteerSubagentRequest(session_id=session_id, task_id=task_id, content=content)
            await client.chat.SteerSubagent(steer)
        held.opened.set()
        seen = await until(events, "done")

    receipts = [event.steer_receipt for event in of_kind(seen, "steer_receipt")]
    assert sorted(each.state for each in receipts) == [QUEUED, QUEUED, TAKEN, TAKEN]
    assert len({each.request_id for each in receipts}) == 2
    heard = [[message["content"] for message in request.body["messages"]] for request in model_server.requests]
    said = [[content for content in contents if content in ("hurry", "hurry up")] for contents in heard]
    assert max(said, key=len) == ["hurry", "hurry up"]


async def test_a_message_that_a_child_did_not_live_to_read_is_missed(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = Held(reads=False)

    def second_answer(request: Request) -> Reply:
        """Before the first one, which may be asked for before there is a worker, it would still read."""
        return held(request) if results_of(request) else Reply([Call("list_files", "{}")])

    async with held_child(open_suite, model_server, held, second_answer) as child:
        _, client, events, session_id, task_id = child
        steer = SteerSubagentRequest(session_id=session_id, task_id=task_id, content="hurry", request_id="h")
        await client.chat.SteerSubagent(steer)
        gone = await client.chat.CancelSubagent(CancelSubagentRequest(session_id=session_id, task_id=task_id))
        held.opened.set()
        seen = await until(events, "done")

    assert state_name(gone.task) == "CANCELLED"
    assert [event.steer_receipt.state for event in of_kind(seen, "steer_receipt")] == [QUEUED, MISSED]


async def test_a_child_that_waits_for_its_turn_is_cancelled_alone(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = Held(reads=False)
    model_server.rule = follow([Reply([delegate("first", "second", "third")]), Reply([Text("done")])], held)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_CONCURRENT": "1"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="go"))
        [*_, begun] = await until(events, "subagent_run_started")
        second = begun.subagent_run_started.batch.items[1]
        await held.asked.wait()
        gone = await client.chat.CancelSubagent(CancelSubagentRequest(session_id=session_id, task_id=second.task_id))
        held.opened.set()
        await until(events, "done")
        rows = await suite.rows("subagent_session", "sort_order")

    assert gone.task.state == SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED
    assert [row["status"] for row in rows] == ["completed", "cancelled", "completed"]
    assert not any("second" in str(request.body["messages"][1:2]) for request in model_server.requests)


@pytest.mark.parametrize(
    ("mode", "state"),
    [(SandboxMode.SANDBOX_MODE_REQUIRED, "FAILED"), (SandboxMode.SANDBOX_MODE_BEST_EFFORT, "COMPLETED")],
)
async def test_where_a_sandbox_is_missing_required_refuses_and_best_effort_says_so(
    mode: SandboxMode,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    open_suite: OpenSuite,
    model_server: FakeOpenAI,
) -> None:
    async def bare() -> tuple[ExecLauncher, None]:
        return ExecLauncher(), None

    monkeypatch.setattr("netaclaw_runner.app.best_launcher", bare)
    model_server.rule = follow([Reply([delegate("look")]), Reply([Text("done")])], lambda _: Reply([Text("seen")]))
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, sandbox=mode)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        entries = [entry for page in await suite.tree(client, session_id) for entry in page.entries]

    [task] = answer.subagent_batches[0].items
    [result] = [entry for entry in entries if entry.HasField("subagent_result")]
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert state_name(task) == state
    if state == "FAILED":
        assert "policy requires a sandbox, but not in force here: uid, pid_namespace" in task.error
    else:
        [said] = result.subagent_projection.diagnostics
        assert "not in force: uid, pid_namespace, net_namespace" in said
