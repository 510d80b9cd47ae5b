"""Children whose context outgrows their model's window: it is summed up, and nothing of what they did is lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.session.v1.session_service_pb2 import (
    GetUsageRequest,
    ListProcessEventsRequest,
    ListSubagentEntriesRequest,
)
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask
from netaclaw_client.client import Client
from tests.fakes.openai_server import Call, FakeOpenAI, Item, Reply, Text, Tokens, Wait
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.goals import CHILD_MARK, tasks
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, state_name, until
from tests.scenarios.suites import OpenSuite, RunningSuite

WINDOW = 20_000
ROUNDS = 8
"""Of reading a file; the long one takes about 3,000 tokens."""
LINES = "a line of words\n" * 750
REFUSAL = {"code": "context_length_exceeded", "message": "too long"}


@dataclass
class Reader:
    """A child that reads one file again and again; the main agent delegates once."""

    summary: str = "child summary"
    limit: int = 10**9
    """Characters of a child's request above which it is refused."""
    long_reads: int = ROUNDS
    """How often it reads the long file; then a short one."""
    before_end: asyncio.Event | None = None
    """What its last answer waits for."""
    chats: list[list[dict[str, Any]]] = field(default_factory=list)
    """Messages of the child's answered requests."""
    summaries: int = 0
    refused: int = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        tokens = Tokens(len(str(messages)) // 4, 5)
        if "Sum up the conversation above." in str(messages[-1]["content"]):
            self.summaries += 1
            return Reply([Text(self.summary), tokens])
        if CHILD_MARK not in str(messages[0]["content"]):
            done = messages[-1]["role"] == "tool"
            said: Item = Text("done") if done else Call("delegate_parallel", str(messages[-1]["content"]))
            return Reply([said, Tokens(100, 5)])
        if len(str(messages)) > self.limit:
            self.refused += 1
            return Reply(status=400, error=REFUSAL)
        self.chats.append(messages)
        if len(self.chats) > ROUNDS:
            waits = [] if self.before_end is None else [Wait(self.before_end)]
            return Reply([*waits, Text("read it all"), tokens])
        name = "long.txt" if len(self.chats) <= self.long_reads else "short.txt"
        return Reply([Call("read_file", json.dumps({"path": name})), tokens])

    @property
    def made(self) -> int:
        """Model calls on the child's behalf."""
        return len(self.chats) + self.summaries + self.refused


async def run(
    open_suite: OpenSuite, server: FakeOpenAI, reader: Reader, window: int = WINDOW
) -> tuple[SubagentTask, list[ProcessEvent], int]:
    """The task as it ended, its steps, and how many messages its transcript has."""
    server.rule = reader
    environ = {"NETACLAW_OPENAI_BASE_URL": server.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": str(window)}
    async with open_suite("in_process", **environ) as suite, suite.client() as client:
        (suite.workspace / "long.txt").write_text(LINES)
        (suite.workspace / "short.txt").write_text("a line\n")
        return await _told(suite, client)


async def _told(suite: RunningSuite, client: Client) -> tuple[SubagentTask, list[ProcessEvent], int]:
    session_id = await suite.new_session(client)
    events = await until(chat(client, ChatRequest(session_id=session_id, content=tasks("read"))), "done")
    [completed] = of_kind(events, "subagent_run_completed")
    batch = completed.subagent_run_completed.batch
    steps = ListProcessEventsRequest(session_id=session_id, batch_entry_id=batch.batch_entry_id)
    found = (await client.sessions.ListProcessEvents(steps)).process_events
    listing = ListSubagentEntriesRequest(session_id=session_id, task_id=batch.items[0].task_id, page_size=500)
    transcript = await client.sessions.ListSubagentEntries(listing)
    return batch.items[0], list(found), len(transcript.entries)


def compactions(steps: list[ProcessEvent]) -> list[tuple[bool, str]]:
    return [(step.is_error, step.content) for step in steps if step.type == "compaction"]


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Each result stands behind the answer with its call."""
    called: set[str] = set()
    for message in messages:
        called |= {call["id"] for call in message.get("tool_calls", ())}
        assert message["role"] != "tool" or message["tool_call_id"] in called


async def test_a_childs_context_is_summed_up_at_the_threshold_and_its_transcript_stays_whole(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    reader = Reader()
    task, steps, transcript = await run(open_suite, model_server, reader)
    assert (state_name(task), task.summary) == ("COMPLETED", "read it all")
    assert compactions(steps) == [(False, "child summary")] * reader.summaries
    assert reader.summaries >= 1
    assert transcript == 1 + ROUNDS + 1, "the goal, each answer with its result, and the last answer"
    for messages in reader.chats:
        check_pairs(messages)
        assert len(str(messages)) < WINDOW * 4
    shortened = reader.chats[-1]
    goal, summary = str(shortened[1]["content"]).split("\n\nSummary of the conversation so far:\n\n")
    assert "Goal:\nread" in goal
    assert summary == "child summary"
    assert task.usage.model_calls == reader.made
    assert task.usage.input_tokens > sum(len(str(messages)) // 4 for messages in reader.chats)


async def test_a_child_whose_prompt_is_refused_for_its_length_is_summed_up_once_and_asked_again(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    reader = Reader(limit=60_000)
    task, steps, _ = await run(open_suite, model_server, reader, window=1_000_000)
    assert (state_name(task), task.summary) == ("COMPLETED", "read it all")
    assert reader.refused == reader.summaries == len(compactions(steps))
    assert reader.summaries >= 1
    assert task.usage.model_calls == reader.made


async def test_a_childs_compaction_that_frees_nothing_says_so_once(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    reader = Reader(summary="ß" * 40_000, long_reads=5)
    task, steps, _ = await run(open_suite, model_server, reader)
    assert state_name(task) == "COMPLETED"
    [(is_error, words)] = compactions(steps)
    assert is_error
    assert "free nothing" in words
    assert reader.summaries == 1, "not again before the context has grown"


async def test_a_child_whose_goal_alone_is_too_long_fails_with_the_providers_words(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    reader = Reader(limit=10)
    task, steps, _ = await run(open_suite, model_server, reader)
    assert state_name(task) == "FAILED"
    assert "the prompt does not fit into the model's window" in task.error
    assert reader.refused == 1
    assert compactions(steps) == []


async def test_a_compaction_is_told_once_where_the_childs_owner_dies(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()
    reader = model_server.rule = Reader(before_end=held)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": str(WINDOW)}
    async with pair_of(first_as_process=True, **settings) as pair, pair.two.client() as other:
        suite = pair.two.suite
        (suite.workspace / "long.txt").write_text(LINES)
        async with pair.one.client() as client:
            session_id = await pair.one.suite.new_session(client)
            turn = asyncio.ensure_future(
                client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=tasks("read")))
            )
            async with followers(session_id, suite) as (follower,):
                await follower.until(lambda: len(reader.chats) > ROUNDS)
                await pair.one.kill()
                await asyncio.wait([turn])
                held.set()
                await follower.until_kind("done")
                await check_whole(suite, other, follower)
        steps = [event.subagent_event.process_event for event in of_kind(follower.events, "subagent_event")]
        usage = (await other.sessions.GetUsage(GetUsageRequest(session_id=session_id))).subagents
    assert reader.summaries >= 1
    assert compactions(steps) == [(False, "child summary")] * reader.summaries
    assert usage.model_calls == reader.made
