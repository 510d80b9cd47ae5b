"""Compaction through the whole suite: when it is due, when it is asked for, and what is left of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import (
    CancelTurnRequest,
    ChatRequest,
    CompactRequest,
    ExecuteChatRequest,
    ExecuteChatResponse,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState
from netaclaw.session.v1.session_command_service_pb2 import SwitchLeafRequest
from netaclaw.session.v1.session_service_pb2 import GetUsageRequest, ListMessagesRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_client.client import Client
from tests.fakes.openai_server import Call, FakeOpenAI, Item, Reply, Text, Tokens, Wait
from tests.scenarios.reading import chat, of_kind, until, watch
from tests.scenarios.suites import OpenSuite, RunningSuite

WINDOW = 20_000
LONG = "word " * 1600
"""About 2,000 tokens."""
KINDS = ("compaction_start", "compaction_done", "compaction_error")


@dataclass
class Provider:
    """Answers each message with a short text, and a request for a summary with the next summary."""

    summaries: list[list[Item]] = field(default_factory=list)
    """Of the requests for one, in order; afterwards each is `summary N`."""
    limit: int = 10**9
    """Characters of a request above which the prompt is refused."""
    answer: list[Item] = field(default_factory=lambda: list[Item]([Text("answer")]))
    chats: list[list[dict[str, Any]]] = field(default_factory=list)
    """Messages of each answered request, the system's apart."""
    asked: list[str] = field(default_factory=list)
    """What each request for a summary said."""
    asking: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once there is one."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        size = len(str(messages)) + len(str(body.get("tools", "")))
        last = str(messages[-1]["content"])
        if "Sum up the conversation above." in last:
            self.asked.append(last)
            self.asking.set()
            said = self.summaries.pop(0) if self.summaries else [Text(f"summary {len(self.asked)}")]
            return Reply([*said, Tokens(size // 4, 10)])
        if size > self.limit:
            return Reply(status=400, error={"code": "context_length_exceeded", "message": "too long"})
        self.chats.append(messages[1:])
        return Reply([*self.answer, Tokens(size // 4, 5)])


@asynccontextmanager
async def talking(
    open_suite: OpenSuite, server: FakeOpenAI, provider: Provider, topology: str = "in_process", **environ: str
) -> AsyncIterator[tuple[RunningSuite, Client, str]]:
    """A suite on the provider, and a session in it."""
    server.rule = provider
    environ = {"NETACLAW_OPENAI_CONTEXT_WINDOW": str(WINDOW), **environ}
    async with (
        open_suite(topology, NETACLAW_OPENAI_BASE_URL=server.base_url, **environ) as suite,
        suite.client() as client,
    ):
        yield suite, client, await suite.new_session(client)


async def say(client: Client, session_id: str, content: str) -> ExecuteChatResponse:
    request = ExecuteChatRequest(session_id=session_id, content=content)
    return await client.chat.ExecuteChat(request)


async def path_of(client: Client, session_id: str, *, compacted: bool = False) -> list[Entry]:
    """The path to the leaf."""
    request = ListMessagesRequest(session_id=session_id, compacted=compacted)
    return list((await client.sessions.ListMessages(request)).entries)


async def told(suite: RunningSuite, session_id: str) -> list[ChatEvent]:
    """Stored events about compactions."""
    return [event for event in await suite.events(session_id) if event.WhichOneof("event") in KINDS]


def kinds(events: list[ChatEvent]) -> list[str]:
    return [str(event.WhichOneof("event")) for event in events]


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [str(message["content"]) for message in messages]


async def refused(call: Any) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc(caught.value).reason


async def test_a_context_that_reaches_the_threshold_is_compacted_before_the_next_call(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider()
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        answers = [await say(client, session_id, f"message {n} {LONG}") for n in range(10)]
        events = await told(suite, session_id)
        path = await path_of(client, session_id)
        shown = await path_of(client, session_id, compacted=True)
        usage = (await client.sessions.GetUsage(GetUsageRequest(session_id=session_id))).total
    start, done = events[:2]
    assert kinds(events[:2]) == ["compaction_start", "compaction_done"]
    assert not start.compaction_start.manual
    first = next(entry for entry in path if entry.kind == EntryKind.ENTRY_KIND_COMPACTION)
    assert done.compaction_done.compaction_entry_id == first.entry_id == start.entry_id
    body = first.compaction
    assert (body.tokens_before, body.tokens_after) == (
        done.compaction_done.tokens_before,
        done.compaction_done.tokens_after,
    )
    assert body.tokens_after < body.tokens_before / 2
    at = path.index(first)
    assert path[at - 1].kind == EntryKind.ENTRY_KIND_USER, "it stands behind the message, before its answer"
    kept = [entry.entry_id for entry in path[:at]].index(body.first_kept_entry_id)
    assert path[kept].kind == EntryKind.ENTRY_KIND_USER, "turns stay whole"
    assert shown[0].kind == EntryKind.ENTRY_KIND_COMPACTION
    for before, entry in pairwise(path):
        assert entry.parent_entry_id == before.entry_id
    with_summary = next(messages for messages in provider.chats if "summary 1" in str(messages[0]["content"]))
    assert contents(with_summary)[1:] == [
        entry.user.text or entry.assistant.parts[0].text.text for entry in path[kept:at]
    ]
    assert max(len(str(messages)) for messages in provider.chats) < WINDOW * 4
    turn = next(answer for answer in answers if answer.turn_id == first.turn_id)
    assert turn.usage.model_calls == 2
    assert turn.usage.input_tokens > body.usage.input_tokens > 0
    assert usage.model_calls == len(model_server.requests)


async def test_two_compactions_in_a_row_sum_up_the_first_one(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    provider = Provider()
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        for n in range(20):
            await say(client, session_id, f"message {n} {LONG}")
        events = await told(suite, session_id)
        path = await path_of(client, session_id)
    assert len(provider.asked) >= 2
    assert kinds(events) == ["compaction_start", "compaction_done"] * len(provider.asked)
    assert "summary 1" in provider.asked[1]
    assert "message 0 " not in provider.asked[1], "what is summed up is not summed up again"
    assert contents(provider.chats[-1])[0].endswith(f"summary {len(provider.asked)}")
    assert sum(entry.kind == EntryKind.ENTRY_KIND_COMPACTION for entry in path) == len(provider.asked)


async def test_an_overflow_is_met_by_one_compaction_and_the_call_is_made_again(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider()
    async with talking(open_suite, model_server, provider, NETACLAW_OPENAI_CONTEXT_WINDOW="1000000") as talk:
        suite, client, session_id = talk
        for n in range(4):
            await say(client, session_id, f"message {n} {LONG}")
        provider.limit = len(str(provider.chats[-1])) + 12_000
        answers = [await say(client, session_id, f"more {n} {LONG}") for n in range(3)]
        events = await told(suite, session_id)
        path = await path_of(client, session_id)
    assert [answer.final_content for answer in answers] == ["answer"] * 3
    assert kinds(events) == ["compaction_start", "compaction_done"] * len(provider.asked)
    assert len(provider.asked) >= 1
    assert all(entry.state == EntryState.ENTRY_STATE_COMPLETE for entry in path if entry.HasField("assistant"))


async def test_a_prompt_that_fits_no_window_is_said_once(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    provider = Provider(limit=100)
    async with talking(open_suite, model_server, provider, NETACLAW_OPENAI_CONTEXT_WINDOW="50") as talk:
        _, client, session_id = talk
        events = [event async for event in chat(client, ChatRequest(session_id=session_id, content="hello"))]
    [error] = of_kind(events, "error")
    assert error.error.reason == "CONTEXT_TOO_LONG"
    assert len(model_server.requests) == 1
    assert kinds(events)[-1] == "error"


async def test_a_compaction_that_frees_nothing_says_so_once_and_stops(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider(answer=[Call("list_files", '{"path": "."}')], summaries=[[Text("so " * 40_000)]] * 99)
    async with talking(open_suite, model_server, provider, NETACLAW_OPENAI_CONTEXT_WINDOW="12000") as talk:
        suite, client, session_id = talk
        for n in range(3):
            provider.answer = [Text("answer")]
            await say(client, session_id, f"message {n} {LONG}")
        rounds: list[list[Item]] = [[Call("list_files", '{"path": "."}')] for _ in range(4)]
        rounds.append([Text("done")])
        turns = iter(rounds)

        def rule(body: dict[str, Any]) -> Reply:
            if "Sum up" not in str(body["messages"][-1]["content"]):
                provider.answer = next(turns)
            return provider(body)

        model_server.rule = rule
        answer = await say(client, session_id, f"list {LONG}")
        events = await told(suite, session_id)
    assert answer.final_content == "done"
    assert kinds(events) == ["compaction_start", "compaction_error"]
    assert "free nothing" in events[-1].compaction_error.message
    assert len(provider.asked) == 1


async def test_a_person_compacts_with_instructions_and_the_conversation_goes_on(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider()
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        request = CompactRequest(session_id=session_id, instructions="the colour of the roof")
        entry = (await client.chat.Compact(request)).entry
        path = await path_of(client, session_id)
        last = await say(client, session_id, "go on")
        events = await told(suite, session_id)
        usage = (await client.sessions.GetUsage(GetUsageRequest(session_id=session_id))).total
    assert path[-1] == entry or path[-1].entry_id == entry.entry_id
    assert (entry.compaction.manual, entry.compaction.instructions) == (True, "the colour of the roof")
    assert "the colour of the roof" in provider.asked[0]
    assert kinds(events) == ["compaction_start", "compaction_done"]
    assert events[0].compaction_start.manual
    assert last.final_content == "answer"
    assert "summary 1" in contents(provider.chats[-1])[0]
    assert contents(provider.chats[-1])[-1] == "go on"
    assert usage.model_calls == 5


async def test_a_compaction_by_hand_is_refused_where_it_frees_nothing_or_a_turn_runs(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()
    provider = Provider()
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        request = CompactRequest(session_id=session_id)
        assert await refused(client.chat.Compact(request)) == Reason.REASON_NOT_COMPACTED
        await say(client, session_id, "hello")
        provider.answer = [Text("half"), Wait(held)]
        running = chat(client, ChatRequest(session_id=session_id, content="wait"))
        await until(running, "assistant_stream_delta")
        assert await refused(client.chat.Compact(request)) == Reason.REASON_TURN_RUNNING
        held.set()
        await until(running, "done")
        events = await told(suite, session_id)
    assert not events
    assert not provider.asked


@pytest.mark.parametrize("what", ["message", "switch"])
async def test_messages_and_navigation_wait_for_a_compaction(
    what: str, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()
    provider = Provider(summaries=[[Wait(held), Text("the summary")]])
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        before = await path_of(client, session_id)
        watching = watch(client, session_id)
        compacting = asyncio.ensure_future(client.chat.Compact(CompactRequest(session_id=session_id)))
        await until(watching, "compaction_start")
        switch = SwitchLeafRequest(session_id=session_id, leaf_entry_id=before[1].entry_id)
        meanwhile: Any = client.commands.SwitchLeaf(switch) if what == "switch" else say(client, session_id, what)
        waiting = asyncio.ensure_future(meanwhile)
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        held.set()
        entry = (await compacting).entry
        await waiting
        path = await path_of(client, session_id)
        events = await told(suite, session_id)
    assert kinds(events) == ["compaction_start", "compaction_done"]
    assert entry.parent_entry_id == before[-1].entry_id
    if what == "switch":
        assert [each.entry_id for each in path] == [each.entry_id for each in before[:2]]
    else:
        assert "the summary" in contents(provider.chats[-1])[0]
        assert [each.entry_id for each in path[:7]] == [*(each.entry_id for each in before), entry.entry_id]


@pytest.mark.parametrize("manual", [False, True])
async def test_cancel_ends_a_compaction_and_leaves_the_path(
    manual: bool, open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider(summaries=[[Wait(asyncio.Event())]])
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        for n in range(6):
            await say(client, session_id, f"message {n} {LONG}")
        before = await path_of(client, session_id)
        watching = watch(client, session_id)
        if manual:
            work: Any = asyncio.ensure_future(client.chat.Compact(CompactRequest(session_id=session_id)))
        else:
            work = asyncio.ensure_future(say(client, session_id, LONG * 3))
        await until(watching, "compaction_start")
        await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
        if manual:
            assert await refused(work) == Reason.REASON_NOT_COMPACTED
        else:
            assert (await work).usage.estimated_calls == 1
        path = await path_of(client, session_id)
        events = await told(suite, session_id)
        again = await say(client, session_id, "go on")
    assert kinds(events) == ["compaction_start", "compaction_error"]
    assert "cancelled" in events[-1].compaction_error.message
    assert [entry.entry_id for entry in path[: len(before)]] == [entry.entry_id for entry in before]
    assert not any(entry.kind == EntryKind.ENTRY_KIND_COMPACTION for entry in path)
    assert again.final_content == "answer"


async def test_a_new_owner_starts_a_compaction_again(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    provider = Provider(summaries=[[Wait(asyncio.Event())], [Text("the second try")]])
    async with talking(open_suite, model_server, provider, "four_processes") as (suite, client, session_id):
        for n in range(6):
            await say(client, session_id, f"message {n} {LONG}")
        watching = watch(client, session_id)
        sending = asyncio.ensure_future(say(client, session_id, LONG * 3))
        await until(watching, "compaction_start")
        await suite.restart("orchestrator")
        with pytest.raises(grpc.aio.AioRpcError):
            await sending
        await until(watch(client, session_id), "done", 7)
        assert len(provider.asked) == 2
        events = await told(suite, session_id)
        path = await path_of(client, session_id)
    assert kinds(events) == ["compaction_start", "compaction_error", "compaction_start", "compaction_done"]
    [compaction] = [entry for entry in path if entry.kind == EntryKind.ENTRY_KIND_COMPACTION]
    assert compaction.compaction.summary == "the second try"
    assert compaction.compaction.usage.estimated_calls == 1, "the call that died with its owner counts"
    assert path[-1].assistant.parts[0].text.text == "answer"


async def test_a_branch_from_before_a_compaction_sees_the_whole_and_the_other_one_its_summary(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    provider = Provider()
    async with talking(open_suite, model_server, provider) as (_, client, session_id):
        answers = [await say(client, session_id, f"message {n} {LONG}") for n in range(3)]
        await client.chat.Compact(CompactRequest(session_id=session_id))
        end = await say(client, session_id, "after it")
        branch = ExecuteChatRequest(
            session_id=session_id, content="before it", leaf_entry_id=answers[1].assistant_entry_id
        )
        await client.chat.ExecuteChat(branch)
        whole = provider.chats[-1]
        switch = SwitchLeafRequest(session_id=session_id, leaf_entry_id=end.assistant_entry_id)
        await client.commands.SwitchLeaf(switch)
        await say(client, session_id, "again")
        summed = provider.chats[-1]
    assert [text[:9] for text in contents(whole)] == ["message 0", "answer", "message 1", "answer", "before it"]
    assert "summary 1" in contents(summed)[0]
    assert contents(summed)[-3:] == ["after it", "answer", "again"]
