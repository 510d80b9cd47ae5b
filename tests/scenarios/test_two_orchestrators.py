"""Two orchestrators and two stores on one database serve the same sessions; each session has one owner at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, ExecuteChatRequest, WhenBusy
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Session
from netaclaw.session.v1.session_command_service_pb2 import (
    DeleteBranchRequest,
    DeleteSessionRequest,
    SwitchLeafRequest,
    UpdateSessionRequest,
)
from netaclaw.store.v1.journal_service_pb2 import BeginTurnRequest, BeginTurnResponse
from netaclaw_chassis.calls import OWNER_KEY
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import from_rpc
from netaclaw_orchestrator.owners import FORWARDED
from netaclaw_store import journal_service
from netaclaw_store.begin_turn import begin_turn
from tests.fakes.openai_server import Call, FakeOpenAI
from tests.processes import gone
from tests.scenarios.followers import Follower, check_whole, followers
from tests.scenarios.held_answers import Held
from tests.scenarios.pairs import OpenPair, Side
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OWNER, SERVICE_TOKEN

HANDOVER_S = 10.0
"""The lease of 1 s, the next look for orphans, and the turn itself on a busy machine."""


async def test_watchers_of_both_instances_see_a_turn_live_wherever_it_runs(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    held = model_server.rule = Held()
    async with pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair, pair.one.client() as client:
        session_id = await pair.one.suite.new_session(client)
        async with followers(session_id, pair.one.suite, pair.two.suite) as (here, there):
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
            for each in (here, there):
                await each.until_kind("done")
            turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="wait")), "done"))
            for each in (here, there):
                await each.until(lambda each=each: each.written == {"first"})  # type: ignore[misc]  # one use
            assert not turn.done()
            async with followers(session_id, pair.one.suite, pair.two.suite) as late:
                for each in late:
                    await each.until(lambda each=each: each.written == {"first"})  # type: ignore[misc]  # one use
                held.open.set()
                await turn
                for each in (here, there, *late):
                    await each.until_kind("done", 2)
                await check_whole(pair.two.suite, client, here, there, *late)


async def test_watchers_of_both_instances_see_a_delegation_whole(pair_of: OpenPair, model_server: FakeOpenAI) -> None:
    held = model_server.rule = Held(Call("delegate_task", '{"goal": "look"}'))
    async with pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair, pair.one.client() as client:
        session_id = await pair.one.suite.new_session(client)
        async with followers(session_id, pair.one.suite, pair.two.suite) as (here, there):
            turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="wait")), "done"))
            await there.until(lambda: there.written == {"first"})
            held.open.set()
            await turn
            for each in (here, there):
                await each.until_kind("done")
            await check_whole(pair.two.suite, client, here, there)
        childrens = [e for e in of_kind(there.events, "assistant_stream_delta") if e.task_id]
    assert childrens, "live text of children is passed on, too"


async def test_a_message_to_the_wrong_instance_is_passed_on_to_the_owner(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    held = model_server.rule = Held()
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as one,
        pair.two.client() as two,
    ):
        session_id = await pair.one.suite.new_session(one)
        first = asyncio.create_task(until(chat(one, ChatRequest(session_id=session_id, content="wait")), "done"))
        await held.began.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await two.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="now"))
        waiting = ChatRequest(session_id=session_id, content="later", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
        queued = chat(two, waiting)
        await until(queued, "message_receipt")
        held.open.set()
        await first
        await until(queued, "done")
        answer = await two.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        assert await pair.two.owner_of(session_id) == "one"
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert answer.final_content == "you said hello"


async def test_a_message_that_is_passed_on_to_another_than_the_owner_is_to_be_sent_again(pair_of: OpenPair) -> None:
    """As after a death: the next process has the address of the one that the lease names."""
    async with pair_of() as pair, pair.one.client() as one, connect(pair.two.orchestrator, SERVICE_TOKEN) as two:
        session_id = await pair.one.suite.new_session(one)
        request = ExecuteChatRequest(session_id=session_id, content="hello")
        await one.chat.ExecuteChat(request)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ChatServiceStub(two).ExecuteChat(request, metadata=((OWNER_KEY, OWNER), FORWARDED))
    error = from_rpc(refused.value)
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.REASON_SERVICE_UNAVAILABLE)
    assert error.retry_after == 1.0


async def test_a_turn_is_cancelled_through_the_wrong_instance(pair_of: OpenPair, model_server: FakeOpenAI) -> None:
    model_server.rule = Held()
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as one,
        pair.two.client() as two,
    ):
        session_id = await pair.one.suite.new_session(one)
        events = chat(one, ChatRequest(session_id=session_id, content="wait"))
        await until(events, "assistant_stream_delta")
        cancelled = await two.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
        (done,) = of_kind(await until(events, "done"), "done")
    assert (cancelled.turn_id, done.done.outcome) == (done.turn_id, TurnOutcome.TURN_OUTCOME_CANCELLED)


async def test_the_tree_is_changed_through_the_wrong_instance_and_all_see_it(pair_of: OpenPair) -> None:
    async with pair_of() as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.one.suite.new_session(one)
        async with followers(session_id, pair.one.suite, pair.two.suite) as (here, there):
            answers = [
                await one.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=f"hello {n}"))
                for n in range(2)
            ]
            await two.commands.SwitchLeaf(
                SwitchLeafRequest(session_id=session_id, leaf_entry_id=answers[0].assistant_entry_id)
            )
            renamed = Session(session_id=session_id, title="renamed")
            await two.commands.UpdateSession(UpdateSessionRequest(session=renamed, update_mask={"paths": ["title"]}))
            for each in (here, there):
                await each.until(lambda each=each: each.view.session.title == "renamed")  # type: ignore[misc]  # one use
            user = next(e for e in here.view.entries.values() if e.turn_id == answers[1].turn_id)
            await two.commands.DeleteBranch(DeleteBranchRequest(session_id=session_id, entry_id=user.entry_id))
            for each in (here, there):
                await each.until_kind("session_entry_removed", 2)
            await check_whole(pair.one.suite, one, here, there)
            answer = await two.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="again"))
            for each in (here, there):
                await each.until_kind("done", 3)
            await check_whole(pair.one.suite, one, here, there)
        entry = here.view.entries[answer.assistant_entry_id]
        asked = here.view.entries[entry.parent_entry_id]
    assert asked.parent_entry_id == answers[0].assistant_entry_id


async def test_a_session_that_is_deleted_through_the_other_instance_ends_every_watch(pair_of: OpenPair) -> None:
    async with pair_of() as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.one.suite.new_session(one)
        made = [Follower(client, session_id) for client in (one, two)]
        tasks = [asyncio.create_task(each.run()) for each in made]
        await one.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        for each in made:
            await each.until_kind("done")
        await two.commands.DeleteSession(DeleteSessionRequest(session_id=session_id))
        async with asyncio.timeout(10):
            ends = await asyncio.gather(*tasks, return_exceptions=True)
    codes = [end.code() for end in ends if isinstance(end, grpc.aio.AioRpcError)]
    assert codes == [grpc.StatusCode.NOT_FOUND] * 2


async def test_a_deletion_through_the_other_instance_ends_the_children_soon(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as one,
        pair.two.client() as two,
    ):
        session_id = await pair.one.suite.new_session(one)
        pid = 0
        call = one.chat.Chat(ChatRequest(session_id=session_id, content="delegate: HANG a"))
        async for response in call:
            pid = max([pid, *(event.subagent_event.item.worker_pid for event in response.events)])
            if pid:
                break
        await two.commands.DeleteSession(DeleteSessionRequest(session_id=session_id))
        async with asyncio.timeout(5):  # by a notice; a runner would hold what another owner may go on with for 15 s
            await gone(pid)
        call.cancel()


async def test_an_owner_that_fell_silent_writes_nothing_once_another_has_taken_over(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    held = model_server.rule = Held()
    async with pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair, pair.two.client() as client:
        session_id = await pair.two.suite.new_session(client)
        async with pair.one.client() as first, followers(session_id, pair.one.suite, pair.two.suite) as (here, there):
            await until(chat(first, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            pair.one.to_store.hush()
            await there.until(lambda: held.asked == 2 and there.written == {"first"})
            assert await pair.two.owner_of(session_id) == "two"
            held.open.set()  # both models answer now, and both instances would write the end of the turn
            await there.until_kind("done")
            pair.one.to_store.speak()
            await here.until_kind("done")
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="more"))
            for each in (here, there):
                await each.until_kind("done", 2)
            await check_whole(pair.two.suite, client, here, there)
        turns = await pair.two.suite.rows("turn", "turn_id")
    (assistant, _) = [entry for entry in there.view.entries.values() if entry.HasField("assistant")]
    assert (assistant.assistant.attempt, assistant.assistant.parts[0].text.text) == (2, "first answer")
    assert [(turn["state"], turn["takeovers"]) for turn in turns] == [("ended", 1), ("ended", 0)]


@pytest.mark.parametrize("way", ["closed", "killed"])
async def test_the_turn_of_an_owner_that_goes_is_handed_over(
    way: str, pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    held = model_server.rule = Held()
    opened = pair_of(first_as_process=way == "killed", NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    leave: dict[str, Callable[[Side], Awaitable[None]]] = {"closed": Side.close, "killed": Side.kill}
    async with opened as pair, pair.one.client() as first, pair.two.client() as client:
        session_id = await pair.two.suite.new_session(client)
        async with followers(session_id, pair.two.suite) as (there,):
            await until(chat(first, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            assert await pair.two.owner_of(session_id) == "one"
            await leave[way](pair.one)
            async with asyncio.timeout(HANDOVER_S):
                await there.until(lambda: held.asked == 2 and there.written == {"first"})
            assert await pair.two.owner_of(session_id) == "two"
            held.open.set()
            await there.until_kind("done")
            await check_whole(pair.two.suite, client, there)
    (assistant,) = [entry for entry in there.view.entries.values() if entry.HasField("assistant")]
    assert assistant.assistant.parts[0].text.text == "first answer"
    tried = [e.session_entry_updated.entry.assistant.attempt for e in there.events]
    shown = [e.assistant_stream_start.attempt for e in there.events]
    assert tried.index(2) < shown.index(2), "two owners would give their attempts one number"


async def test_messages_that_wait_when_their_owner_dies_between_two_turns_are_begun_by_another(
    pair_of: OpenPair, model_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = model_server.rule = Held()
    begun = asyncio.Event()

    async def never(database: Any, request: BeginTurnRequest) -> BeginTurnResponse:
        if request.from_queue and request.instance_id == "one":
            begun.set()
            await asyncio.Event().wait()  # its owner dies first
        return await begin_turn(database, request)

    monkeypatch.setattr(journal_service, "begin_turn", never)
    opened = pair_of(first_as_process=True, NETACLAW_OPENAI_BASE_URL=model_server.base_url)
    async with opened as pair, pair.one.client() as one, pair.two.client() as two:
        session_id = await pair.two.suite.new_session(two)
        async with followers(session_id, pair.two.suite) as (there,):
            await until(chat(one, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            for name in ("second", "third"):
                request = ChatRequest(session_id=session_id, content=name, when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
                await until(chat(one, request), "message_receipt")
            held.open.set()
            async with asyncio.timeout(HANDOVER_S):
                await begun.wait()
            await pair.one.kill()
            await there.until_kind("done", 3)
            await check_whole(pair.two.suite, two, there)
    asked = [entry.user.text for entry in there.view.entries.values() if entry.HasField("user")]
    assert asked == ["wait", "second", "third"]
