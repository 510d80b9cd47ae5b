"""What a delegation leaves behind: results to read, children to go on with, true sums, whoever died meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest, DeleteAgentRequest, PublishAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import (
    CancelTurnRequest,
    ChatRequest,
    ExecuteChatRequest,
    SteerSubagentRequest,
    SteerSubagentResponse,
)
from netaclaw.chat.v1.event_pb2 import ReceiptState, TurnOutcome
from netaclaw.session.v1.entry_pb2 import EntryKind, EntryState, ToolCallPart
from netaclaw.session.v1.session_service_pb2 import (
    GetSubagentResultRequest,
    GetUsageRequest,
    GetUsageResponse,
    ListSubagentEntriesRequest,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.usage import add_usage
from netaclaw_client.client import Client
from netaclaw_client.follow import run_turn
from netaclaw_client.view import SessionView
from netaclaw_orchestrator.anchor import AnchorEntry
from netaclaw_orchestrator.tool_calls import ToolCalls
from netaclaw_store.session_reads import SessionReads
from tests.fakes.openai_server import Call, FakeOpenAI, Hang, Reply, Text, Wait
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.pairs import open_pair
from tests.scenarios.reading import chat, of_kind, state_name, until
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_takeover import LEASE, check_whole, followed, rows_show

QUEUED = ReceiptState.RECEIPT_STATE_QUEUED
TAKEN = ReceiptState.RECEIPT_STATE_TAKEN


async def usage_of(client: Client, session_id: str, turn_id: str = "") -> GetUsageResponse:
    return await client.sessions.GetUsage(GetUsageRequest(session_id=session_id, turn_id=turn_id))


async def test_a_batch_of_eight_survives_its_orchestrator_and_counts_every_call_once(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    blocked = asyncio.Event()
    look = Call("list_files", "{}")
    children = {f"quick {n}": [Reply([look]), Reply([Text(f"quick answer {n}")])] for n in range(3)}
    children |= {f"slow {n}": [Reply([look]), Reply([Wait(blocked), Text(f"slow answer {n}")])] for n in range(5)}
    goals = model_server.rule = Goals(children)
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_CONCURRENT": "8"}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content=tasks(*children)))
        view = SessionView(session_id=session_id)
        ended = 0
        async for event in events:
            view.apply(event)
            ended += event.subagent_event.HasField("result")
            if ended == 3 and all(goals.calls_of(f"slow {n}") == 2 for n in range(5)):
                break
        suite.kill("orchestrator")
        following = asyncio.create_task(followed(client, view))
        await rows_show(suite, "turn", "takeovers", 1)
        blocked.set()
        seen = await following
        await check_whole(suite, client, view)
        spent = await usage_of(client, session_id)
        of_turn = await usage_of(client, session_id, seen[-1].turn_id)
        rows = await suite.rows("subagent_session", "sort_order")
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert [row["status"] for row in rows] == ["completed"] * 8
    assert all(goals.calls_of(goal) == 2 for goal in children)
    calls = len(model_server.requests)
    assert calls == goals.whole == 18
    assert (spent.total.model_calls, spent.total.input_tokens, spent.total.output_tokens) == (calls, 180, 90)
    assert spent.subagents.model_calls == 16
    assert of_turn == spent
    assert seen[-1].done.usage == spent.total
    told = goals.main_requests[-1]["messages"][-1]["content"]
    assert [line for line in told.split("\n") if " answer " in line] == [
        *(f"quick answer {n}" for n in range(3)),
        *(f"slow answer {n}" for n in range(5)),
    ]


async def test_a_message_to_a_child_enters_once_and_has_its_receipts_though_its_owner_dies(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()
    goals = model_server.rule = Goals(
        {"look": [Reply([Wait(held), Call("list_files", "{}")]), Reply([Wait(held), Text("looked")])]}
    )
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content=tasks("look")))
        view = SessionView(session_id=session_id)
        [*before, started] = await until(events, "subagent_event")
        for event in [*before, started]:
            view.apply(event)
        steer = SteerSubagentRequest(
            session_id=session_id, task_id=started.task_id, content="mind the roof", request_id="h"
        )
        first = await client.chat.SteerSubagent(steer)
        suite.kill("orchestrator")
        await events.aclose()
        following = asyncio.create_task(followed(client, view))
        await rows_show(suite, "turn", "takeovers", 1)
        again = await steered_again(client, steer)
        held.set()
        await following
        await check_whole(suite, client, view)
        logged = of_kind(await suite.events(session_id), "steer_receipt")
    assert first.state == QUEUED
    assert again.state in (QUEUED, TAKEN)
    assert [event.steer_receipt.state for event in logged] == [QUEUED, TAKEN]
    heard = [
        [message["content"] for message in request["messages"]].count("mind the roof")
        for request in goals.child_requests["look"]
    ]
    assert max(heard) == 1


async def steered_again(client: Client, steer: SteerSubagentRequest) -> SteerSubagentResponse:
    """Send a message until the new owner follows its child: before, nobody runs the turn."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await client.chat.SteerSubagent(steer)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND):
                    raise
                await asyncio.sleep(0.05)  # no event of ours tells of it


async def test_failed_cut_and_cancelled_calls_count_as_well(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    children = {
        "fail": [Reply(status=400, error={"message": "refused"})],
        "cut": [Reply([Text("its")], finish_reason="length")],
        "hang": [Reply([Text("half "), Hang()])],
    }
    goals = model_server.rule = Goals(children)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        turn = chat(client, ChatRequest(session_id=session_id, content=tasks(*children)))
        seen = []
        live = Usage()
        async for event in turn:
            seen.append(event)
            live = event.token_update.usage if event.HasField("token_update") else live
            ended = sum(each.subagent_event.HasField("result") for each in seen)
            if ended == 2 and goals.calls_of("hang") and of_kind(seen, "assistant_stream_delta"):
                await cancel_turn(client, session_id)
        spent = await usage_of(client, session_id)
        owned = await client.sessions.GetUsage(GetUsageRequest())
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_CANCELLED
    assert spent.total.model_calls == len(model_server.requests) == 4
    assert seen[-1].done.usage == spent.total == owned.total == live
    assert spent.total.estimated_calls == 1  # the one that was cancelled, by what it had shown
    batch = of_kind(seen, "subagent_run_completed")[0].subagent_run_completed.batch
    assert [state_name(item) for item in batch.items] == ["FAILED", "PARTIAL", "CANCELLED"]
    assert [item.usage.output_tokens > 0 for item in batch.items] == [False, True, True]  # what each had been given
    total = Usage()
    for item in batch.items:
        assert item.usage.model_calls == 1
        add_usage(total, item.usage)
    assert batch.usage == spent.subagents == total


async def test_a_child_can_be_gone_on_with_whatever_its_end_and_after_restarts(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    children = {
        "look": [Reply([Call("list_files", "{}")]), Reply([Text("four files")])],
        "fail": [Reply([Call("list_files", "{}")]), Reply(status=400, error={"message": "refused"})],
        "and now?": [Reply([Text("as I said")])],
        "once more": [Reply([Text("still the same")])],
    }
    goals = model_server.rule = Goals(children)
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)

        async def say(content: str) -> list[str]:
            asked = ChatRequest(session_id=session_id, content=content)
            known = (await client.load(session_id)).seq
            [ended] = of_kind([event async for event in run_turn(client, asked, known)], "subagent_run_completed")
            return [item.task_id for item in ended.subagent_run_completed.batch.items]

        looked, failed = await say(tasks("look", "fail"))
        for service in ("orchestrator", "runner"):
            await suite.restart(service)
        resumed = [{"goal": "and now?", "resumeTaskId": each} for each in (looked, failed)]
        again, _ = await say(json.dumps({"tasks": resumed}))
        [third] = await say(tasks("once more", resumeTaskId=again))
        listed = await client.sessions.ListSubagentEntries(
            ListSubagentEntriesRequest(session_id=session_id, task_id=third)
        )
    first, second = sorted(goals.child_requests["and now?"], key=lambda request: len(request["messages"]))
    assert roles(first) == ["system", "user", "assistant", "tool", "user"]
    assert roles(second) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "and now?" in second["messages"][-1]["content"]
    [last] = goals.child_requests["once more"]
    texts = [str(message["content"]) for message in last["messages"] if message["role"] == "assistant"]
    assert texts[-2:] == ["four files", "as I said"]
    assert listed.task.resumed_task_id == again
    assert [entry.n for entry in listed.entries] == [5, 6]  # its own messages; those before are its forerunners'


async def test_a_result_whose_owner_died_before_it_told_the_model_is_told_once(
    postgres_url: str,
    tmp_path: Path,
    workspace: Path,
    model_server: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C18: the child's result is stored, its parent does not know it yet, and the orchestrator goes."""
    goals = model_server.rule = Goals({"look": [Reply([Text("four files")])]})
    stored = asyncio.Event()
    completed = ToolCalls._completed

    def untold(self: ToolCalls, anchor: AnchorEntry, ended: ToolCallPart) -> asyncio.Future[None]:
        if stored.is_set():
            return completed(self, anchor, ended)
        stored.set()
        return asyncio.get_running_loop().create_future()  # never done: its owner dies first

    monkeypatch.setattr(ToolCalls, "_completed", untold)
    (tmp_path / "data").mkdir()
    async with (
        open_pair(postgres_url, tmp_path / "data", workspace, NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        session_id = await pair.one.suite.new_session(client)
        asked = ChatRequest(session_id=session_id, content=tasks("look"))
        turn = asyncio.create_task(anext(chat(client, asked)))
        await stored.wait()
        await turn
        whole = SessionReads.tree
        monkeypatch.setattr(SessionReads, "tree", None)  # a take-over costs the same however large the tree has become
        await pair.one.close()
        await rows_show(pair.two.suite, "turn", "outcome", TurnOutcome.TURN_OUTCOME_COMPLETED)
        monkeypatch.setattr(SessionReads, "tree", whole)
        view = SessionView(session_id=session_id)
        seen = await followed(other, view)
        spent = await usage_of(other, session_id)
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert goals.calls_of("look") == 1
    assert roles(goals.main_requests[-1]) == ["system", "user", "assistant", "tool"]
    assert "four files" in goals.main_requests[-1]["messages"][-1]["content"]
    kinds = [entry.kind for entry in view.entries.values()]
    assert kinds.count(EntryKind.ENTRY_KIND_SUBAGENT_RESULT) == kinds.count(EntryKind.ENTRY_KIND_SUBAGENT_BATCH) == 1
    assert spent.total.model_calls == len(model_server.requests) == 3


async def test_a_long_result_is_cut_in_the_report_and_read_on_demand(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    long = "".join(f"line {n:06}\n" for n in range(9000))
    goals = model_server.rule = Goals({"write": [Reply([Text(long)])], "short": [Reply([Text("brief")])]})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        asked = ExecuteChatRequest(session_id=session_id, content=tasks("write", "short"))
        answer = await client.chat.ExecuteChat(asked)
        written = answer.subagent_batches[0].items[0].task_id
        report = goals.main_requests[-1]["messages"][-1]["content"]
        read = json.dumps({"call": "read_result", "taskId": written, "offset": 60_000, "limit": 24})
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=read))
        told = goals.main_requests[-1]["messages"][-1]["content"]
        unknown = json.dumps({"call": "read_result", "taskId": session_id})
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=unknown))
        refused = goals.main_requests[-1]["messages"][-1]["content"]
        whole = await client.sessions.GetSubagentResult(
            GetSubagentResultRequest(session_id=session_id, task_id=written)
        )
    assert len(report.encode()) < 52 * 1024
    assert f"Task id: {written}" in report
    assert "brief" in report
    assert f"of {len(long) - 1} bytes; read_result with this task id and offset " in report
    assert told == f"[bytes 60000 to 60024 of {len(long) - 1}]\n{long[60_000:60_024]}"
    assert "this conversation has no task" in refused
    assert whole.result.final_output == long.strip()


async def cancel_turn(client: Client, session_id: str) -> None:

    await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))


def roles(request: dict[str, list[dict[str, str]]]) -> list[str]:
    return [message["role"] for message in request["messages"]]


async def test_a_batch_that_may_go_on_no_more_is_ended_truly(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    """Its preset is withdrawn while it runs, and then its orchestrator dies."""
    goals = model_server.rule = Goals({"wait": [Reply([Text("half "), Hang()])]})
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        made = await client.agents.CreateAgent(CreateAgentRequest(agent=Agent(name="helper")))
        agent_id = made.agent.agent_id
        await client.agents.PublishAgent(PublishAgentRequest(agent_id=agent_id, published=True))
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content=tasks("wait", agentId=agent_id)))
        view = SessionView(session_id=session_id)
        async for event in events:
            view.apply(event)
            if event.task_id and event.HasField("assistant_stream_delta"):
                break
        await client.agents.DeleteAgent(DeleteAgentRequest(agent_id=agent_id))
        suite.kill("orchestrator")
        seen = await followed(client, view)
        await check_whole(suite, client, view)
        rows = await suite.rows("subagent_session", "sort_order")
    assert seen[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert "is not published or not allowed" in goals.main_requests[-1]["messages"][-1]["content"]
    assert [row["status"] for row in rows] == ["cancelled"]
    [batch] = [e for e in view.entries.values() if e.kind == EntryKind.ENTRY_KIND_SUBAGENT_BATCH]
    assert (batch.state, batch.subagent_batch.batch.counts.cancelled) == (EntryState.ENTRY_STATE_COMPLETE, 1)
