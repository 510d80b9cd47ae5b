"""`netaclaw demo`: one delegated turn on the files of a repository, shown live and then again from the stored tree."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw_cli import reload
from netaclaw_cli.cards import batch_of, card, card_lines
from netaclaw_cli.display import open_display
from netaclaw_cli.errors import CommandError
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.wording import clean, outcome, task_state, tokens
from netaclaw_client import Backoff, Client, SessionView, equal, run_turn

PROMPT = (
    "In parallel: count the lines per language under services/; find the 5 largest files; "
    "list every RPC with its comment under protos/"
)
WORKSPACE = "repo"

_LOCATION_NOTE = "postgres.location"
_ELSEWHERE = re.compile(r"/var/lib/netaclaw/[0-9a-f]{16}")
_RELOAD_TIMEOUT_S = 30.0
_SHOWN_DIFFERENCES = 20


async def run(arguments: argparse.Namespace) -> int:
    """0 only when the turn completed and the reloaded view equals the live one."""
    _leave_on_sigterm()
    console = Console(stderr=arguments.json, soft_wrap=not sys.stdout.isatty())
    with _throw_away_dir() as data_dir:
        options = SuiteOptions(data_dir, {WORKSPACE: Path.cwd()}, throw_away=True)
        async with Suite(options, report=lambda line: console.print(Text(line))) as suite:
            live = await _live(console, suite.address)
            reloaded = await _reloaded(suite.address, live.session_id)
    differences = equal(live, reloaded)
    _show_reloaded(console, reloaded, differences)
    report = _report(live, not differences)
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
    return 0 if report["state"] == "COMPLETED" and not differences else 1


def _leave_on_sigterm() -> None:
    """Stop the suite and remove the data as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _live(console: Console, address: str) -> SessionView:
    """Run the turn and return the view that its events alone have made."""
    async with Client(address) as client:
        made = await client.commands.CreateSession(CreateSessionRequest(workspace=WORKSPACE))
        view = SessionView(session_id=made.session.session_id, seq=made.session.seq)
        console.print(Text(f"> {PROMPT}\n", style="bold"))
        request = ChatRequest(session_id=view.session_id, content=PROMPT)
        async with open_display(console, view) as display:
            async for event in run_turn(client, request, view.seq, backoff=Backoff(max_attempts=20)):
                view.apply(event)
                display.show(event)
        if console.is_terminal:
            console.print(Text(f"\n{clean(_answer(view))}"))
    return view


async def _reloaded(address: str, session_id: str) -> SessionView:
    """The view that a fresh client in another process builds from the stored tree. Raises CommandError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "netaclaw_cli", "reload", "--address", address, "--session", session_id),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, words = await asyncio.wait_for(process.communicate(), _RELOAD_TIMEOUT_S)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    if process.returncode != 0:
        raise CommandError(f"the fresh client failed: {words.decode(errors='replace').strip()}")
    return reload.from_json(json.loads(out))


def _show_reloaded(console: Console, reloaded: SessionView, differences: list[str]) -> None:
    console.print(Text("\nThe same session in a fresh client, from the stored tree:", style="bold"))
    for entry in reloaded.batches():
        if console.is_terminal:
            console.print(card(entry))
        else:
            console.out("\n".join(card_lines(entry)), highlight=False)
    if not differences:
        console.print(Text("The reloaded view equals the live one.", style="green"))
    for difference in differences[:_SHOWN_DIFFERENCES]:
        console.print(Text(f"differs: {difference}", style="red"))


def _report(view: SessionView, reload_equal: bool) -> dict[str, Any]:
    end = view.turn_end
    failed = end is None or end.HasField("error")
    return {
        "session_id": view.session_id,
        "assistant_entry_id": _assistant_entry_id(view),
        "state": "FAILED" if end is None or failed else outcome(end.done.outcome),
        "text": _answer(view),
        "tasks": [
            {
                "name": task.name,
                "state": task_state(task.state),
                "summary": task.summary,
                "tool_calls": task.tool_call_count,
                "worker_pid": task.worker_pid,
                "tokens": tokens(task.usage),
            }
            for entry in view.batches()
            for task in batch_of(entry).items
        ],
        "reload_equal": reload_equal,
    }


def _assistant_entry_id(view: SessionView) -> str:
    if view.turn_end is None:
        return ""
    return view.turn_end.done.assistant_entry_id or view.turn_end.error.assistant_entry_id


def _answer(view: SessionView) -> str:
    return view.text_of(_assistant_entry_id(view))


@contextlib.contextmanager
def _throw_away_dir() -> Iterator[Path]:
    """A new data directory, removed at the end with what the store keeps of it elsewhere."""
    directory = Path(tempfile.mkdtemp(prefix="netaclaw-demo-"))
    try:
        yield directory
    finally:
        note = directory / _LOCATION_NOTE
        elsewhere = note.read_text().strip() if note.is_file() else ""
        if _ELSEWHERE.fullmatch(elsewhere):
            shutil.rmtree(elsewhere, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)
