"""The road between client and gateway is cut at every event of a real delegated turn."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw_client import Backoff, Client, SessionView, equal, follow, run_turn
from tests.faults.proxy import Proxy
from tests.scenarios.suites import OpenSuite

PROMPT = "in parallel: count files; search needle; find the 2 largest files"


@pytest.mark.parametrize("when", ["while it runs", "after its end"])
async def test_a_turn_whose_stream_is_cut_after_every_event_arrives_whole_and_once(
    when: str, open_suite: OpenSuite
) -> None:
    async with open_suite("in_process") as suite, suite.client() as direct, Proxy(suite.gateway) as proxy:
        session_id = await suite.new_session(direct)
        if when == "after its end":
            await direct.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=PROMPT))
        view = SessionView(session_id=session_id)
        seqs: list[int] = []
        async with Client(proxy.address) as client:
            backoff = Backoff(first_s=0.01, longest_s=0.05)
            events = (
                follow(client, session_id, backoff=backoff)
                if when == "after its end"
                else run_turn(client, ChatRequest(session_id=session_id, content=PROMPT), backoff=backoff)
            )
            async with asyncio.timeout(90), aclosing(events):
                async for event in events:
                    assert view.apply(event)
                    seqs += [event.seq] if event.seq else []
                    if event.WhichOneof("event") == "done":
                        break
                    proxy.cut()
        stored = SessionView.from_tree(await suite.tree(direct, session_id))
    assert seqs == list(range(1, stored.seq + 1))
    assert equal(view, stored) == []
