"""The first message of a session, sent again in other words: both stand as roots, and neither knows of the other."""

from __future__ import annotations

import asyncio

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, CompactRequest, ExecuteChatRequest, WhenBusy
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.session.v1.session_command_service_pb2 import DeleteBranchRequest, SwitchLeafRequest
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Reply, Text, Wait
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite, RunningSuite

OPENAI = "NETACLAW_OPENAI_BASE_URL"


class Echo:
    """A model that says what it was told, sums up where that is asked, and holds its answer to "wait"."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.told: list[list[str]] = []
        """The conversation of each call, without what the agent is told of itself."""

    async def __call__(self, request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        words = [str(each["content"]) for each in messages if each["role"] != "system"]
        self.told.append(words)
        if words[-1] == "wait":
            return Reply([Text("first"), Wait(self.open), Text(" answer")])
        if "Sum up" in words[-1]:
            return Reply([Text("in short")])
        return Reply([Text(f"you said {words[-1]}")])


async def _say(client: Client, session_id: str, content: str, **fields: object) -> str:
    """One turn; its last entry."""
    request = ExecuteChatRequest(session_id=session_id, content=content, **fields)  # type: ignore[arg-type]  # by name
    return (await client.chat.ExecuteChat(request)).assistant_entry_id


async def _roots(suite: RunningSuite, client: Client, session_id: str) -> list[Entry]:
    pages = await suite.tree(client, session_id)
    return [entry for page in pages for entry in page.entries if not entry.parent_entry_id]


async def test_a_second_first_message_begins_a_tree_of_its_own(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    echo = model_server.rule = Echo()
    async with open_suite("in_process", **{OPENAI: model_server.base_url}) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite, suite) as (one, other):
            await _say(client, session_id, "one")
            old = await _say(client, session_id, "further")
            request = ChatRequest(session_id=session_id, content="anew", from_root=True)
            assert (await until(chat(client, request), "done"))[-1].done.usage.model_calls == 1
            assert echo.told[-1] == ["anew"]
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="more"))
            assert answer.usage.model_calls == 1, "the call that was made ahead was the right one"
            assert echo.told[-1] == ["anew", "you said anew", "more"]
            await _say(client, session_id, "back", leaf_entry_id=old)
            assert echo.told[-1] == ["one", "you said one", "further", "you said further", "back"]
            for each in (one, other):
                await each.until_kind("done", 5)
            await check_whole(suite, client, one, other)
            roots = await _roots(suite, client, session_id)
            assert [entry.user.text for entry in roots] == ["one", "anew"]
            assert (await suite.tree(client, session_id))[0].session.title == "one"
            doomed = DeleteBranchRequest(session_id=session_id, entry_id=roots[0].entry_id)
            assert (await client.commands.DeleteBranch(doomed)).session.leaf_entry_id == ""
            await check_whole(suite, client, one, other)
            await _say(client, session_id, "third root")
            assert echo.told[-1] == ["third root"]
            await check_whole(suite, client, one, other)


async def test_one_goes_back_before_the_first_message_with_and_without_a_summary(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    echo = model_server.rule = Echo()
    async with open_suite("in_process", **{OPENAI: model_server.base_url}) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (one,):
            await _say(client, session_id, "one")
            switched = await client.commands.SwitchLeaf(SwitchLeafRequest(session_id=session_id, to_root=True))
            assert switched.session.leaf_entry_id == ""
            await check_whole(suite, client, one)
            await _say(client, session_id, "two")
            assert echo.told[-1] == ["two"]
            request = SwitchLeafRequest(session_id=session_id, to_root=True, summarize=True)
            summary = (await client.commands.SwitchLeaf(request)).session.leaf_entry_id
            assert "User: two" in echo.told[-1][-1]
            assert "User: one" not in echo.told[-1][-1], "that branch was left before"
            await _say(client, session_id, "three")
            assert echo.told[-1][-1] == "three"
            assert "in short" in echo.told[-1][0]
            await check_whole(suite, client, one)
            roots = await _roots(suite, client, session_id)
    assert [entry.WhichOneof("body") for entry in roots] == ["user", "user", "branch_summary"]
    assert roots[-1].entry_id == summary


async def test_a_compaction_sums_up_the_tree_that_one_stands_in(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    echo = model_server.rule = Echo()
    async with open_suite("in_process", **{OPENAI: model_server.base_url}) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        await _say(client, session_id, "left alone")
        await _say(client, session_id, f"anew {'x' * 9000}", from_root=True)
        for n in range(3):
            await _say(client, session_id, f"{n} {'y' * 9000}")
        made = (await client.chat.Compact(CompactRequest(session_id=session_id))).entry
        assert "anew" in echo.told[-1][-1]
        assert "left alone" not in echo.told[-1][-1]
        await _say(client, session_id, "after")
        roots = await _roots(suite, client, session_id)
    assert made.compaction.summary == "in short"
    assert "in short" in echo.told[-1][0]
    assert [entry.user.text[:10] for entry in roots] == ["left alone", "anew xxxxx"]


async def test_a_first_message_that_waits_is_begun_by_the_next_owner(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    echo = model_server.rule = Echo()
    settings = {"NETACLAW_LEASE_SECONDS": "2", OPENAI: model_server.base_url}
    async with open_suite("four_processes", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        async with followers(session_id, suite, suite) as (one, other):
            running = chat(client, ChatRequest(session_id=session_id, content="wait"))
            await until(running, "assistant_stream_delta")
            request = ChatRequest(
                session_id=session_id, content="anew", from_root=True, when_busy=WhenBusy.WHEN_BUSY_ENQUEUE
            )
            waiting = chat(client, request)
            await until(waiting, "message_receipt")
            suite.kill("orchestrator")
            echo.open.set()
            for events in (running, waiting):
                await events.aclose()
            for each in (one, other):
                await each.until_kind("done", 2)
            assert echo.told[-1] == ["anew"]
            await _say(client, session_id, "more")
            assert echo.told[-1] == ["anew", "you said anew", "more"]
            for each in (one, other):
                await each.until_kind("done", 3)
            await check_whole(suite, client, one, other)
            roots = await _roots(suite, client, session_id)
    assert [(entry.user.text, entry.user.origin) for entry in roots] == [("wait", ""), ("anew", "queue")]
