"""One long conversation with all that a session has, in one run without and in one with deaths in the middle."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.session.v1.entry_pb2 import EntryKind
from netaclaw.tool.v1.tool_pb2 import ToolApproval
from netaclaw_client.client import Client
from netaclaw_client.view import SessionView
from tests.fakes.openai_server import Call, FakeOpenAI, Item, Reply, Text, Tokens, Wait
from tests.scenarios.goals import CHILD_MARK
from tests.scenarios.reading import until, watch
from tests.scenarios.suites import OpenSuite, RunningSuite
from tests.scenarios.test_clarify import answered_in_time
from tests.scenarios.test_tools_shell import session_of

LONG = "word " * 1600
FATAL = "message 8 "
"""Its answer is what the owner dies in."""
MADE = "made.txt"
"""What the child writes once a person has let it."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Storyteller:
    """Answers by what it is asked alone, so that two runs of the same story are told the same."""

    def __init__(self, *, deadly: bool) -> None:
        self.deadly = deadly
        self._dies_in_answer = deadly
        self.died_in = asyncio.Event()
        self.requests: list[str] = []
        """Of the main agent, ids numbered in order of appearance; what is asked again counts once."""
        self.child_requests: set[str] = set()
        """Of the children, who run side by side, so that their order means nothing."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        if CHILD_MARK in str(messages[0]["content"]):
            return self._child(messages)
        text = _numbered(messages)
        if text not in self.requests:
            self.requests.append(text)
        last = str(messages[-1]["content"])
        if "Sum up the conversation above." in last:
            said: list[Item] = [Text(f"a summary of {last.count('User: ')} messages")]
        elif messages[-1]["role"] == "tool":
            said = [Text("done")]
        elif last.startswith("{"):
            told = json.loads(last)
            said = [Call(told.pop("call"), json.dumps(told))]
        else:
            said = [Text("answer")]
            if self._dies_in_answer and last.startswith(FATAL):
                self._dies_in_answer = False
                self.died_in.set()
                said = [Wait(asyncio.Event())]
        return Reply([*said, Tokens(len(str(messages)) // 4, 5)])

    def _child(self, messages: list[dict[str, Any]]) -> Reply:
        self.child_requests.add(_numbered(messages))
        if "Goal:\nwrite" in str(messages[-1]["content"]):
            return Reply([Call("write_file", json.dumps({"path": MADE, "content": "made\n"})), Tokens(50, 5)])
        return Reply([Text("seen"), Tokens(50, 5)])


def _numbered(messages: list[dict[str, Any]]) -> str:
    numbers: dict[str, str] = {}
    return _ID.sub(lambda found: numbers.setdefault(found[0], f"<id {len(numbers)}>"), json.dumps(messages))


class Story:
    """Tells one session's story, and ends the session's owner twice where that is wanted."""

    def __init__(self, suite: RunningSuite, client: Client, storyteller: Storyteller, session_id: str) -> None:
        self._suite = suite
        self._client = client
        self._storyteller = storyteller
        self._session_id = session_id
        self._asked = 0

    async def tell(self) -> SessionView:
        """From the first message to the last; the session as it stands then."""
        todos = [{"todoId": "1", "text": "mend the roof", "status": "pending"}]
        await self._say(json.dumps({"call": "todo_write", "todos": todos}))
        asking = self._begin(json.dumps({"call": "clarify", "question": "Which?", "choices": ["red"]}))
        await self._answer(await self._question(), "red")
        await asking
        await self._say(json.dumps({"call": "delegate_parallel", "tasks": [{"goal": "look"}]}))
        place = ""
        for n in range(5):
            place = await self._say(f"message {n} {LONG}")
        await self._say("a branch that is left")
        await self._say("the branch that is kept", place)
        await self._delegate_what_must_be_allowed()
        for n in range(5, 10):
            sending = self._begin(f"message {n} {LONG}")
            if self._storyteller.deadly and f"message {n} " == FATAL:
                await self._storyteller.died_in.wait()
                await self._die_in(sending)
                await self._turn_ended()
            else:
                await sending
        await self._say("the end")
        return await self._client.load(self._session_id)

    async def _delegate_what_must_be_allowed(self) -> None:
        """One child waits for a person, who answers while its batch runs; its owner dies meanwhile."""
        goals = [{"goal": "look again"}, {"goal": "write"}]
        batch = self._begin(json.dumps({"call": "delegate_parallel", "tasks": goals}))
        question = await self._question()
        assert not (self._suite.workspace / MADE).exists()
        if self._storyteller.deadly:
            await self._die_in(batch)
        await self._answer(question, "allow")
        await (self._turn_ended() if self._storyteller.deadly else batch)
        assert (self._suite.workspace / MADE).read_text() == "made\n"

    def _begin(self, content: str, leaf_entry_id: str = "") -> asyncio.Future[str]:
        return asyncio.ensure_future(self._say(content, leaf_entry_id))

    async def _say(self, content: str, leaf_entry_id: str = "") -> str:
        request = ExecuteChatRequest(session_id=self._session_id, content=content, leaf_entry_id=leaf_entry_id)
        return (await self._client.chat.ExecuteChat(request)).assistant_entry_id

    async def _question(self) -> str:
        """The id of the next question."""
        self._asked += 1
        seen = await until(watch(self._client, self._session_id), "clarify_request", self._asked)
        return seen[-1].clarify_request.entry.clarify.request_id

    async def _answer(self, request_id: str, answer: str) -> None:
        await answered_in_time(self._client, self._session_id, request_id, answer)

    async def _die_in(self, sending: asyncio.Future[str]) -> None:
        await self._suite.restart("orchestrator")
        await asyncio.wait([sending])
        assert sending.exception() is not None

    async def _turn_ended(self) -> None:
        """The `done` of the turn that was taken over."""
        view = await self._client.load(self._session_id)
        if view.session.running_turn_id:
            await until(watch(self._client, self._session_id, view.seq), "done")


def path_kinds(view: SessionView) -> list[EntryKind]:
    """Kinds of the entries on the path, root first."""
    path = []
    at = view.leaf_entry_id
    while at:
        path.append(view.entries[at].kind)
        at = view.entries[at].parent_entry_id
    return path[::-1]


async def test_deaths_in_the_middle_change_no_request_of_a_long_conversation(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    told = []
    for deadly in (False, True):
        storyteller = model_server.rule = Storyteller(deadly=deadly)
        environ = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": "12000"}
        topology = "four_processes" if deadly else "in_process"
        async with open_suite(topology, **environ) as suite, suite.client() as client:
            (suite.workspace / MADE).unlink(missing_ok=True)
            ask = {"write_file": ToolApproval.TOOL_APPROVAL_ASK}
            session_id = await session_of(suite, client, approvals=ask)
            view = await Story(suite, client, storyteller, session_id).tell()
        told.append((storyteller, path_kinds(view)))
    (whole, whole_path), (cut, cut_path) = told
    assert cut.requests == whole.requests
    assert cut.child_requests == whole.child_requests
    assert cut_path == whole_path
    assert whole_path.count(EntryKind.ENTRY_KIND_COMPACTION) >= 2
    assert "mend the roof" in whole.requests[-1]
    assert "a branch that is left" not in whole.requests[-1]
    assert len(whole.child_requests) == 4
