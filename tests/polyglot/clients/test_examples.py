"""The example of each language against the whole suite, through a connection that breaks again and again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client import Client, SessionView
from tests.faults.proxy import Proxy

ROOT = Path(__file__).parents[3]
JAVA = ROOT / "clients" / "java" / "target"
COMMANDS: dict[str, tuple[str, ...]] = {
    "python": (sys.executable, str(ROOT / "clients/python/examples/chat.py")),
    "typescript": ("node", str(ROOT / "clients/typescript/examples/chat.mjs")),
    "go": (str(ROOT / ".cache/chat-go"),),
    "java": ("java", "-cp", f"{JAVA / 'client-0.1.0.jar'}:{JAVA / 'lib'}/*", "netaclaw.client.examples.Chat"),
}
BUILT = {
    "typescript": ROOT / "clients/typescript/dist/index.js",
    "go": ROOT / ".cache/chat-go",
    "java": JAVA / "client-0.1.0.jar",
}
CONTENT = "in parallel: count the files; find the 3 largest files; count the lines per language"
CUTS = 6


class BreakingProxy(Proxy):
    """Each of the first connections breaks after so many bytes to the client."""

    def __init__(self, target: str, limits: list[int]) -> None:
        super().__init__(target)
        self._limits = limits
        self.broken = 0

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        to_client = sink.get_extra_info("sockname")[1] == int(self.address.rpartition(":")[2])
        if not to_client or not self._limits:
            await super()._pass(source, sink)
            return
        left = self._limits.pop(0)
        with contextlib.suppress(OSError):
            while left > 0 and (data := await source.read(left)):
                left -= len(data)
                sink.write(data)
                await sink.drain()
        self.broken += left <= 0
        self.cut()


@pytest.fixture
async def suite(tmp_path: Path) -> AsyncIterator[Suite]:
    workspace = tmp_path / "files"
    workspace.mkdir()
    for n in range(12):
        (workspace / f"größe{n}.py").write_text(f"# {n} ü\n" * (n * 9 + 1))
    async with Suite(SuiteOptions(tmp_path / "data", {"files": workspace}, throw_away=True)) as running:
        yield running


@pytest.mark.parametrize("language", COMMANDS)
async def test_an_example_ends_with_the_stored_text_whatever_breaks(suite: Suite, language: str) -> None:
    needs(language)
    seeded = random.Random(language)
    async with BreakingProxy(suite.address, [seeded.randrange(500, 9000) for _ in range(CUTS)]) as proxy:
        printed, report, code = await run(language, proxy.address)
        assert proxy.broken >= CUTS - 1, "the turn was over before its connections broke"
    async with Client(suite.address) as client:
        stored = await client.load(report["session_id"])
    assert (code, report["outcome"], report["seq"]) == (0, 1, stored.seq)
    assert report["text"] == stored.text_of(stored.leaf_entry_id)
    assert "Task 3 of 3" in report["text"]
    assert printed == "".join(texts_of(stored)) + "\n"


def texts_of(view: SessionView) -> list[str]:
    """What the assistant said, in the order in which it was written."""
    return [view.text_of(entry.entry_id) for entry in view.entries.values() if entry.HasField("assistant")]


async def run(language: str, address: str) -> tuple[str, dict[str, Any], int]:
    """What was printed, the report, and the exit code."""
    process = await asyncio.create_subprocess_exec(
        *COMMANDS[language], "--json", address, CONTENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, told = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = out.decode().splitlines(keepends=True)
    assert lines, told.decode()
    return "".join(lines[:-1]), json.loads(lines[-1]), process.returncode or 0


def needs(language: str) -> None:
    """Skipped for users without a toolchain, never in CI."""
    missing = [
        path
        for path in (shutil.which(COMMANDS[language][0]), BUILT.get(language, ROOT))
        if not path or not Path(path).exists()
    ]
    if missing and os.environ.get("CI"):
        pytest.fail(f"the {language} example is not built: make test-polyglot")
    if missing:
        pytest.skip(f"the {language} example is not built: make test-polyglot")
