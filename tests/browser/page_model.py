"""The model behind the page's tests: it does what a message says, and waits where the test wants it to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from netaclaw_agent.models.scripted_goals import GoalKind, parse_goal
from tests.fakes.openai_server import SPECIAL_GOALS, Call, Reply, ScriptedRule, Text, Thinking, Wait
from tests.scenarios.goals import CHILD_MARK

HOSTILE = (
    '<img src="https://evil.example/a.png" onerror="window.hurt=1"><script>window.hurt=1</script>\n\n'
    "![picture](https://evil.example/b.png) [link](javascript:window.hurt=1) "
    '<a href="javascript:window.hurt=1">raw</a>\n\n'
    '<iframe src="https://evil.example/"></iframe>\n\n'
    "[style](data:text/html,<script>window.hurt=1</script>) "
    '<div style="background:url(https://evil.example/c)">x</div>\n'
)
SUMMARY = "People asked about **files**; three subagents counted them."
_COMMAND = re.compile(r"(ask|plan|shell|call): (.+)", re.DOTALL)


class PageModel:
    """The rule of a model server.

    - `ask: QUESTION | choice | choice | 5 s` asks the person; the last part may be a limit.
    - `plan: look; mend` writes a todo list whose first item is done.
    - `shell: COMMAND` runs a command; `call: {"name": …}` calls any tool with the other fields as arguments.
    - WAITING is answered in two halves, AFTERWARDS calls a tool after its first half; both wait for the test then.
    - THINK thinks before it answers. A request for a summary gets SUMMARY.
    - All else is the scripted model's, delegations among it; `special` words have replies of their own.
    """

    def __init__(self, waiting: asyncio.Event) -> None:
        self._waiting = waiting
        halves = Reply([Text("This answer **begins** "), Wait(waiting), Text("and ends.")])
        thinks = Reply([Thinking("First I look at the question."), Text("Thought over.")])
        special = {**SPECIAL_GOALS, "WAITING": halves, "HOSTILE": Reply([Text(HOSTILE)]), "THINK": thinks}
        special |= {"check every page": halves, "exchange rate": SPECIAL_GOALS["FAIL-400"]}  # for pictures
        self.special: dict[str, Reply] = special
        """Replies by a word of the message; more may be added while it runs."""
        self._answering: Callable[[], Reply] | None = None

    @contextmanager
    def answers(self, *replies: Reply, then: Reply) -> Iterator[None]:
        """Within it the model gives these answers, whatever it is asked, and afterwards always the same."""
        left = iter(replies)
        self._answering = lambda: next(left, then)
        try:
            yield
        finally:
            self._answering = None

    async def __call__(self, request: Mapping[str, Any]) -> Reply:
        if self._answering is not None:
            return self._answering()
        messages = request["messages"]
        asked = next(str(each["content"]) for each in reversed(messages) if each["role"] == "user")
        if "Sum up the conversation above." in asked:
            return Reply([Text(SUMMARY)])
        after_a_tool = messages[-1]["role"] == "tool"
        is_child = CHILD_MARK in str(messages[0]["content"])
        command = _COMMAND.fullmatch(asked.removeprefix("Goal:\n").partition("\n\n")[0].strip())
        if command:
            return Reply(
                [Text(f"I was told: {messages[-1]['content']}")] if after_a_tool else [_call(*command.groups())]
            )
        if "AFTERWARDS" in asked and (is_child or parse_goal(asked).kind is GoalKind.UNKNOWN):
            if after_a_tool:
                return Reply([Text("It was looked at.")])
            return Reply([Text("I look "), Wait(self._waiting), Call("list_files", "{}")])
        return await ScriptedRule(self.special)(dict(request))


def _call(what: str, told: str) -> Call:
    if what == "ask":
        question, *choices = (part.strip() for part in told.split("|"))
        limit = re.fullmatch(r"(\d+) s", choices[-1]) if choices else None
        timeout = {"timeoutSeconds": int(limit[1])} if limit else {}
        choices = choices[:-1] if limit else choices
        return Call("clarify", json.dumps({"question": question, "choices": choices, **timeout}))
    if what == "plan":
        items = [
            {"text": item.strip(), "status": "pending" if n else "completed"} for n, item in enumerate(told.split(";"))
        ]
        return Call("todo_write", json.dumps({"todos": items}))
    if what == "shell":
        return Call("run_shell", json.dumps({"command": told}))
    arguments = json.loads(told)
    return Call(arguments.pop("name"), json.dumps(arguments))
