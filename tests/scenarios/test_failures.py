"""One of several tasks fails, hangs or is stopped: the turn ends well, the others are whole, no process is left."""

from __future__ import annotations

import asyncio
import os

import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    CancelSubagentRequest,
    CancelTurnRequest,
    ChatRequest,
    ExecuteChatRequest,
    ExecuteChatResponse,
)
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import EntryState
from netaclaw.session.v1.session_command_service_pb2 import DeleteSessionRequest
from netaclaw_client.client import Client
from netaclaw_client.comparison import equal
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import FakeOpenAI
from tests.processes import gone
from tests.scenarios.reading import chat, state_name, until
from tests.scenarios.suites import OpenSuite

TOPOLOGIES = ["in_process", "four_processes"]


def assert_gone(pid: int) -> None:
    """The process with this id has been reaped, or the id was never one."""
    assert pid > 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def execute(client: Client, session_id: str, content: str) -> ExecuteChatResponse:
    return await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=content))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    ("goal", "state"),
    [
        ("FAIL-500 look", "FAILED"),
        ("HANG", "TIMED_OUT"),
        ("EMPTY", "FAILED"),
        ("TOO-LONG", "PARTIAL"),
        ("FILTERED", "PARTIAL"),
        ("CUT", "FAILED"),
    ],
)
async def test_one_bad_task_of_three_leaves_the_others_whole(
    topology: str, goal: str, state: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    if goal == "HANG":
        settings["NETACLAW_SUBAGENT_TIMEOUT_SECONDS"] = "2"
    async with open_suite(topology, **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await execute(client, session_id, f"in parallel: count files; {goal}; search needle")
        rows = await suite.rows("subagent_session", "sort_order")
        pages = await suite.tree(client, session_id)
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    tasks = answer.subagent_batches[0].items
    assert [state_name(task) for task in tasks] == ["COMPLETED", state, "COMPLETED"]
    assert [row["status"] for row in rows] == ["completed", state.lower(), "completed"]
    assert "4 files" in tasks[0].summary
    assert "needle" in tasks[2].summary
    assert tasks[1].error
    assert answer.final_content.count("## Task") == 3
    assert tasks[0].summary in answer.final_content
    assert_gone(tasks[1].worker_pid)
    results = [entry for page in pages for entry in page.entries if entry.HasField("subagent_result")]
    (result,) = results
    ends = [(final.task.task_id, final.task.state) for final in result.subagent_result.final_results]
    assert ends == [(task.task_id, task.state) for task in tasks]


async def test_excess_tasks_wait_in_the_queue_and_all_are_run(open_suite: OpenSuite) -> None:
    async with (
        open_suite("in_process", NETACLAW_SUBAGENT_MAX_CONCURRENT="1") as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        call = client.chat.Chat(
            ChatRequest(session_id=session_id, content="in parallel: count files; search needle; find 1 largest file")
        )
        running_at_once = 0
        async for response in call:
            for event in response.events:
                if event.WhichOneof("event") == "subagent_event":
                    counts = event.subagent_event.counts
                    assert counts.total == 3
                    running_at_once = max(running_at_once, counts.running)
                    ended = counts.completed + counts.failed
                    assert counts.queued + counts.running + ended == 3
        assert running_at_once == 1
        assert [row["status"] for row in await suite.rows("subagent_session", "sort_order")] == ["completed"] * 3


async def test_cancelling_the_turn_ends_every_child_and_says_so(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="in parallel: HANG a; HANG b; HANG c; HANG d"))
        seen = await until(events, "subagent_event", 3)
        pids = [e.subagent_event.item.worker_pid for e in seen if e.WhichOneof("event") == "subagent_event"]
        cancelling = asyncio.ensure_future(client.chat.CancelTurn(CancelTurnRequest(session_id=session_id)))
        rest = await until(events, "done")
        cancelled = await cancelling
        view = SessionView(session_id=session_id)
        for event in [*seen, *rest]:
            view.apply(event)
        assert equal(view, SessionView.from_tree(await suite.tree(client, session_id))) == []
        rows = await suite.rows("subagent_session", "sort_order")
    assert cancelled.turn_id == rest[-1].turn_id
    assert rest[-1].done.outcome == TurnOutcome.TURN_OUTCOME_CANCELLED
    assert [row["status"] for row in rows] == ["cancelled"] * 4
    for pid in pids:
        assert_gone(pid)


async def test_cancelling_one_child_leaves_its_siblings(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="in parallel: HANG a; count files"))
        seen = await until(events, "subagent_event")
        batch = next(e.subagent_run_started.batch for e in seen if e.WhichOneof("event") == "subagent_run_started")
        request = CancelSubagentRequest(session_id=session_id, task_id=batch.items[0].task_id)
        cancelled = await client.chat.CancelSubagent(request)
        rest = await until(events, "done")
        rows = await suite.rows("subagent_session", "sort_order")
    assert state_name(cancelled.task) == "CANCELLED"
    assert [row["status"] for row in rows] == ["cancelled", "completed"]
    assert rest[-1].done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED


async def test_a_queued_task_that_is_cancelled_never_starts(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_CONCURRENT": "1"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        events = chat(client, ChatRequest(session_id=session_id, content="in parallel: HANG a; count files"))
        seen = await until(events, "subagent_event")
        batch = next(e.subagent_run_started.batch for e in seen if e.WhichOneof("event") == "subagent_run_started")
        for item in reversed(batch.items):
            request = CancelSubagentRequest(session_id=session_id, task_id=item.task_id)
            cancelled = await client.chat.CancelSubagent(request)
            assert state_name(cancelled.task) == "CANCELLED"
        await until(events, "done")
        rows = await suite.rows("subagent_session", "sort_order")
    assert [(row["status"], row["started_at"] is None) for row in rows] == [("cancelled", False), ("cancelled", True)]


async def test_a_client_that_goes_away_cancels_nothing(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        content = "in parallel: count files; search needle"
        events = chat(client, ChatRequest(session_id=session_id, content=content, request_id="once"))
        await until(events, "subagent_run_started")
        await events.aclose()
        # The same request again joins the turn that it started, and sees it whole.
        joined = await client.chat.ExecuteChat(
            ExecuteChatRequest(session_id=session_id, content=content, request_id="once")
        )
        assert len(await suite.rows("turn", "turn_id")) == 1
    assert joined.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert joined.subagent_batches[0].counts.completed == 2


async def test_a_model_that_fails_ends_the_turn_with_an_error_and_the_partial_text(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        answer = await execute(client, session_id, "CUT")
        pages = await suite.tree(client, session_id)
        again = await execute(client, session_id, "count files")
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_FAILED
    assert answer.error.reason == "MODEL_UNAVAILABLE"
    entry = pages[0].entries[-1]
    assert entry.state == EntryState.ENTRY_STATE_FAILED
    assert entry.assistant.error == answer.error.message
    assert entry.assistant.parts[0].text.text, "what was streamed is kept"
    assert again.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED, "the session goes on"


async def test_deleting_a_session_ends_what_runs_in_it_before_it_answers(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        pids: set[int] = set()
        call = client.chat.Chat(ChatRequest(session_id=session_id, content="in parallel: HANG a; HANG b"))
        async for response in call:
            pids |= {event.subagent_event.item.worker_pid for event in response.events}
            if len(pids - {0}) == 2:
                break
        await client.commands.DeleteSession(DeleteSessionRequest(session_id=session_id))
        async with asyncio.timeout(2):  # a process that is held would stay for 15 s
            for pid in pids - {0}:
                await gone(pid)
        for table in ("session", "entry", "event", "turn", "subagent_session", "subagent_entry"):
            assert await suite.rows(table, "1") == [], table
        call.cancel()
