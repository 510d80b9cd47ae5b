"""The command line with all four services as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client import Client, SessionView, equal, run_turn
from netaclaw_store import embedded

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-P", "-m", "netaclaw_cli")


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def descendants(pid: int) -> set[int]:
    """All processes below one, as the kernel lists them."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found: set[int] = set()
    for child in map(int, children.read_text().split()) if children.exists() else ():
        found |= {child} | descendants(child)
    return found


async def test_the_demonstration_ends_well_only_with_an_equal_reload() -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "demo", "--json", cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, told = await process.communicate()
    report = json.loads(out.splitlines()[-1])
    assert (process.returncode, report["state"], report["reload_equal"]) == (0, "COMPLETED", True), told.decode()
    assert [task["state"] for task in report["tasks"]] == ["COMPLETED"] * 3
    assert len({task["worker_pid"] for task in report["tasks"]}) == 3
    assert all(task["tool_calls"] > 0 and task["summary"] and task["tokens"] > 0 for task in report["tasks"])
    assert all(task["summary"].splitlines()[0] in report["text"] for task in report["tasks"])
    cards = told.decode().split("The same session in a fresh client")
    assert all(task["name"] in cards[1] for task in report["tasks"])


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory below a closed one; what the store has put elsewhere for it goes with it."""
    yield tmp_path / "data"
    embedded.discard(tmp_path / "data")


async def test_ctrl_c_ends_everything_within_five_seconds_and_the_data_stays(data_dir: Path) -> None:
    sessions: list[str] = []
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            *(*COMMAND, "up", "--quiet", "--port", "0", "--data-dir", str(data_dir)),
            *("--workspace", f"repo={ROOT}"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        words = (await process.stdout.readline()).decode().split()
        address = next(word for word in words if word.startswith("127.0.0.1:")).rstrip(",")
        async with Client(address) as client:
            if sessions:
                assert (await client.load(sessions[0])).session.workspace == "repo"
            made = await client.commands.CreateSession(CreateSessionRequest(workspace="repo"))
            sessions.append(made.session.session_id)
        below = descendants(process.pid)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        assert time.monotonic() - started < 5
        assert not any(map(alive, below))


async def test_a_turn_survives_the_gateways_death(data_dir: Path) -> None:
    request = "in parallel: count the files under lib; find the 3 largest files; list the files under protos"
    async with (
        Suite(SuiteOptions(data_dir, {"repo": ROOT}, throw_away=True)) as suite,
        Client(suite.address) as client,
    ):
        made = await client.commands.CreateSession(CreateSessionRequest(workspace="repo"))
        view = SessionView(session_id=made.session.session_id, seq=made.session.seq)
        first = suite.pid("gateway")
        async for event in run_turn(client, ChatRequest(session_id=view.session_id, content=request), view.seq):
            view.apply(event)
            if event.HasField("subagent_run_started"):
                os.kill(first, signal.SIGKILL)
        assert suite.pid("gateway") != first
        assert view.turn_end is not None
        assert view.turn_end.HasField("done")
        assert equal(view, await client.load(view.session_id)) == []
