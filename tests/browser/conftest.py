"""A real Chromium, a page with both clients, and the suite behind both ways in."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.background import ROOT, Background
from tests.browser.page_suite import PageSuite, page_suite, strict_context
from tests.faults.proxy import Proxy

CLIENT = ROOT / "clients" / "typescript"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
expect.set_options(timeout=15_000)  # of a machine that has other things to do, too
FOREIGN = "evil.example"
"""A name that the browser is told to find on this machine."""


@pytest.fixture(scope="session", autouse=True)
def needs() -> None:
    """Skipped for users without a browser or Node, never in CI."""
    missing = [name for name, there in (("chromium", CHROMIUM), ("node", shutil.which("node"))) if not there]
    if not (CLIENT / "node_modules").is_dir():
        missing.append("clients/typescript/node_modules (make test-browser)")
    if missing and os.environ.get("CI"):
        pytest.fail(f"missing: {', '.join(missing)}")
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}")


@dataclass(frozen=True)
class Doors:
    """The suite's two ways in for browsers, as host:port."""

    bridge: str
    envoy: str


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The suite as `netaclaw up --envoy` runs it, on a workspace with a few files."""
    directory = tmp_path_factory.mktemp("suite")
    workspace = directory / "files"
    workspace.mkdir()
    for n in range(12):
        (workspace / f"part{n}.py").write_text(f"# {n}\n" * (n * 9 + 1))
    command = [sys.executable, "-m", "netaclaw_cli", "up", "--envoy", "--quiet", "--port", "0"]
    command += ["--data-dir", str(directory / "data"), "--workspace", f"files={workspace}"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        envoy = next(word.strip(",") for word in line.split() if word.startswith("127.0.0.1:"))
        announced = (directory / "data" / "run-suite" / "gateway.ports").read_text()
        yield Doors(bridge=str(json.loads(announced)["web"]), envoy=envoy)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A web server with the bundled page; its port."""
    directory = tmp_path_factory.mktemp("site")
    bundle = [str(CLIENT / "node_modules/.bin/esbuild"), "--bundle", "--format=esm", "--log-level=warning"]
    for source, target in (("tests/browser/page.ts", "page.js"), ("src/shared/worker.ts", "worker.js")):
        subprocess.run([*bundle, source, f"--outfile={directory / target}"], cwd=CLIENT, check=True)
    (directory / "index.html").write_text("<!doctype html><script type=module src=/page.js></script>")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    own = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=own)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, site: int) -> Iterator[Page]:
    context = browser.new_context()
    yield open_page(context.new_page(), site)
    context.close()


def open_page(page: Page, site: int, host: str = "127.0.0.1") -> Page:
    """Load the tests' page and wait for its script."""
    page.goto(f"http://{host}:{site}/")
    page.wait_for_function("window.netaclaw !== undefined")
    return page


@dataclass
class Way:
    """A way in whose connections a test can cut."""

    url: str
    direct: str
    cut: Callable[[], None]


@pytest.fixture(params=["bridge", "envoy"])
def way(request: pytest.FixtureRequest, doors: Doors) -> Iterator[Way]:
    background = Background()
    address = getattr(doors, request.param)
    proxy = Proxy(address)
    background.run(proxy.__aenter__)

    async def cut() -> None:
        proxy.cut()

    yield Way(f"http://{proxy.address}", f"http://{address}", lambda: background.run(cut))
    background.run(lambda: proxy.__aexit__(None, None, None))
    background.close()


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSuite]:
    """One suite for all tests of the page that break nothing of it."""
    with page_suite(tmp_path_factory.mktemp("page-suite")) as running:
        yield running


@pytest.fixture
def context(browser: Browser, suite: PageSuite) -> Iterator[BrowserContext]:
    """A browser of its own, in which nothing may break a policy or throw; what waits in the suite, waits anew."""
    with strict_context(browser, suite) as context:
        yield context


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    return context.new_page()
