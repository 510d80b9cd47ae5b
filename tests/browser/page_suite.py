"""A suite whose model waits for the test, and what the page shows of a session beside what is stored of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from playwright.sync_api import Page, expect

from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from netaclaw.session.v1.subagent_pb2 import SubagentBatch, SubagentTaskState
from tests.browser.conftest import ROOT, Background
from tests.fakes.openai_server import SPECIAL_GOALS, FakeOpenAI, Reply, ScriptedRule, Text, Wait

HOSTILE = (
    '<img src="https://evil.example/a.png" onerror="window.hurt=1"><script>window.hurt=1</script>\n\n'
    "![picture](https://evil.example/b.png) [link](javascript:window.hurt=1) "
    '<a href="javascript:window.hurt=1">raw</a>\n\n'
    '<iframe src="https://evil.example/"></iframe>\n\n'
    "[style](data:text/html,<script>window.hurt=1</script>) "
    '<div style="background:url(https://evil.example/c)">x</div>\n'
)
WAITING = "WAITING"
"""A request that holds this word is answered in two halves; the second one when the test says so."""
_WORDS = {
    SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED: "queued",
    SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING: "running",
    SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED: "completed",
    SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL: "partial",
    SubagentTaskState.SUBAGENT_TASK_STATE_TIMED_OUT: "timedOut",
    SubagentTaskState.SUBAGENT_TASK_STATE_FAILED: "failed",
    SubagentTaskState.SUBAGENT_TASK_STATE_CANCELLED: "cancelled",
    SubagentTaskState.SUBAGENT_TASK_STATE_IN_DOUBT: "inDoubt",
}


@dataclass
class PageSuite:
    """A running suite with its page."""

    url: str
    envoy_url: str
    """The same page through Envoy."""
    grpc_address: str
    background: Background
    waiting: asyncio.Event

    def hold(self) -> None:
        """Requests that wait begin to wait again."""
        self.background.run(self._set(False))

    def release(self) -> None:
        """All that wait go on."""
        self.background.run(self._set(True))

    def tree(self, session_id: str) -> GetSessionTreeResponse:
        """The session as it is stored."""
        with grpc.insecure_channel(self.grpc_address) as channel:
            request = GetSessionTreeRequest(session_id=session_id, page_size=1000)
            answer: GetSessionTreeResponse = SessionServiceStub(channel).GetSessionTree(request, timeout=10)
            return answer

    def _set(self, on: bool) -> Any:
        async def change() -> None:
            if on:
                self.waiting.set()
            else:
                self.waiting.clear()

        return change


@contextmanager
def page_suite(directory: Path, answers: Mapping[str, str] | None = None) -> Iterator[PageSuite]:
    """The suite on a workspace with a few files, its model a server of ours. `answers`: texts for requests that hold a
    word."""
    workspace = directory / "files"
    workspace.mkdir()
    for n in range(12):
        (workspace / f"part{n}.py").write_text(f"# {n}\n" * (n * 9 + 1))
    background = Background()
    event = asyncio.Event()
    halves = Reply([Text("This answer **begins** "), Wait(event), Text("and ends.")])
    texts = {word: Reply([Text(text)]) for word, text in {"HOSTILE": HOSTILE, **(answers or {})}.items()}
    fake = FakeOpenAI(ScriptedRule({**SPECIAL_GOALS, WAITING: halves, **texts}))
    base_url = background.run(fake.start)
    environment = {**os.environ, "NETACLAW_OPENAI_BASE_URL": base_url, "NETACLAW_OPENAI_API_KEY": "for-tests"}
    command = [sys.executable, "-m", "netaclaw_cli", "up", "--envoy", "--quiet", "--port", "0"]
    command += ["--data-dir", str(directory / "data"), "--workspace", f"files={workspace}"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        announced = json.loads((directory / "data" / "run-suite" / "gateway.ports").read_text())
        envoy = next(word.rstrip("/,") for word in line.split() if word.startswith("http://"))
        yield PageSuite(f"http://{announced['web']}", envoy, str(announced["public"]), background, event)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        background.run(fake.close)
        background.close()


def begin(page: Page, suite: PageSuite, door: str = "gateway") -> None:
    """A new chat on the workspace with files."""
    page.goto(suite.envoy_url if door == "envoy" else suite.url)
    page.locator("[data-workspace]").select_option("files")


def send(page: Page, text: str) -> None:
    """Write a message and send it by keyboard; return once it stands in the conversation."""
    before = page.locator("[data-role=user]").count()
    page.locator("textarea").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("[data-role=user]")).to_have_count(before + 1)


def settled(page: Page) -> None:
    """Wait until the turn is over and the page is current."""
    expect(page.locator("[data-status=live][data-running=false]")).to_be_visible(timeout=30_000)


def turn(page: Page, text: str) -> None:
    """One whole turn."""
    send(page, text)
    settled(page)


def session_of(page: Page) -> str:
    """The session that the page shows, by its address."""
    return page.url.rsplit("/", 1)[1]


def words(text: str) -> str:
    """Letters and digits alone, without the numbers of lists: what Markdown leaves of a text."""
    return re.sub(r"[\W_]+", "", re.sub(r"(?m)^\s*\d+\. ", "", text))


def shown(page: Page) -> list[dict[str, Any]]:
    """Messages in the page's order, each with its cards, tool calls and text."""
    found: list[dict[str, Any]] = page.evaluate(
        """() => [...document.querySelectorAll('article')].map((article) => ({
            entry: article.dataset.entry,
            role: article.dataset.role,
            calls: [...article.querySelectorAll('.calls [data-call]')].map((call) => call.dataset.call),
            batches: [...article.querySelectorAll('[data-batch]')].map((batch) => ({
                id: batch.dataset.batch,
                tasks: [...batch.querySelectorAll('[data-task]')].map(({ dataset }) => [dataset.task, dataset.state]),
            })),
            text: (article.querySelector(':scope > [data-content], .bubble')?.textContent ?? ''),
        }))"""
    )
    return [{**message, "text": words(message["text"])} for message in found]


def stored(tree: GetSessionTreeResponse) -> list[dict[str, Any]]:
    """The same of a stored session."""
    entries = {entry.entry_id: entry for entry in tree.entries}
    path: list[Entry] = []
    at = entries.get(tree.session.leaf_entry_id)
    while at is not None:
        path.append(at)
        at = entries.get(at.parent_entry_id)
    return [_message(entry, tree.entries) for entry in reversed(path)]


def _message(entry: Entry, all_entries: Any) -> dict[str, Any]:
    batches = _batches(entry, all_entries)
    parts = entry.assistant.parts
    calls = [part.tool_call for part in parts if part.HasField("tool_call")]
    text = entry.user.text or "".join(part.text.text for part in parts)
    return {
        "entry": entry.entry_id,
        "role": "user" if entry.HasField("user") else "assistant",
        "calls": [call.call_id for call in calls if not call.tool_name.startswith("delegate_")],
        "batches": [{"id": batch.batch_entry_id, "tasks": _tasks(batch)} for batch in batches],
        "text": words(text),
    }


def _batches(anchor: Entry, all_entries: Any) -> list[SubagentBatch]:
    attached = [entry for entry in all_entries if entry.parent_entry_id == anchor.entry_id]
    results = {e.subagent_result.batch_entry_id: e.subagent_result.batch for e in attached}
    running = [entry for entry in attached if entry.HasField("subagent_batch")]
    return [results.get(entry.entry_id, entry.subagent_batch.batch) for entry in running]


def _tasks(batch: SubagentBatch) -> list[list[str]]:
    return [[task.task_id, _WORDS[task.state]] for task in batch.items]
