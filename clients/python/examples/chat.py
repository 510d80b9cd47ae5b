"""A chat in a terminal: sends one message, prints the answer live, and survives a cut connection.

    python clients/python/examples/chat.py 127.0.0.1:7400 "in parallel: count the files; find the 3 largest files"

--session ID goes on with a session; --json prints a report as the last line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw_client import Client, SessionView, run_turn


class Printer:
    """Remembers how much of each answer, and what of each subagent, is on the screen."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, view: SessionView, event: ChatEvent) -> None:
        for entry in view.entries.values():
            if entry.turn_id == event.turn_id and entry.HasField("assistant"):
                before, text = self._shown.get(entry.entry_id, ""), view.text_of(entry.entry_id)
                # Another attempt has begun where the text does not go on from what is shown.
                sys.stdout.write(text[len(before) :] if text.startswith(before) else f"\n{text}")
                self._shown[entry.entry_id] = text
        sys.stdout.flush()
        if event.HasField("subagent_event"):
            task = event.subagent_event.item
            state = SubagentTaskState.Name(task.state).removeprefix("SUBAGENT_TASK_STATE_")
            if self._shown.get(task.task_id) != state:
                sys.stderr.write(f"  [{task.name}: {state}]\n")
            self._shown[task.task_id] = state


async def main() -> int:
    parser = argparse.ArgumentParser(description="Send one message and print its answer live.")
    parser.add_argument("--session", default="", help="go on with a session")
    parser.add_argument("--json", action="store_true", help="print a report as the last line")
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("message", nargs="+")
    given = parser.parse_args()
    async with Client(given.address, api_key=os.environ.get("NETACLAW_API_KEY", "")) as client:
        view = await client.load(given.session) if given.session else SessionView()
        printer = Printer()
        request = ChatRequest(session_id=given.session, content=" ".join(given.message))
        async for event in run_turn(client, request, view.seq):
            view.apply(event)
            printer.show(view, event)
    sys.stdout.write("\n")
    end = view.turn_end or ChatEvent()
    if given.json:
        report = {"session_id": view.session_id, "seq": view.seq, "text": view.text_of(view.leaf_entry_id)}
        sys.stdout.write(json.dumps({**report, "outcome": end.done.outcome}) + "\n")
    return 0 if end.HasField("done") else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
