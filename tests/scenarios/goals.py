"""A model whose main agent delegates what it is told, and whose children do what their goals have been given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.fakes.openai_server import Call, Item, Reply, Text, Tokens

CHILD_MARK = "You are an in-session subagent"
GOAL = "Goal:\n"
CALL_TOKENS = Tokens(10, 5)
"""What every whole answer costs."""

Request = dict[str, Any]


class Goals:
    """The rule of a model server.

    A user message that is a JSON object with `tasks` makes the main agent delegate them, one with `call` makes it call
    that tool; then it answers "done". Other messages are answered as `answers` says, else by "you said …". A child
    gives the replies of its goal, one per model call.
    """

    def __init__(
        self, children: Mapping[str, Sequence[Reply]], answers: Mapping[str, Sequence[Item]] | None = None
    ) -> None:
        self.children = dict(children)
        self._answers = dict(answers or {})
        self.main_requests: list[Request] = []
        self.child_requests: dict[str, list[Request]] = {}
        self.refuse_summary = False
        """Whether a request to sum up the conversation is refused."""
        self.whole = 0
        """Answers that were given whole, each at CALL_TOKENS."""
        self._asked = asyncio.Condition()

    async def __call__(self, request: Request) -> Reply:
        messages = request["messages"]
        if CHILD_MARK in messages[0]["content"]:
            began = max(n for n, message in enumerate(messages) if str(message["content"]).startswith(GOAL))
            goal = messages[began]["content"].removeprefix(GOAL).split("\n")[0]
            return self._child(request, goal, messages[began:])
        asked = [message["content"] for message in messages if message["role"] == "user"][-1]
        async with self._asked:
            self.main_requests.append(request)
            self._asked.notify_all()
        if self.refuse_summary and "Sum up the conversation above." in asked:
            return Reply(status=400, error={"message": "refused"})
        return self._priced(self._main(asked, messages))

    async def until_main(self, count: int) -> None:
        """Wait until the main agent's model was asked so often."""
        async with asyncio.timeout(30), self._asked:
            await self._asked.wait_for(lambda: len(self.main_requests) >= count)

    def calls_of(self, goal: str) -> int:
        """How many model calls the children of a goal have made."""
        return len(self.child_requests.get(goal, []))

    def _child(self, request: Request, goal: str, since: Sequence[Request]) -> Reply:
        self.child_requests.setdefault(goal, []).append(request)
        rounds = sum(message["role"] == "assistant" for message in since)
        return self._priced(self.children[goal][rounds])

    def _main(self, asked: str, messages: Sequence[Request]) -> Reply:
        if messages[-1]["role"] == "tool":
            return Reply([Text("done")])
        try:
            told = json.loads(asked)
        except ValueError:
            return Reply(self._answers.get(asked, [Text(f"you said {asked[:200]}")]))
        name = told.pop("call", "delegate_parallel")
        return Reply([Call(name, json.dumps(told))])

    def _priced(self, reply: Reply) -> Reply:
        if reply.status != 200 or reply.raw_body:
            return reply
        self.whole += 1
        return replace(reply, items=[*reply.items, CALL_TOKENS])


def tasks(*goals: str, **fields: object) -> str:
    """A user message that makes the main agent delegate these goals."""
    return json.dumps({"tasks": [{"goal": goal, **fields} for goal in goals]})
