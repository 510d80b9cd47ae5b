"""Answers that stand still in the middle: what a test needs to happen meanwhile has happened then."""

from __future__ import annotations

import asyncio

from tests.fakes.openai_server import Call, Reply, Text, Wait


class Held:
    """A model that begins its answer to "wait", and goes on when it is let: with words, or with calls."""

    def __init__(self, *calls: Call) -> None:
        self.open = asyncio.Event()
        self.calls = calls
        self.asked = 0
        self.began = asyncio.Event()

    async def __call__(self, request: dict[str, object]) -> Reply:
        messages = request["messages"]
        assert isinstance(messages, list)
        if messages[-1]["content"] != "wait":
            return Reply([Text(f"you said {messages[-1]['content']}")])
        self.asked += 1
        self.began.set()
        return Reply([Text("first"), Wait(self.open), *(self.calls or [Text(" answer")])])
