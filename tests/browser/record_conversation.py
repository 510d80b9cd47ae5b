"""Records a real conversation with everything that a page shows beside text: its events as they came, and the tree
afterwards. Run as `python -m tests.browser.record_conversation > tests/cases/recorded-conversation.json`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import (
    ChatRequest,
    CompactRequest,
    RespondClarifyRequest,
    RetractMessageRequest,
    SteerSubagentRequest,
    WhenBusy,
)
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest, SwitchLeafRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest
from netaclaw.tool.v1.tool_pb2 import ToolApproval
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client import Client, follow
from tests.browser.page_model import PageModel
from tests.fakes.openai_server import FakeOpenAI
from tests.records import print_record

WITHIN_S = 30
"""For each step."""


class Conversation:
    """One session, and its events since it began."""

    def __init__(self, client: Client, session_id: str, waiting: asyncio.Event) -> None:
        self._client = client
        self._waiting = waiting
        self.session_id = session_id
        self.events: list[ChatEvent] = []
        self._came = asyncio.Condition()

    async def listen(self) -> None:
        """Until it is cancelled."""
        async for event in follow(self._client, self.session_id):
            async with self._came:
                self.events.append(event)
                self._came.notify_all()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(WITHIN_S), self._came:
            await self._came.wait_for(holds)

    def count(self, kind: str) -> int:
        return sum(event.WhichOneof("event") == kind for event in self.events)

    def last(self, kind: str) -> ChatEvent:
        return next(event for event in reversed(self.events) if event.WhichOneof("event") == kind)

    async def say(self, content: str, **more: object) -> None:
        """Send a message; return when it is accepted."""
        request = ChatRequest(session_id=self.session_id, content=content, **more)  # type: ignore[arg-type]  # its fields
        call = self._client.chat.Chat(request)
        await call.read()
        call.cancel()

    async def turn(self, content: str, **more: object) -> None:
        """One whole turn."""
        done = self.count("done")
        await self.say(content, **more)
        await self.until(lambda: self.count("done") > done)

    async def asked(self, content: str, answer: str) -> None:
        """A turn with a question, and the answer to it."""
        questions, done = self.count("clarify_request"), self.count("done")
        await self.say(content)
        await self.until(lambda: self.count("clarify_request") > questions)
        request_id = self.last("clarify_request").clarify_request.entry.clarify.request_id
        given = RespondClarifyRequest(session_id=self.session_id, request_id=request_id, answer=answer)
        await self._client.chat.RespondClarify(given)
        await self.until(lambda: self.count("done") > done)

    async def interrupted(self) -> None:
        """A turn that is steered while another message waits for its end, and a third one is taken back."""
        done, receipts = self.count("done"), self.count("message_receipt")
        self._waiting.clear()
        await self.say("AFTERWARDS, please")
        await self.until(lambda: "I look" in str(self.events[-1]))
        await self.say("mind the others", when_busy=WhenBusy.WHEN_BUSY_STEER, request_id="steered")
        await self.say("list the files", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE, request_id="queued")
        await self.say("never mind", when_busy=WhenBusy.WHEN_BUSY_ENQUEUE, request_id="retracted")
        await self.until(lambda: self.count("message_receipt") == receipts + 3)
        await self._client.chat.RetractMessage(
            RetractMessageRequest(session_id=self.session_id, request_id="retracted")
        )
        self._waiting.set()
        await self.until(lambda: self.count("done") == done + 2)

    async def child_steered(self) -> None:
        done = self.count("done")
        self._waiting.clear()
        await self.say("in parallel: AFTERWARDS, one; FAIL-400 the other; count the files")
        await self.until(lambda: any(event.task_id and "I look" in str(event) for event in self.events))
        task_id = next(event.task_id for event in self.events if event.task_id and "I look" in str(event))
        request = SteerSubagentRequest(session_id=self.session_id, task_id=task_id, content="twice", request_id="s")
        await self._client.chat.SteerSubagent(request)
        self._waiting.set()
        await self.until(lambda: self.count("done") > done)

    async def compacted(self) -> None:
        await self._client.chat.Compact(CompactRequest(session_id=self.session_id))
        await self.until(lambda: self.count("compaction_done"))

    async def branched(self) -> None:
        """Another version of a turn, and back to the first one."""
        request = GetSessionTreeRequest(session_id=self.session_id, page_size=1000)
        before = await self._client.sessions.GetSessionTree(request)
        leaf = next(entry for entry in before.entries if entry.entry_id == before.session.leaf_entry_id)
        await self.turn("list the files", leaf_entry_id=leaf.parent_entry_id)
        switch = SwitchLeafRequest(session_id=self.session_id, leaf_entry_id=leaf.entry_id)
        await self._client.commands.SwitchLeaf(switch)
        await self.until(lambda: self.events[-1].WhichOneof("event") == "session_leaf_changed")


async def _converse(talk: Conversation) -> None:
    await talk.turn("word " * 1500)
    await talk.turn("plan: look; mend")
    await talk.asked("ask: Which roof? | red | blue", "red")
    await talk.asked("write hello to made.txt", "allow")
    await talk.asked("delegate: write hello to child.txt", "deny")
    await talk.interrupted()
    await talk.child_steered()
    await talk.turn("hello")
    await talk.compacted()
    await talk.turn("THINK again")
    await talk.branched()


async def _session(client: Client) -> str:
    """A session whose agent asks before it writes."""
    agent = Agent(name="worker", approvals={"write_file": ToolApproval.TOOL_APPROVAL_ASK})
    made = await client.agents.CreateAgent(CreateAgentRequest(agent=agent))
    request = CreateSessionRequest(workspace="files", agent_id=made.agent.agent_id)
    return (await client.commands.CreateSession(request)).session.session_id


async def main() -> None:
    waiting = asyncio.Event()
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name) / "files"
        workspace.mkdir()
        for n in range(4):
            (workspace / f"part{n}.py").write_text(f"# größer: {n}\n" * (n * 7 + 1))
        async with FakeOpenAI(PageModel(waiting)) as model:
            environ = {**os.environ, "NETACLAW_OPENAI_BASE_URL": model.base_url, "NETACLAW_OPENAI_API_KEY": "k"}
            options = SuiteOptions(Path(name) / "data", {"files": workspace}, environ=environ, throw_away=True)
            async with Suite(options) as suite, Client(suite.address) as client:
                talk = Conversation(client, await _session(client), waiting)
                listening = asyncio.create_task(talk.listen())
                await _converse(talk)
                request = GetSessionTreeRequest(session_id=talk.session_id, page_size=1000)
                tree = await client.sessions.GetSessionTree(request)
                await talk.until(lambda: any(event.seq == tree.session.seq for event in talk.events))
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
    events = [event for event in talk.events if event.WhichOneof("event") != "heartbeat"]
    print_record(tree, events, directory=name)


if __name__ == "__main__":
    asyncio.run(main())
