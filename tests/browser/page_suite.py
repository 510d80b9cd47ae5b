"""A suite whose model waits for the test, and the page's everyday moves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from playwright.sync_api import Browser, BrowserContext, Page, expect

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceStub
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse
from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceStub
from tests.browser.background import ROOT, Background
from tests.browser.page_model import PageModel
from tests.fakes.openai_server import FakeOpenAI
from tests.faults.proxy import Proxy

API_KEY = "for-tests-7c1f"
"""What the suite's services know and nobody else may see."""
WINDOW = 40_000
"""Tokens of the model: a message of its own size makes the next one compact."""


@dataclass
class PageSuite:
    """A running suite with its page."""

    url: str
    """The page, without a slash at the end."""
    envoy_url: str
    """The same page through Envoy."""
    proxied: str
    """The page behind `network`, which a test may cut."""
    grpc_address: str
    workspace: Path
    background: Background
    waiting: asyncio.Event
    model: PageModel
    network: Proxy
    pid: int

    def hold(self) -> None:
        """Requests that wait begin to wait again."""
        self.background.run(_calling(self.waiting.clear))

    def release(self) -> None:
        """All that wait go on."""
        self.background.run(_calling(self.waiting.set))

    def cut(self) -> None:
        """Every connection through the network ends; new ones pass nothing on until `mend`."""
        self.background.run(_calling(self.network.hush))
        self.background.run(_calling(self.network.cut))

    def mend(self) -> None:
        """The network works again."""
        self.background.run(_calling(self.network.speak))

    def tree(self, session_id: str) -> GetSessionTreeResponse:
        """The session as it is stored."""
        with grpc.insecure_channel(self.grpc_address) as channel:
            request = GetSessionTreeRequest(session_id=session_id, page_size=1000)
            answer: GetSessionTreeResponse = SessionServiceStub(channel).GetSessionTree(request, timeout=10)
            return answer

    def session(self, **agent: Any) -> str:
        """A new session on the workspace with files, with an agent of these fields if there are any."""
        with grpc.insecure_channel(self.grpc_address) as channel:
            request = CreateSessionRequest(workspace="files")
            if agent:
                made = AgentServiceStub(channel).CreateAgent(
                    CreateAgentRequest(agent=Agent(name=f"worker {uuid.uuid4()}", **agent))
                )
                request.agent_id = made.agent.agent_id
            return str(SessionCommandServiceStub(channel).CreateSession(request).session.session_id)

    def kill(self, service: str) -> None:
        """End a service at once; returns when its successor runs."""
        before = self._pid_of(service)
        os.kill(before, signal.SIGKILL)
        until(lambda: self._pid_of(service) not in (0, before))

    def _pid_of(self, service: str) -> int:
        for pid in (int(each) for each in _read(f"/proc/{self.pid}/task/{self.pid}/children").split()):
            if f"netaclaw_{service}" in _read(f"/proc/{pid}/cmdline"):
                return pid
        return 0


@contextmanager
def page_suite(directory: Path) -> Iterator[PageSuite]:
    """The suite on a workspace with a few files, its model a server of ours."""
    workspace = directory / "files"
    workspace.mkdir()
    for n in range(12):
        (workspace / f"part{n}.py").write_text(f"# {n}\n" * (n * 9 + 1))
    background = Background()
    waiting = asyncio.Event()
    model = PageModel(waiting)
    fake = FakeOpenAI(model)
    environment = {
        **os.environ,
        "NETACLAW_OPENAI_BASE_URL": background.run(fake.start),
        "NETACLAW_OPENAI_API_KEY": API_KEY,
        "NETACLAW_OPENAI_CONTEXT_WINDOW": str(WINDOW),
    }
    command = [sys.executable, "-m", "netaclaw_cli", "up", "--envoy", "--quiet", "--port", "0"]
    command += ["--data-dir", str(directory / "data"), "--workspace", f"files={workspace}"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        announced = json.loads((directory / "data" / "run-suite" / "gateway.ports").read_text())
        web, public = str(announced["web"]), str(announced["public"])
        envoy = next(word.rstrip("/,") for word in line.split() if word.startswith("http://"))
        network = Proxy(web)
        background.run(network.__aenter__)
        yield PageSuite(
            f"http://{web}",
            envoy,
            f"http://{network.address}",
            public,
            workspace,
            background,
            waiting,
            model,
            network,
            process.pid,
        )
        background.run(lambda: network.__aexit__(None, None, None))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        background.run(fake.close)
        background.close()


@contextmanager
def strict_context(browser: Browser, suite: PageSuite, **options: Any) -> Iterator[BrowserContext]:
    """A browser of its own, in which nothing may break a policy or throw; what waits in the suite, waits anew."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", **options})
    context.set_default_timeout(15_000)
    wrong: list[str] = []
    context.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    suite.hold()
    yield context
    suite.mend()
    suite.release()
    context.close()
    assert [line for line in wrong if "ERR_" not in line] == []


def begin(page: Page, suite: PageSuite, door: str = "gateway") -> None:
    """A new chat on the workspace with files."""
    page.goto(suite.envoy_url if door == "envoy" else suite.url)
    page.locator("[data-workspace]").select_option("files")


def send(page: Page, text: str) -> None:
    """Write a message and send it by keyboard; return once it stands in the conversation."""
    before = page.locator("[data-role=user]").count()
    write(page, text)
    expect(page.locator("[data-role=user]")).to_have_count(before + 1)


def write(page: Page, text: str) -> None:
    """Write a message and send it by keyboard."""
    page.locator(".composer textarea").fill(text)
    page.keyboard.press("Enter")


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


def until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait, bounded, for something outside of the browser."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)  # between two looks at another process


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # it is gone
        return ""


def _calling(work: Callable[[], None]) -> Any:
    async def call() -> None:
        work()

    return call
