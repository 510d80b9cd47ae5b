"""One long conversation with all that a session has, in one run without and in one with a death in the middle."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest, RespondClarifyRequest
from netaclaw.session.v1.entry_pb2 import EntryKind
from netaclaw_client.client import Client
from tests.fakes.openai_server import Call, FakeOpenAI, Item, Reply, Text, Tokens, Wait
from tests.scenarios.goals import CHILD_MARK
from tests.scenarios.reading import until, watch
from tests.scenarios.suites import OpenSuite, RunningSuite

LONG = "word " * 1600
FATAL = "message 13 "
"""Its answer is what the owner dies in."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Storyteller:
    """Answers by what it is asked alone, so that two runs of the same story are told the same."""

    def __init__(self, *, deadly: bool) -> None:
        self._deadly = deadly
        self.died_in = asyncio.Event()
        self.requests: list[str] = []
        """Of the main agent, ids numbered in order of appearance; what is asked again counts once."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        if CHILD_MARK in str(messages[0]["content"]):
            return Reply([Text("seen"), Tokens(50, 5)])
        self._note(messages)
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
            if self._deadly and last.startswith(FATAL):
                self._deadly = False
                self.died_in.set()
                said = [Wait(asyncio.Event())]
        return Reply([*said, Tokens(len(str(messages)) // 4, 5)])

    def _note(self, messages: list[dict[str, Any]]) -> None:
        text = json.dumps(messages)
        numbers: dict[str, str] = {}
        text = _ID.sub(lambda found: numbers.setdefault(found[0], f"<id {len(numbers)}>"), text)
        if text not in self.requests:
            self.requests.append(text)


async def tell(suite: RunningSuite, client: Client, storyteller: Storyteller, *, deadly: bool) -> list[int]:
    """The story; kinds of the entries on its path."""
    session_id = await suite.new_session(client)

    async def say(content: str, leaf_entry_id: str = "") -> str:
        request = ExecuteChatRequest(session_id=session_id, content=content, leaf_entry_id=leaf_entry_id)
        return (await client.chat.ExecuteChat(request)).assistant_entry_id

    todos = [{"todoId": "1", "text": "mend the roof", "status": "pending"}]
    await say(json.dumps({"call": "todo_write", "todos": todos}))
    asking = asyncio.ensure_future(say(json.dumps({"call": "clarify", "question": "Which?", "choices": ["red"]})))
    seen = await until(watch(client, session_id), "clarify_request")
    question = seen[-1].clarify_request.entry.clarify.request_id
    await client.chat.RespondClarify(RespondClarifyRequest(session_id=session_id, request_id=question, answer="red"))
    await asking
    await say(json.dumps({"call": "delegate_parallel", "tasks": [{"goal": "look"}]}))
    place = ""
    for n in range(9):
        place = await say(f"message {n} {LONG}")
    await say("a branch that is left")
    await say("the branch that is kept", place)
    await say(json.dumps({"call": "delegate_parallel", "tasks": [{"goal": "look again"}]}))
    for n in range(9, 18):
        sending = asyncio.ensure_future(say(f"message {n} {LONG}"))
        if deadly and f"message {n} " == FATAL:
            await storyteller.died_in.wait()
            await suite.restart("orchestrator")
            await asyncio.wait([sending])
            assert sending.exception() is not None
            done = [event async for event in _ended_since(client, session_id)]
            assert done
        else:
            await sending
    await say("the end")
    view = await client.load(session_id)
    path = []
    at = view.leaf_entry_id
    while at:
        path.append(view.entries[at].kind)
        at = view.entries[at].parent_entry_id
    return [int(kind) for kind in reversed(path)]


async def _ended_since(client: Client, session_id: str) -> Any:
    """The `done` of the turn that was taken over."""
    view = await client.load(session_id)
    if not view.session.running_turn_id:
        yield True
        return
    async for event in watch(client, session_id, view.seq):
        if event.HasField("done"):
            yield True
            return


async def test_a_death_in_the_middle_changes_no_request_of_a_long_conversation(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    told = []
    for deadly in (False, True):
        storyteller = Storyteller(deadly=deadly)
        model_server.rule = storyteller
        environ = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_OPENAI_CONTEXT_WINDOW": "20000"}
        async with open_suite("four_processes", **environ) as suite, suite.client() as client:
            path = await tell(suite, client, storyteller, deadly=deadly)
        told.append((storyteller.requests, path))
    (whole, whole_path), (cut, cut_path) = told
    assert cut == whole
    assert cut_path == whole_path
    assert whole_path.count(EntryKind.ENTRY_KIND_COMPACTION) >= 2
    assert "mend the roof" in whole[-1]
    assert "a branch that is left" not in whole[-1]
