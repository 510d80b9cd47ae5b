"""Going back and trying another branch."""

from __future__ import annotations

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.session.v1.session_command_service_pb2 import SwitchLeafRequest
from tests.fakes.openai_server import FakeOpenAI, Reply, Text
from tests.scenarios.suites import OpenSuite


async def test_a_branch_that_is_left_can_be_summed_up_for_the_next_one(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async def rule(request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        asked = messages[-1]["content"]
        return Reply([Text("it was tried and failed" if "Sum up" in asked else f"answer to {asked}")])

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        first = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="one"))
        second = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="two"))
        request = SwitchLeafRequest(
            session_id=session_id,
            leaf_entry_id=first.assistant_entry_id,
            summarize=True,
            instructions="mind the colour",
        )
        switched = await client.commands.SwitchLeaf(request)
        summed_up = model_server.requests[-1].body["messages"]
        third = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="three"))
        told = model_server.requests[-1].body["messages"]
        entries = {e.entry_id: e for page in await suite.tree(client, session_id) for e in page.entries}
    summary = entries[switched.session.leaf_entry_id]
    assert summary.parent_entry_id == first.assistant_entry_id
    assert summary.branch_summary.from_entry_id == second.assistant_entry_id
    assert summary.branch_summary.summary == "it was tried and failed"
    [_, asked] = summed_up
    assert asked["role"] == "user", "as one text: no provider takes its calls for calls of this one"
    assert "User: two\n\nAssistant: answer to two" in asked["content"]
    assert "User: one" not in asked["content"]
    assert "mind the colour" in asked["content"]
    assert any("it was tried and failed" in message["content"] for message in told)
    assert entries[third.assistant_entry_id].assistant.parts[0].text.text == "answer to three"


async def test_a_message_continues_from_any_entry_and_keeps_the_other_branch(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        first = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count files"))
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="search needle"))
        branch = ExecuteChatRequest(
            session_id=session_id, content="find the 2 largest files", leaf_entry_id=first.assistant_entry_id
        )
        third = await client.chat.ExecuteChat(branch)
        pages = await suite.tree(client, session_id)
    users = {e.user.text: e.parent_entry_id for page in pages for e in page.entries if e.HasField("user")}
    assert users["search needle"] == users["find the 2 largest files"] == first.assistant_entry_id
    assert pages[0].session.leaf_entry_id == third.assistant_entry_id
