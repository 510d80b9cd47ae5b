"""The web page beside bare pages that show the same text: `make bench-page`. In a real Chromium, on the real suite.

page.open5000: from navigation to the frame in which the newest message of a session of 5,000 entries stands in the
window. Floor: a document with the same texts as paragraphs, scrolled to its end.
page.stream_frame: 95th percentile of the time between frames while an answer of 200 KB comes in 200 deltas a second.
Floor: the same events over the same client, appended to paragraphs.
"""

from __future__ import annotations

import asyncio
import functools
import html
import http.server
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from bench.figures import Figure, median_figure
from bench.page_model import ANSWER
from bench.page_session import fill, texts
from bench.processes import ROOT, started
from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw_chassis.lifecycle import new_event_loop
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client.client import Client
from netaclaw_store import embedded

ROUNDS = 7
OPEN_LIMIT = 3.0
FRAME_LIMIT = 2.0
CLIENT = ROOT / "clients" / "typescript"
_IN_SIGHT = """(selector) => new Promise((resolve) => {
    const look = () => {
        const element = document.querySelector(selector);
        const box = element?.getBoundingClientRect();
        const inSight = box && box.height > 0 && box.bottom > 0 && box.top < innerHeight && element.textContent.trim();
        if (inSight) requestAnimationFrame(() => resolve(performance.now())); // after the frame was drawn
        else requestAnimationFrame(look);
    };
    look();
})"""
_FRAMES = """(ended) => new Promise((resolve) => {
    const frames = [];
    let before;
    const tick = (now) => {
        if (before !== undefined) frames.push(now - before);
        before = now;
        if (document.querySelector(ended)) resolve(frames);
        else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
})"""


@dataclass(frozen=True, slots=True)
class Rig:
    """A browser, the suite, and a web server for the bare pages."""

    browser: Browser
    page: str
    """Address of the suite's page."""
    client: Client
    bare: str
    session_id: str
    last_entry_id: str


async def main() -> int:
    async with _rig() as rig:
        kept = True
        for measure in (_open, _stream):
            figure = await measure(rig)
            print(figure.line(), flush=True)
            kept = kept and figure.within is True
    return 0 if kept else 1


@asynccontextmanager
async def _rig() -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        site = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netaclaw-bench-")))
        bare = stack.enter_context(_served(site))
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netaclaw-bench-")))
        postgres = await embedded.start(data)
        stack.push_async_callback(postgres.stop)
        session_id, last_entry_id = await fill(data, postgres.url)
        model = await stack.enter_async_context(started("bench.page_model"))
        environ = {
            **os.environ,
            "NETACLAW_DATABASE_URL": postgres.url,
            "NETACLAW_OPENAI_BASE_URL": model["base_url"],
            "NETACLAW_LOG_LEVEL": "WARNING",
        }
        suite = await stack.enter_async_context(Suite(SuiteOptions(data_dir=data, environ=environ)))
        client = await stack.enter_async_context(Client(suite.address))
        playwright = await stack.enter_async_context(async_playwright())
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        stack.push_async_callback(browser.close)
        yield Rig(browser, f"http://{suite.web_address}", client, bare, session_id, last_entry_id)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def _served(site: Path) -> Any:
    """The bare pages on a web server of their own, as a context manager that yields its address."""
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in texts())
    head = "<!doctype html><meta charset=utf-8><title>bare</title>"
    end = "<script>scrollTo(0, document.body.scrollHeight)</script>"
    (site / "list.html").write_text(f"{head}{paragraphs}<div id=last>the end</div>{end}")
    (site / "stream.html").write_text(f"{head}<body><script type=module src=stream.js></script>")
    bundle = [str(CLIENT / "node_modules/.bin/esbuild"), "--bundle", "--format=esm", "--log-level=warning"]
    source = str(ROOT / "bench" / "bare_page" / "stream.ts")
    subprocess.run([*bundle, source, f"--outfile={site / 'stream.js'}"], cwd=CLIENT, check=True)
    return _Site(site)


class _Site:
    def __init__(self, directory: Path) -> None:
        handler = functools.partial(_Quiet, directory=str(directory))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@asynccontextmanager
async def _visit(rig: Rig, address: str) -> AsyncIterator[Page]:
    """A page of a browser that has been nowhere."""
    context = await rig.browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    await page.goto(address, wait_until="commit")
    try:
        yield page
    finally:
        await context.close()


async def _open(rig: Rig) -> Figure:
    async def took(address: str, selector: str) -> float:
        async with _visit(rig, address) as page:
            return float(await page.evaluate(_IN_SIGHT, selector))

    values: list[float] = []
    floors: list[float] = []
    for number in range(-1, ROUNDS):
        value = await took(f"{rig.page}/s/{rig.session_id}", f'[data-entry="{rig.last_entry_id}"] [data-content]')
        floor = await took(f"{rig.bare}/list.html", "#last")
        if number >= 0:  # the first round fills the machine's own caches
            values.append(value)
            floors.append(floor)
    return median_figure("page.open5000", "ms", values, floors, limit=OPEN_LIMIT)


async def _stream(rig: Rig) -> Figure:
    ours = await _frames(rig, lambda session: f"{rig.page}/s/{session}", "[data-status=live]", "[data-running=false]")
    bare = await _frames(
        rig,
        lambda session: f"{rig.bare}/stream.html?suite={rig.page}&session={session}",
        "[data-status=live]",
        "[data-end=done]",
    )
    value, floor = _p95(ours), _p95(bare)
    print(f"# frames: {_described(ours)}; bare {_described(bare)}", file=sys.stderr)
    return Figure("page.stream_frame", "ms", value, floor, (value / floor, value / floor), limit=FRAME_LIMIT)


async def _frames(rig: Rig, address: Any, ready: str, ended: str) -> list[float]:
    """Times between frames while the answer comes, all of it shown at the end."""
    made = await rig.client.commands.CreateSession(CreateSessionRequest())
    session_id = made.session.session_id
    async with _visit(rig, address(session_id)) as page:
        await page.wait_for_selector(ready, state="attached")
        call = rig.client.chat.Chat(ChatRequest(session_id=session_id, content="Say much."))
        await call.read()
        call.cancel()  # the turn goes on without this reader
        await page.wait_for_function("() => document.body.textContent.includes('Section 0')")
        frames: list[float] = await page.evaluate(_FRAMES, ended)
        await page.wait_for_function("() => document.body.textContent.includes('The last words')")
        shown = await page.evaluate("() => document.body.textContent.replace(/\\s+/g, ' ').length")
        if shown < len(ANSWER) / 2:
            raise RuntimeError(f"only {shown} characters are shown")
        return frames


def _p95(frames: Sequence[float]) -> float:
    return statistics.quantiles(frames, n=20)[-1]


def _described(frames: Sequence[float]) -> str:
    return f"{len(frames)}, median {statistics.median(frames):.1f} ms, longest {max(frames):.0f} ms"


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        sys.exit(runner.run(main()))
