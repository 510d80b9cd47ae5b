"""The real worker in a full sandbox: its tools work, and it needs nothing that it has not brought along."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.message import Message

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1 import entry_pb2
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.policy import Scene, main_policy
from netaclaw_agent.subagent_config import SubagentSettings
from netaclaw_runner import protocol
from netaclaw_runner.protocol import Line
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.zygote.handle import ZygoteHandle
from netaclaw_runner.zygote.launcher import ZygoteLauncher
from netaclaw_runner.zygote.rehearsal import fill
from tests.sandbox import stances
from tests.sandbox.watched_worker import MARK

ENTRY = "tests.sandbox.watched_worker:main"
RUN = "run-1"

pytestmark = pytest.mark.skipif(not stances.LINUX, reason="the sandbox is Linux's")


class Conversation:
    """Lines with one worker."""

    def __init__(self, handle: ZygoteHandle) -> None:
        self._handle = handle
        self._splitter = protocol.Splitter()
        self._lines: list[bytes] = []

    async def say(self, message: Message) -> None:
        await asyncio.get_running_loop().sock_sendall(self._handle.channel, protocol.encode(RUN, message))

    async def hear(self) -> Line:
        while not self._lines:
            data = await asyncio.get_running_loop().sock_recv(self._handle.channel, 1 << 16)
            assert data, "the worker ended"
            self._lines += [line for line in self._splitter.feed(data) if isinstance(line, bytes)]
        return protocol.decode(self._lines.pop(0), protocol.UP)


@asynccontextmanager
async def worker(workspace: Path, options: LaunchOptions) -> AsyncIterator[tuple[Conversation, list[str]]]:
    """A worker, and on the way out all that it has tried to import."""
    late: list[str] = []
    launcher = ZygoteLauncher(entry=ENTRY, paths=[str(stances.REPOSITORY)])
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        handle = await launcher.launch(fd, options=options)
        try:
            yield Conversation(handle), late
        finally:
            handle.channel.close()
            await handle.exited()
            assert await handle.finish()
            said = os.read(handle.stderr_fd, 1 << 16).decode()
            os.close(handle.stderr_fd)
            late += [line for line in said.splitlines() if MARK in line]
    finally:
        os.close(fd)
        await launcher.close()


CALLS: Sequence[tuple[str, dict[str, object], str]] = (
    ("list_files", {}, "notes.txt"),
    ("list_files", {"path": "deep", "pattern": "**/*.txt", "recursive": True, "lines": True}, "deep"),
    ("read_file", {"path": "notes.txt"}, "second line"),
    ("read_file", {"path": "../outside"}, "cannot leave the workspace"),
    ("read_file", {"path": "binary"}, "binary"),
    ("search_files", {"query": "second"}, "notes.txt"),
    ("search_files", {"query": r"\N{LATIN SMALL LETTER S}econd", "regex": True}, ""),
    ("search_files", {"query": "[[a", "regex": True}, ""),
    ("write_file", {"path": "new/made.txt", "content": "\ud800 x"}, ""),
    ("write_file", {"path": "new/made.txt", "content": "made"}, "made.txt"),
    ("no_such_tool", {}, ""),
)


async def test_a_tool_host_works_on_what_it_brought_along(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one line\nsecond line\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x.txt").write_text("x")
    policy = main_policy(Agent(name="main"), scene=Scene.SUPERVISOR, workspace="w", settings=SubagentSettings())
    names = [name for name, _, _ in CALLS]
    async with worker(tmp_path, LaunchOptions(writable=True)) as (conversation, late):
        await conversation.say(
            pb.HostStart(protocol_version=protocol.PROTOCOL_VERSION, policy=policy, tool_names=names)
        )
        assert (await conversation.hear()).type == "run_start"
        for number, (name, arguments, expected) in enumerate(CALLS):
            call = pb.ToolCall(call_id=str(number), tool_name=name, arguments_json=json.dumps(arguments))
            await conversation.say(call)
            message = (await conversation.hear()).message
            assert isinstance(message, pb.ToolResultLine)
            assert expected in message.content
    assert (tmp_path / "new" / "made.txt").read_text() == "made"
    assert (tmp_path / "new" / "made.txt").stat().st_uid == os.geteuid()
    assert late == []


async def test_a_task_with_every_field_set_is_read_and_ended(tmp_path: Path) -> None:
    envelope = pb.SubagentTaskEnvelope()
    fill(envelope, 5)
    envelope.run_id = RUN
    async with worker(tmp_path, LaunchOptions()) as (conversation, late):
        await conversation.say(envelope)
        assert (await conversation.hear()).type == "run_start"
        request = (await conversation.hear()).message
        assert isinstance(request, pb.ModelRequest)
        answer = entry_pb2.Message(role=entry_pb2.MessageRole.MESSAGE_ROLE_ASSISTANT)
        answer.finish_reason = entry_pb2.FinishReason.FINISH_REASON_STOP
        answer.parts.add().text.text = "the answer"
        await conversation.say(pb.ModelResponse(request_id=request.request_id, message=answer))
        ended = (await conversation.hear()).message
        assert isinstance(ended, pb.RunEnd)
        assert ended.final_output == "the answer"
    assert late == []
