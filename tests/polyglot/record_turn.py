"""Records a real delegated turn: its events as they came, and the tree afterwards. Clients in every language are tested
with it. Run as `python -m tests.polyglot.record_turn > tests/cases/recorded-turn.json`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.session.v1.session_command_service_pb2 import CreateSessionRequest
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_client import Client, run_turn
from tests.records import print_record

PROMPT = "in parallel: count the files; find the 2 largest files; count the lines per language"


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name) / "files"
        workspace.mkdir()
        for n in range(6):
            (workspace / f"part{n}.py").write_text(f"# größer: {n}\n" * (n * 7 + 1))
        options = SuiteOptions(Path(name) / "data", {"files": workspace}, throw_away=True)
        async with Suite(options) as suite, Client(suite.address) as client:
            made = await client.commands.CreateSession(CreateSessionRequest(workspace="files"))
            request = ChatRequest(session_id=made.session.session_id, content=PROMPT)
            events = [event async for event in run_turn(client, request)]
            tree = await client.sessions.GetSessionTree(GetSessionTreeRequest(session_id=made.session.session_id))
    print_record(tree, events, directory=name)


if __name__ == "__main__":
    asyncio.run(main())
