"""Retention seen from a client: trimmed events are refused with a word on where to go on, and the page is whole."""

from __future__ import annotations

from contextlib import aclosing

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_client import SessionView, equal, follow
from netaclaw_store.database import Database, close_pool, open_pool
from netaclaw_store.retention import Retention, RetentionPolicy
from tests.scenarios.reading import until, watch
from tests.scenarios.suites import OpenSuite


async def test_a_watch_from_before_retention_is_told_the_snapshot_and_follows_from_there(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        for content in ("one", "two"):
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=content))
        before = await suite.tree(client, session_id)
        last = before[0].session.seq
        pool = await open_pool(suite.database_url)
        try:
            policy = RetentionPolicy(max_age_seconds=0, max_events=2, interval_seconds=3600)
            assert await Retention(Database(suite.database_url, pool), policy).round() == last - 2
        finally:
            await close_pool(pool)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await until(watch(client, session_id, 1), "heartbeat")
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert from_rpc(caught.value).metadata["snapshot_seq"] == str(last)

        snapshots: list[SessionView] = []
        async with aclosing(follow(client, session_id, 1, snapshot=snapshots.append)) as events:
            assert (await anext(events)).heartbeat.seq == last
        after = await suite.tree(client, session_id)
        assert [page.entries for page in after] == [page.entries for page in before]
        assert equal(snapshots[0], SessionView.from_tree(after)) == []
        kept = await until(watch(client, session_id, last - 2), "done")
        assert [event.seq for event in kept] == [last - 1, last]
