"""A small real server that streams as Anthropic's Messages API does, on loopback, driven by a rule."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aiohttp import web

from tests.fakes.openai_server import Call, Cut, Hang, Item, Raw, Recorded, Reply, Text, Tokens, Wait


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of reasoning in one delta, with its signature."""

    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """A block of reasoning that only the provider can read."""

    data: str


Block = Item | Thought | Redacted
Rule = Callable[[dict[str, Any]], Reply]


class FakeAnthropic:
    """The server, as an async context manager. `Reply.finish_reason` is a stop reason; `items` may be `Block`s."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[Recorded] = []
        self.bodies: list[str] = []
        """The requests' bodies as they came."""
        self.base_url = ""
        self._runner: web.AppRunner | None = None
        self._closing = asyncio.Event()

    async def __aenter__(self) -> FakeAnthropic:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/messages", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text)
        self.bodies.append(text)
        peer = request.get_extra_info("peername") or ("", 0)
        self.requests.append(Recorded(dict(request.headers), body, peer[1]))
        wrong = _complaint(body)
        if wrong:
            return _error(400, {"type": "invalid_request_error", "message": wrong})
        reply = self.rule(body)
        if reply.status != 200:
            response = _error(reply.status, dict(reply.error or {}))
            response.headers.update(reply.headers)
            return response
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", **reply.headers})
        await stream.prepare(request)
        try:
            for item in reply.items:
                if isinstance(item, Wait):
                    await item.event.wait()
                if isinstance(item, Hang):
                    await self._closing.wait()
                if isinstance(item, Hang | Cut):
                    assert request.transport is not None
                    request.transport.abort()
                    raise ConnectionResetError
                if isinstance(item, Raw):
                    await stream.write(item.data)
            if not reply.raw_body:
                await stream.write(body_of(reply))
            await stream.write_eof()
        except ConnectionError:
            pass  # the client has left; what it got is its business
        return stream


def body_of(reply: Reply) -> bytes:
    """The whole body of an answer."""
    return b"".join(_event(event) for event in _events(reply))


def _events(reply: Reply) -> Iterator[dict[str, Any]]:
    tokens = next((item for item in reply.items if isinstance(item, Tokens)), Tokens(0, 0))
    usage = {
        "input_tokens": tokens.prompt - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    index = 0
    for item in reply.items:
        block = _block(item, index)
        if block is None:
            continue
        start, deltas = block
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if not index:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
        index += 1
    calls = any(isinstance(item, Call) for item in reply.items)
    reason = reply.finish_reason or ("tool_use" if calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens.completion}}
    yield {"type": "message_stop"}


def _block(item: Block, index: int) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    match item:
        case Text(text):
            half = len(text) // 2
            pieces = [{"type": "text_delta", "text": piece} for piece in (text[:half], text[half:])]
            return {"type": "text", "text": ""}, pieces
        case Thought(text, signature):
            deltas = [{"type": "thinking_delta", "thinking": text}] if text else []
            sealed = {"type": "signature_delta", "signature": signature}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sealed]
        case Redacted(data):
            return {"type": "redacted_thinking", "data": data}, []
        case Call(name, arguments, call_id):
            half = len(arguments) // 2
            pieces = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in ("", arguments[:half], arguments[half:])
            ]
            return {"type": "tool_use", "id": call_id or f"toolu_{index}", "name": name, "input": {}}, pieces
    return None


def _complaint(body: dict[str, Any]) -> str:
    """What the API refuses of a request, as far as it is documented and matters here."""
    roles = [message["role"] for message in body["messages"]]
    if roles[:1] != ["user"] or any(a == b for a, b in pairwise(roles)):
        return "roles must alternate, beginning with user"
    return _complaint_of_thinking(body) or _complaint_of_blocks(body["messages"])


def _complaint_of_thinking(body: dict[str, Any]) -> str:
    messages = body["messages"]
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    if budget and not 1024 <= budget < body["max_tokens"]:
        return "thinking.budget_tokens"
    last_calls = len(messages) > 1 and any(block["type"] == "tool_result" for block in messages[-1]["content"])
    if budget and last_calls and messages[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking"):
        return "expected thinking or redacted_thinking, but found tool_use"
    return ""


def _complaint_of_blocks(messages: list[dict[str, Any]]) -> str:
    for message, after in zip(messages, [*messages[1:], {"role": "user", "content": []}], strict=True):
        if any(not str(block.get("text", "x")).strip() for block in message["content"]):
            return "text content blocks must contain non-whitespace text"
        wanted = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        given = [block["tool_use_id"] for block in after["content"][: len(wanted)] if block["type"] == "tool_result"]
        if wanted != given:
            return "tool_use ids were found without tool_result blocks immediately after"
        if wanted and not all(isinstance(b["input"], dict) for b in message["content"] if b["type"] == "tool_use"):
            return "tool_use.input must be an object"
    return ""


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _error(status: int, error: dict[str, Any]) -> web.Response:
    return web.json_response({"type": "error", "error": error}, status=status)
