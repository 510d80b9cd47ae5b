"""The todo list: shown live, restored after a reload and a restart, and the main agent's alone."""

from __future__ import annotations

import json

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.session.v1.entry_pb2 import TodoItem, ToolCallState
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import OpenSuite

FIRST = [{"todoId": "a", "text": "look"}, {"todoId": "b", "text": "mend"}]
SECOND = [{"todoId": "a", "text": "look", "status": "completed"}, {"text": "mend", "status": "in_progress"}]


def writes(todos: list[dict[str, str]]) -> str:
    return json.dumps({"call": "todo_write", "todos": todos})


def lists(view: SessionView) -> list[list[tuple[str, str]]]:
    """The lists that rest in the session, oldest first."""
    entries = sorted(view.entries.values(), key=lambda entry: entry.entry_id)
    return [[(item.text, item.status) for item in entry.assistant.todos] for entry in entries if entry.assistant.todos]


async def test_each_call_replaces_the_whole_list_for_everybody_who_looks(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite, suite) as (one, two):
            events = await until(chat(client, ChatRequest(session_id=session_id, content=writes(FIRST))), "done")
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=writes(SECOND)))
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=writes([])))
            await check_whole(suite, client, one, two)
            shown = [event.todo_update.todos for event in of_kind(one.events, "todo_update")]
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds.index("tool_call_started") < kinds.index("todo_update") < kinds.index("tool_call_completed")
    assert [list(todos) for todos in shown] == [
        [TodoItem(todo_id="a", text="look", status="pending"), TodoItem(todo_id="b", text="mend", status="pending")],
        [
            TodoItem(todo_id="a", text="look", status="completed"),
            TodoItem(todo_id="2", text="mend", status="in_progress"),
        ],
        [],
    ]
    assert lists(one.view) == [
        [("look", "pending"), ("mend", "pending")],
        [("look", "completed"), ("mend", "in_progress")],
    ]
    calls = [part.tool_call for entry in one.view.entries.values() for part in entry.assistant.parts]
    written = [call for call in calls if call.state == ToolCallState.TOOL_CALL_STATE_COMPLETED]
    assert written[-1].result.content == "The list is empty now."


async def test_a_list_stands_after_its_owner_died(pair_of: OpenPair, model_server: FakeOpenAI) -> None:
    goals = model_server.rule = Goals({})
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with pair_of(first_as_process=True, **settings) as pair, pair.two.client() as client:
        async with pair.one.client() as first:
            session_id = await pair.one.suite.new_session(first)
            await first.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=writes(FIRST)))
        await pair.one.kill()
        async with followers(session_id, pair.two.suite) as (follower,):
            await follower.until_kind("done")
            assert lists(follower.view) == [[("look", "pending"), ("mend", "pending")]]
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go on"))
            await check_whole(pair.two.suite, client, follower)
    [told] = [message for message in goals.main_requests[-1]["messages"] if message["role"] == "tool"]
    assert told["content"] == "The list stands: 2 pending."


async def test_a_child_that_writes_a_list_is_refused_and_the_parents_stands(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    child = [Reply([Call("todo_write", json.dumps({"todos": SECOND}))]), Reply([Text("as you say")])]
    goals = model_server.rule = Goals({"plan": child})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with followers(session_id, suite) as (follower,):
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=writes(FIRST)))
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=tasks("plan")))
            await check_whole(suite, client, follower)
    assert lists(follower.view) == [[("look", "pending"), ("mend", "pending")]]
    offered = [tool["function"]["name"] for tool in goals.child_requests["plan"][0].get("tools", [])]
    assert "todo_write" not in offered
    answered = goals.child_requests["plan"][1]["messages"][-1]
    words = "The todo list is the main agent's; a subagent keeps none."
    assert answered["content"] == f"Error: todo_write was refused: {words}"
