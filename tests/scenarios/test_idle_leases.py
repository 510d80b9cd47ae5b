"""A command on an idle session takes the lease for as long as it works, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.session.v1.session_command_service_pb2 import DeleteBranchRequest, SwitchLeafRequest
from netaclaw_client import Client
from tests.scenarios.suites import OpenSuite, RunningSuite


async def command(client: Client, name: str, session_id: str, entry_id: str) -> None:
    if name == "SwitchLeaf":
        await client.commands.SwitchLeaf(SwitchLeafRequest(session_id=session_id, leaf_entry_id=entry_id))
    else:
        await client.commands.DeleteBranch(DeleteBranchRequest(session_id=session_id, entry_id=entry_id))


async def holder(suite: RunningSuite) -> str:
    (row,) = await suite.rows("session", "session_id")
    return str(row["lease_instance_id"])


async def until_free(suite: RunningSuite) -> None:
    async with asyncio.timeout(10):
        while await holder(suite):  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.05)  # a bounded poll: nobody tells of a lease that was given back


@pytest.mark.parametrize("name", ["SwitchLeaf", "DeleteBranch"])
async def test_the_lease_is_free_once_the_command_has_answered(name: str, open_suite: OpenSuite) -> None:
    async with open_suite("in_process", NETACLAW_IDLE_SESSION_SECONDS="0.1") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        await until_free(suite)
        await command(client, name, session_id, answer.assistant_entry_id)
        assert await holder(suite) == ""


@pytest.mark.parametrize("name", ["SwitchLeaf", "DeleteBranch"])
async def test_a_session_that_lives_here_keeps_its_lease_until_it_is_idle_for_long_enough(
    name: str, open_suite: OpenSuite
) -> None:
    async with open_suite("in_process", NETACLAW_IDLE_SESSION_SECONDS="1.5") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="hello"))
        await command(client, name, session_id, answer.assistant_entry_id)
        assert await holder(suite)
        await until_free(suite)


async def test_commands_and_turns_in_turns_do_not_lose_a_turn(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        leaf = ""
        for n in range(4):
            request = ExecuteChatRequest(session_id=session_id, content=f"hello {n}", leaf_entry_id=leaf)
            leaf = (await client.chat.ExecuteChat(request)).assistant_entry_id
            await command(client, "SwitchLeaf", session_id, leaf)
        events = await suite.events(session_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(event.WhichOneof("event") == "done" for event in events) == 4
