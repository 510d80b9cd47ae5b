"""OpenAI-style chunks, and the message that an assembler makes of them."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw_agent.loop import calls_of
from netaclaw_agent.models.assembler import Delta, MessageAssembler
from netaclaw_agent.models.openai_stream import OpenAIReader
from netaclaw_agent.models.reply import Reply

CASES = Path(__file__).parents[3] / "cases"


def reader(numbers: Iterator[int] | None = None) -> OpenAIReader:
    numbers = numbers or count(1)
    return OpenAIReader(MessageAssembler("m", lambda: f"ours-{next(numbers)}"))


def chunk(delta: dict[str, Any], finish_reason: object = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **more}


def fragment(index: int | None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    return chunk({"tool_calls": [{**({} if index is None else {"index": index}), **more, "function": function}]})


def assemble(*chunks: object, done: bool = True) -> tuple[Message, list[Delta]]:
    built = reader()
    deltas = [delta for c in chunks for delta in built.read(c)]
    deltas += built.finish()
    return built.assembler.message(done=done), deltas


def assemble_bytes(chunks: list[bytes]) -> tuple[Message, list[Delta]]:
    reply = Reply(reader())
    deltas = [delta for piece in chunks for delta in reply.feed(piece)]
    deltas += reply.end()
    return reply.message(), deltas


def called(message: Message) -> list[tuple[str, str]]:
    return [(call.tool_name, call.arguments_json) for call in calls_of(message)]
