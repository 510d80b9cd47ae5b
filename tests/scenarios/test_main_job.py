"""One chat turn that delegates to real subagents: the same whichever way it is asked for and however it is run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent, TurnOutcome
from netaclaw.session.v1.entry_pb2 import EntryKind
from netaclaw_cli import reload
from netaclaw_client.comparison import equal
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import FakeOpenAI
from tests.scenarios.normal import Normaliser, as_dict
from tests.scenarios.suites import OpenSuite, RunningSuite, run_python

PROMPT = "in parallel: count the lines per language under src; find the 2 largest files; search needle"
TABLES = {
    "session": "session_id",
    "turn": "session_id, turn_id",
    "entry": "session_id, entry_id",
    "subagent_session": "session_id, parent_entry_id, sort_order",
    "subagent_entry": "session_id, task_id, n",
    "agent": "agent_id",
}


@dataclass
class Outcome:
    """What one run left behind, in normal form."""

    tree: list[Any]
    events: list[Any]
    rows: dict[str, list[Any]]
    answer: Any


async def run_chat(suite: RunningSuite, session_id: str) -> list[ChatEvent]:
    async with suite.client() as client:
        call = client.chat.Chat(ChatRequest(session_id=session_id, content=PROMPT))
        return [event async for response in call for event in response.events]


async def outcome(suite: RunningSuite, rpc: str) -> Outcome:
    """Run the turn and collect tree, events and rows."""
    async with suite.client() as client:
        session_id = await suite.new_session(client)
        answer: Any = None
        if rpc == "Chat":
            events = await run_chat(suite, session_id)
            assert events[-1].WhichOneof("event") == "done"
        else:
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=PROMPT))
            assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
        pages = await suite.tree(client, session_id)
        durable = await suite.events(session_id)
        assert [event.seq for event in durable] == list(range(1, len(durable) + 1))
        normal = Normaliser()
        return Outcome(
            events=normal.events(durable),
            tree=normal.tree(entry for page in pages for entry in page.entries),
            rows={table: normal.rows(await suite.rows(table, order)) for table, order in TABLES.items()},
            answer=None if answer is None else as_dict(answer),
        )


@pytest.mark.parametrize("model", ["scripted", "openai"])
async def test_every_way_to_run_the_turn_leaves_equal_trees_events_and_rows(
    model: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    environ = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url} if model == "openai" else {}
    outcomes: dict[str, Outcome] = {}
    for topology in ("in_process", "four_processes"):
        for rpc in ("Chat", "ExecuteChat"):
            async with open_suite(topology, **environ) as suite:
                outcomes[f"{topology}/{rpc}"] = await outcome(suite, rpc)
    reference = outcomes.pop("in_process/Chat")
    assert len(reference.tree) == 5  # user, assistant, batch, result, assistant
    assert len(reference.rows["subagent_session"]) == 3
    for name, other in outcomes.items():
        assert other.events == reference.events, name
        assert other.tree == reference.tree, name
        assert other.rows == reference.rows, name


async def test_execute_chat_answers_what_the_events_say(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=PROMPT))
        done = (await suite.events(session_id))[-1].done
        entries = {entry.entry_id: entry for page in await suite.tree(client, session_id) for entry in page.entries}
    last = entries[answer.assistant_entry_id]
    assert answer.final_content == "".join(part.text.text for part in last.assistant.parts)
    assert (answer.usage, answer.tool_call_count) == (done.usage, done.tool_call_count)
    (batch,) = answer.subagent_batches
    assert batch == entries[batch.batch_entry_id].subagent_batch.batch
    assert batch.counts.total == batch.counts.completed == 3
    spent = last.assistant.usage.input_tokens + entries[batch.parent_entry_id].assistant.usage.input_tokens
    assert answer.usage.input_tokens == batch.usage.input_tokens + spent


@pytest.mark.parametrize("topology", ["in_process", "four_processes"])
async def test_the_view_of_another_process_equals_the_view_from_events_alone(
    topology: str, open_suite: OpenSuite
) -> None:
    async with open_suite(topology) as suite:
        async with suite.client() as client:
            session_id = await suite.new_session(client)
        live = SessionView(session_id=session_id)
        for event in await run_chat(suite, session_id):
            live.apply(event)
        code, out, err = await run_python(
            "-m", "netaclaw_cli", "reload", "--address", suite.gateway, "--session", session_id
        )
    assert code == 0, err
    reloaded = reload.from_json(json.loads(out))
    assert equal(live, reloaded) == []
    kinds = [entry.kind for entry in reloaded.entries.values()]
    assert kinds.count(EntryKind.ENTRY_KIND_SUBAGENT_RESULT) == 1


async def test_events_come_in_the_order_of_the_contract(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite:
        async with suite.client() as client:
            session_id = await suite.new_session(client)
        events = await run_chat(suite, session_id)
    kinds = [str(event.WhichOneof("event")) for event in events]
    kinds.remove("session_updated")  # the title, taken from the first message
    assert kinds[:4] == [
        "session_entry_added",
        "session_entry_added",
        "session_leaf_changed",
        "assistant_stream_start",
    ]
    assert kinds[-1] == "done"
    for first, then in [
        ("assistant_stream_end", "tool_call_started"),
        ("tool_call_started", "subagent_run_started"),
        ("subagent_run_started", "subagent_event"),
        ("subagent_event", "subagent_run_completed"),
        ("subagent_run_completed", "tool_call_completed"),
    ]:
        assert kinds.index(first) < kinds.index(then), (first, then)
    places = [event.WhichOneof("event") for event in events]
    early = events[: places.index("subagent_run_started")]
    assert all(not event.task_id for event in early), "no task event before its rows are committed"
    assert [event.seq for event in events if event.seq] == list(range(1, sum(1 for e in events if e.seq) + 1))


async def test_the_answer_that_was_streamed_is_the_answer_that_is_stored(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite:
        async with suite.client() as client:
            session_id = await suite.new_session(client)
        streamed: dict[str, str] = {}
        stored: dict[str, str] = {}
        for event in await run_chat(suite, session_id):
            kind = event.WhichOneof("event")
            if kind == "assistant_stream_delta" and not event.task_id:
                delta = event.assistant_stream_delta
                text = streamed.setdefault(event.entry_id, "")
                assert delta.offset == len(text.encode())
                streamed[event.entry_id] = text + delta.text
            elif kind == "session_entry_updated" and event.session_entry_updated.entry.HasField("assistant"):
                entry = event.session_entry_updated.entry
                stored[entry.entry_id] = "".join(part.text.text for part in entry.assistant.parts)
    assert len(streamed) == 2
    assert streamed == stored
