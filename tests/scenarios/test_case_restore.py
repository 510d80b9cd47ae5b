"""What a page finds again: calls that were stopped, positions of other runs, states of what has died."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.entry_pb2 import ENTRY_STATE_INTERRUPTED, ENTRY_STATE_STREAMING
from netaclaw_client import SessionView, equal, follow
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, ScriptedRule, Text, Wait
from tests.scenarios.followers import Follower, check_whole, followers
from tests.scenarios.reading import chat, of_kind, state_name, until, watch
from tests.scenarios.suites import OpenSuite, RunningSuite

STOP, REPLAY = (
    json.loads((Path(__file__).parents[1] / "cases" / name).read_text()) for name in ("tree-06.json", "replay-01.json")
)
LEASE = {"NETACLAW_LEASE_SECONDS": "2"}
HELLO = [piece["t"] for piece in REPLAY["log"] if piece["ev"] == "text"]
"""Pieces of the case's answer."""


async def wait_for_file(path: Path) -> None:
    """Wait until a command in another process has written it."""
    async with asyncio.timeout(20):
        while not (path.exists() and path.read_text()):  # noqa: ASYNC110, ASYNC240  # a command elsewhere writes it
            await asyncio.sleep(0.02)  # nobody tells of it


@pytest.mark.parametrize("way", ["the user presses stop", "the orchestrator is killed"])
async def test_every_call_of_a_stopped_message_has_one_true_result(
    way: str, open_suite: OpenSuite, model_server: FakeOpenAI, workspace: Path
) -> None:
    """C28: three calls, one answered, one running, one not begun; then a stop or a death, and another message."""
    first, second = (entry["text"] for entry in (STOP["entries"][0], {"text": "q2"}))
    calls = [
        Call("list_files", json.dumps({"path": "src"})),
        Call("run_shell", json.dumps({"command": "echo ran >> ran.txt; exec sleep 300"})),
        Call("write_file", json.dumps({"path": "third.txt", "content": "third"})),
    ]

    async def rule(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "user" and last["content"] == first:
            return Reply(calls)
        return Reply([Text("went on")])

    model_server.rule = rule
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        agent = Agent(name="worker", shell_enabled=True)
        made = await client.agents.CreateAgent(CreateAgentRequest(agent=agent))
        session_id = await suite.new_session(client, agent_id=made.agent.agent_id)
        async with followers(session_id, suite) as (follower,):
            events = chat(client, ChatRequest(session_id=session_id, content=first))
            await until(events, "tool_call_started", 2)
            await wait_for_file(workspace / "ran.txt")
            if way == "the user presses stop":
                await client.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
            else:
                suite.kill("orchestrator")
                await events.aclose()
            await follower.until_kind("done")
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=second))
            await follower.until_kind("done", 2)
            await check_whole(suite, client, follower)
    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    sent = model_server.requests[-1].body["messages"]
    asked = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert (len(asked), answered) == (3, asked)
    results = [message["content"] for message in sent if message["role"] == "tool"]
    assert "one.py" in results[0]
    assert "may have had effect" in results[1] or "whether it took effect is not known" in results[1]
    assert (workspace / "ran.txt").read_text() == "ran\n"
    if way == "the user presses stop":
        assert "never began" in results[2]
        assert not (workspace / "third.txt").exists()
    else:
        assert (workspace / "third.txt").read_text() == "third"  # the turn went on, and began it


class HalfHello:
    """A child says x, and then the answer comes in the case's pieces, the second half when it is let."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return Reply([Text(HELLO[0]), Text(HELLO[1]), Wait(self.go_on), Text(HELLO[2]), Text(HELLO[3])])
        if last["content"] == "go":
            return Reply([Call("delegate_task", json.dumps({"goal": "say x"}))])
        return Reply([Text("x")])


def shown(view: SessionView) -> str:
    """The last answer, as a page shows it."""
    *_, last = [entry for entry in view.entries.values() if entry.HasField("assistant")]
    return view.text_of(last.entry_id)


async def test_an_answer_is_shown_once_whatever_the_client_had_before(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C57: resumes in the middle, two at once, on top of the history, from another run, after a gap, after the end."""
    half = model_server.rule = HalfHello()
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_WATCH_HEARTBEAT_SECONDS": "0.2"}
    expected = REPLAY["scenarios"][0]["expect_text"]
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (steady,):
            turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="go")), "done"))
            await steady.until(lambda: "".join(HELLO[:2]) in steady.written)
            resumed = SessionView(session_id=session_id)
            for event in steady.events[:-1]:
                resumed.apply(event)
            async with followers(session_id, suite, suite) as back_to_back:
                history = Follower(client, session_id)
                history.view = await client.load(session_id)
                reading = asyncio.create_task(history.run(from_seq=0))
                again = asyncio.create_task(resume(suite, resumed, times=2))
                for each in back_to_back:
                    await each.until(lambda each=each: "".join(HELLO[:2]) in each.written)  # type: ignore[misc]  # one use
                half.go_on.set()
                await turn
                await history.until_kind("done")
                reading.cancel()
                await again
                for each in (steady, *back_to_back):
                    await each.until_kind("done")
                await check_whole(suite, client, steady, *back_to_back)
            stored = await client.load(session_id)
            for view in (steady.view, resumed, history.view, *(each.view for each in back_to_back)):
                assert shown(view) == expected
                assert equal(view, stored) == []
            batches = {entry.parent_entry_id for entry in stored.batches()}
        assert batches == {next(e.entry_id for e in stored.entries.values() if e.HasField("assistant"))}
        await unknown_positions(suite, session_id, stored)


async def resume(suite: RunningSuite, view: SessionView, times: int) -> None:
    """Feed one view from several streams that begin at the same position, as a hasty page does."""
    async with suite.client() as client:

        async def read() -> None:
            async with aclosing(watch(client, view.session_id, view.seq)) as events:
                async for event in events:
                    if event.seq <= view.seq + 1:  # the other stream may be further
                        view.apply(event)
                    if event.WhichOneof("event") == "done":
                        return

        await asyncio.gather(*(read() for _ in range(times)))


async def unknown_positions(suite: RunningSuite, session_id: str, stored: SessionView) -> None:
    """From 900 and from before retention a client is told to load anew; after the end it hears how far the log is."""
    snapshots: list[SessionView] = []
    async with suite.client() as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await until(watch(client, session_id, 900), "heartbeat")
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
        async with asyncio.timeout(20), aclosing(follow(client, session_id, 900, snapshot=snapshots.append)) as events:
            event = await anext(events)
        assert (event.heartbeat.seq, snapshots[0].seq) == (stored.seq, stored.seq)
        assert equal(snapshots[0], stored) == []
        quiet = await until(watch(client, session_id, stored.seq), "heartbeat")
        assert [event.heartbeat.seq for event in quiet] == [stored.seq]


async def test_an_interrupted_answer_is_marked_within_the_lease_and_can_be_tried_again(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C60: its owner dies again and again; whoever reloads sees partial text, no writing, and may ask once more."""
    asked: list[int] = []

    async def rule(request: dict[str, Any]) -> Reply:
        asked.append(len(request["messages"]))
        if len(asked) > 3:
            return Reply([Text("a whole answer")])
        return Reply([Text("half an answer"), Wait(asyncio.Event())])

    model_server.rule = rule
    settings = {**LEASE, "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            events = chat(client, ChatRequest(session_id=session_id, content="go"))
            await until(events, "assistant_stream_delta")
            await events.aclose()
            seen = 0
            while True:  # an owner whose lease ran out on a busy machine has died, too
                await follower.until(lambda n=seen: drafted(follower.view) > n or of_kind(follower.events, "done"))  # type: ignore[misc]  # one use
                if of_kind(follower.events, "done"):
                    break
                seen = drafted(follower.view)
                suite.kill("orchestrator")
            reloaded = await client.load(session_id)
            (user, answer) = reloaded.entries.values()
            assert answer.state == ENTRY_STATE_INTERRUPTED
            assert "half an answer".startswith(reloaded.text_of(answer.entry_id))
            again = ExecuteChatRequest(session_id=session_id, content="go", leaf_entry_id=answer.entry_id)
            retried = await client.chat.ExecuteChat(again)
            await follower.until_kind("done", 2)
            await check_whole(suite, client, follower)
        turns = await suite.rows("turn", "turn_id")
    assert (user.HasField("user"), retried.final_content) == (True, "a whole answer")
    assert [turn["state"] for turn in turns] == ["ended", "ended"]


def drafted(view: SessionView) -> int:
    """The newest attempt that shows text."""
    return max((draft.attempt for draft in view.drafts.values() if draft.text), default=0)


async def test_every_end_state_of_a_child_is_an_end_for_whoever_reloads(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C60: children that end in different ways leave no running state in the tree, the rows or a view."""
    model_server.rule = ScriptedRule()
    goals = ("count files", "TOO-LONG", "FAIL-500", "EMPTY", "HANG")
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_TIMEOUT_SECONDS": "2"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            content = "in parallel: " + "; ".join(goals)
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=content))
            await follower.until_kind("done")
            await check_whole(suite, client, follower)
        reloaded = await client.load(session_id)
        rows = await suite.rows("subagent_session", "sort_order")
    (batch,) = answer.subagent_batches
    states = [state_name(item) for item in batch.items]
    assert states == ["COMPLETED", "PARTIAL", "FAILED", "FAILED", "TIMED_OUT"]
    assert [row["status"].upper() for row in rows] == states
    counts = batch.counts
    assert (counts.total, counts.queued, counts.running) == (5, 0, 0)
    assert reloaded.drafts == {}
    assert not [entry for entry in reloaded.entries.values() if entry.state == ENTRY_STATE_STREAMING]
