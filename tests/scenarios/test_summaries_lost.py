"""Summaries that come to nothing: what they have cost is counted, what stood stands, and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, CompactRequest
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_command_service_pb2 import SwitchLeafRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest, GetUsageRequest
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Item, Text, Wait
from tests.scenarios.followers import check_whole, followers
from tests.scenarios.pairs import OpenPair
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_compaction import LONG, WINDOW, Provider, kinds, path_of, refused, say, talking, told

NOTHING_FREED: list[Item] = [Text("ß" * 40_000)]


async def spent(client: Client, session_id: str) -> Usage:
    return (await client.sessions.GetUsage(GetUsageRequest(session_id=session_id))).total


async def test_a_compaction_by_hand_that_fails_is_counted(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    provider = Provider(summaries=[NOTHING_FREED])
    async with talking(open_suite, model_server, provider) as (suite, client, session_id):
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        before = await spent(client, session_id)
        assert await refused(client.chat.Compact(CompactRequest(session_id=session_id))) == Reason.REASON_NOT_COMPACTED
        after = await spent(client, session_id)
        events = await told(suite, session_id)
        last = await say(client, session_id, "go on")
    assert kinds(events) == ["compaction_start", "compaction_error"]
    assert after.model_calls == before.model_calls + 1
    assert after.input_tokens - before.input_tokens > len(LONG) // 4
    assert after.output_tokens == before.output_tokens + 10
    assert last.final_content == "answer"


@pytest.mark.parametrize("how", ["fails", "is left", "is stopped", "is stopped elsewhere"])
async def test_a_branch_whose_summary_comes_to_nothing_is_not_left(
    how: str, pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    provider = model_server.rule = Provider(summaries=[[Text(" ")] if how == "fails" else [Wait(asyncio.Event())]])
    async with (
        pair_of(NETACLAW_OPENAI_BASE_URL=model_server.base_url) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        session_id = await pair.one.suite.new_session(client)
        first = await say(client, session_id, "one")
        second = await say(client, session_id, "two")
        request = SwitchLeafRequest(
            session_id=session_id, leaf_entry_id=first.assistant_entry_id, summarize=True, instructions="colours"
        )
        if how == "fails":
            assert await refused(client.commands.SwitchLeaf(request)) == Reason.REASON_MODEL_UNAVAILABLE
        else:
            switching = client.commands.SwitchLeaf(request)
            async with asyncio.timeout(10):
                await provider.asking.wait()
            if how == "is left":
                switching.cancel()
            else:
                stopper = client if how == "is stopped" else other
                await stopper.chat.CancelTurn(CancelTurnRequest(session_id=session_id))
                assert await refused(switching) == Reason.REASON_NOT_COMPACTED
        last = await say(client, session_id, "three")  # waits until the command is over
        session = (await client.sessions.GetSession(GetSessionRequest(session_id=session_id))).session
        path = [entry.entry_id for entry in await path_of(client, session_id)]
        usage = await spent(client, session_id)
    assert session.leaf_entry_id == last.assistant_entry_id
    assert second.assistant_entry_id in path
    assert usage.model_calls == 4
    assert usage.estimated_calls == (0 if how == "fails" else 1)


async def test_a_compaction_whose_instance_dies_ends_for_everybody_who_looks(
    pair_of: OpenPair, model_server: FakeOpenAI
) -> None:
    provider = model_server.rule = Provider(summaries=[[Wait(asyncio.Event())]])
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": str(WINDOW)}
    async with (
        pair_of(first_as_process=True, **settings) as pair,
        pair.one.client() as client,
        pair.two.client() as other,
    ):
        session_id = await pair.one.suite.new_session(client)
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        async with followers(session_id, pair.two.suite) as (follower,):
            request = CompactRequest(session_id=session_id)
            compacting = asyncio.ensure_future(client.chat.Compact(request))
            await follower.until_kind("compaction_start")
            await pair.one.kill()
            await asyncio.wait([compacting])
            assert compacting.exception() is not None
            await follower.until_kind("compaction_error")
            assert "has stopped in the middle" in follower.events[-1].compaction_error.message
            usage = await spent(other, session_id)
            await other.chat.Compact(request)
            await follower.until_kind("compaction_done")
            await check_whole(pair.two.suite, other, follower)
    assert (usage.model_calls, usage.estimated_calls) == (4, 1)
    assert len(provider.asked) == 2
