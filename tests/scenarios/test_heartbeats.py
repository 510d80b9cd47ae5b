"""Every stream says now and then that it is alive: a silent one is not told from a dead one by those on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, WatchRequest, WhenBusy
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_command_service_pb2 import DeleteSessionRequest, UpdateSessionRequest
from netaclaw_client import Client
from tests.fakes.openai_server import FakeOpenAI, Reply, Text, Wait
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite

BEAT_S = 0.2


async def renamed_again_and_again(client: Client, session_id: str) -> None:
    """Events of the session, more often than heartbeats."""
    request = UpdateSessionRequest()
    request.session.session_id = session_id
    request.update_mask.paths.append("title")
    for n in range(10_000):
        request.session.title = f"{n}"
        await client.commands.UpdateSession(request)
        await asyncio.sleep(BEAT_S / 8)  # the pace of the noise


async def test_a_stream_of_a_turn_that_says_nothing_carries_heartbeats(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """The stream that began the turn, one that joined it, and one whose message waits for its end."""
    silence = asyncio.Event()

    async def rule(request: dict[str, object]) -> Reply:
        return Reply([Text("a"), Wait(silence), Text("b")])

    model_server.rule = rule
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_WATCH_HEARTBEAT_SECONDS": f"{BEAT_S}"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        one = ChatRequest(session_id=session_id, content="one", request_id="one")
        two = ChatRequest(session_id=session_id, content="two", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE)
        async with aclosing(chat(client, one)) as began:
            seen = await until(began, "heartbeat", 3)
            last = max(event.seq for event in seen)
            assert [event.heartbeat.seq for event in seen[-3:]] == [last] * 3, (
                "nothing else comes, and nothing is missing"
            )
            async with aclosing(chat(client, one)) as joined, aclosing(chat(client, two)) as waiting:
                for stream in (joined, waiting):
                    assert (await until(stream, "heartbeat"))[-1].session_id == session_id
                noise = asyncio.create_task(renamed_again_and_again(client, session_id))
                try:  # what is left out of these streams goes on all the time
                    for stream in (joined, waiting):
                        beats = await until(stream, "heartbeat", 2)
                        assert beats[-1].heartbeat.seq <= last + 1, "the stream does not hold what is left out"
                finally:
                    noise.cancel()
                silence.set()
                for stream in (began, joined, waiting):
                    await until(stream, "done")


async def test_a_stream_of_the_session_list_alone_carries_heartbeats(open_suite: OpenSuite) -> None:
    async with (
        open_suite("in_process", NETACLAW_WATCH_HEARTBEAT_SECONDS=f"{BEAT_S}") as suite,
        suite.client() as client,
        aclosing(listed(client)) as events,
    ):
        beats = await until(events, "heartbeat", 2)
        assert {(event.session_id, event.heartbeat.seq) for event in beats} == {("", 0)}
        session_id = await suite.new_session(client)
        made = (await until(events, "session_list_changed"))[-1]
        assert made.session_id == session_id
        assert not made.session_list_changed.deleted
        assert made.session_list_changed.session.HasField("create_time")
        await client.commands.DeleteSession(DeleteSessionRequest(session_id=session_id))
        assert (await until(events, "session_list_changed"))[-1].session_list_changed.deleted


async def listed(client: Client) -> AsyncGenerator[ChatEvent, None]:
    async for response in client.chat.Watch(WatchRequest(include_session_list=True)):
        for event in response.events:
            yield event
