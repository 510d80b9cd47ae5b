"""A small real server that streams as OpenAI-compatible servers do, on loopback, driven by a rule.

By default it answers as the scripted model would, so that any turn can be run through the `openai` provider as well.
As a process: `python -m tests.fakes.openai_server --port 0` prints one JSON line with its base_url.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from netaclaw.session.v1.entry_pb2 import (
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.loop import calls_of, text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, TextDelta
from netaclaw_agent.models.openai_request import ERROR_PREFIX
from netaclaw_agent.models.scripted import ScriptedModel
from netaclaw_agent.models.scripted_goals import GoalKind, parse_goal


@dataclass(frozen=True, slots=True)
class Text:
    """One chunk of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """One chunk of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; its arguments are sent in two fragments."""

    name: str
    arguments: str
    call_id: str = ""
    """Empty: the server numbers it."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The usage chunk, sent after the finish reason when the request asked for it."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing more until the event is set."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are, flushed alone."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing more, ever. As the first item: not even the headers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection in the middle of the body."""


Item = Text | Thinking | Call | Tokens | Wait | Raw | Hang | Cut


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer one request with."""

    items: Sequence[Item] = ()
    finish_reason: str = ""
    """Empty: `tool_calls` when there are calls, else `stop`."""
    status: int = 200
    error: Mapping[str, Any] | None = None
    """The error object, when status is not 200."""
    error_in_list: bool = False
    """Google's way."""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw_body: bool = False
    """The Raw items are the whole body: no role chunk before, no finish reason and no end mark after them."""


Rule = Callable[[dict[str, Any]], Reply | Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it came."""

    headers: Mapping[str, str]
    body: dict[str, Any]
    client_port: int
    """Tells connections apart."""


SPECIAL_GOALS: Mapping[str, Reply] = {
    "FAIL-500": Reply(status=500, error={"message": "broken", "type": "server_error", "code": None}),
    "FAIL-400": Reply(status=400, error={"message": "refused", "type": "invalid_request_error", "code": None}),
    "FAIL-429": Reply(status=429, error={"type": "rate_limit_error"}, headers={"Retry-After": "0"}),
    "HANG-LATER": Reply([Text("This answer "), Text("begins"), Hang()]),
    "HANG": Reply([Hang()]),
    "CUT": Reply([Text("This answer "), Text("is cut"), Cut()]),
    "EMPTY": Reply(),
    "TOO-LONG": Reply([Text("This answer reaches its")], finish_reason="length"),
    "FILTERED": Reply([Text("This answer is")], finish_reason="content_filter"),
}


class ScriptedRule:
    """Answers as the scripted model, except where the last user message holds one of the special words.

    A message that asks for a delegation is not special itself: its tasks' own requests are.
    """

    def __init__(self, special: Mapping[str, Reply] = SPECIAL_GOALS) -> None:
        self._special = special
        self._model = ScriptedModel(name="fake")

    async def __call__(self, request: dict[str, Any]) -> Reply:
        call = parse_request(request)
        asked = next((text_of(m) for m in reversed(call.messages) if m.role == MessageRole.MESSAGE_ROLE_USER), "")
        if parse_goal(asked).kind not in (GoalKind.PARALLEL, GoalKind.DELEGATE):
            for word, reply in self._special.items():
                if word in asked:
                    return reply
        items: list[Item] = []
        async for event in self._model.stream(call, new_id=lambda: ""):
            if isinstance(event, TextDelta):
                items.append(Text(event.text))
            elif isinstance(event, Finished):
                usage = event.message.usage
                items += [Call(part.tool_name, part.arguments_json) for part in calls_of(event.message)]
                items.append(Tokens(usage.input_tokens, usage.output_tokens))
        return Reply(items)


def parse_request(request: dict[str, Any]) -> ModelCall:
    """The model call that a chat completion request was made from, as far as the format tells."""
    system = ""
    messages: list[Message] = []
    pending: dict[str, ToolCallPart] = {}
    for sent in request["messages"]:
        match sent["role"]:
            case "system":
                system = sent["content"]
            case "user":
                messages.append(user_message(sent["content"]))
            case "assistant":
                messages.append(_assistant(sent))
                pending = {call.call_id: call for call in calls_of(messages[-1])}
            case "tool":
                _set_result(pending.pop(sent["tool_call_id"]), sent["content"])
    tools = [
        ToolManifest(
            tool_name=tool["function"]["name"],
            description=tool["function"].get("description", ""),
            parameters_json=json.dumps(tool["function"].get("parameters", {})),
        )
        for tool in request.get("tools", [])
    ]
    return ModelCall(system=system, messages=messages, tools=tools)


def _assistant(sent: dict[str, Any]) -> Message:
    message = Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT)
    if sent.get("content"):
        message.parts.append(Part(text=TextPart(text=sent["content"])))
    for call in sent.get("tool_calls", []):
        function = call["function"]
        part = ToolCallPart(call_id=call["id"], tool_name=function["name"], arguments_json=function["arguments"])
        message.parts.append(Part(tool_call=part))
    return message


def _set_result(call: ToolCallPart, content: str) -> None:
    is_error = content.startswith(ERROR_PREFIX)
    call.state = ToolCallState.TOOL_CALL_STATE_FAILED if is_error else ToolCallState.TOOL_CALL_STATE_COMPLETED
    call.result.CopyFrom(ToolResult(content=content.removeprefix(ERROR_PREFIX), is_error=is_error))


class FakeOpenAI:
    """The server. Use it as an async context manager, or start() and close()."""

    def __init__(self, rule: Rule | None = None) -> None:
        self.rule: Rule = rule or ScriptedRule()
        self.requests: list[Recorded] = []
        """All requests, in order of arrival."""
        self.base_url = ""
        self._runner: web.AppRunner | None = None
        self._closing = asyncio.Event()
        self._answers = 0

    async def __aenter__(self) -> FakeOpenAI:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def start(self, port: int = 0) -> str:
        """Listen on 127.0.0.1; return the base URL."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self.base_url

    async def close(self) -> None:
        """Cut what still hangs and stop listening."""
        self._closing.set()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        peer = request.get_extra_info("peername") or ("", 0)
        self.requests.append(Recorded(dict(request.headers), body, peer[1]))
        self._answers += 1
        stream = _Stream(body, f"chatcmpl-{self._answers}")
        if body.get("stream") is not True:
            return _error(400, {"message": "only streams are served", "type": "invalid_request_error"}, {})
        reply = self.rule(body)
        if inspect.isawaitable(reply):
            reply = await reply
        if reply.status != 200:
            if reply.error_in_list:
                return web.json_response([{"error": dict(reply.error or {})}], status=reply.status)
            return _error(reply.status, reply.error, reply.headers)
        if reply.items and isinstance(reply.items[0], Hang):
            return await self._hang(request)
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", **reply.headers}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        try:
            await self._send(request, response, stream, reply)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has left; what it got is its business
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, stream: _Stream, reply: Reply) -> None:
        if not reply.raw_body:
            await response.write(stream.delta({"role": "assistant", "content": ""}))
        tokens: Tokens | None = None
        for item in reply.items:
            match item:
                case Wait(event):
                    await event.wait()
                case Hang():
                    await self._hang(request)
                case Cut():
                    _abort(request)
                    raise ConnectionResetError
                case Tokens():
                    tokens = item
                case _:
                    for data in stream.chunks(item):
                        await response.write(data)
        if not reply.raw_body:
            for data in stream.end(reply.finish_reason, tokens):
                await response.write(data)

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        await self._closing.wait()
        _abort(request)
        raise ConnectionResetError


class _Stream:
    """Makes the chunks of one answer."""

    def __init__(self, body: dict[str, Any], answer_id: str) -> None:
        self._fixed = {
            "id": answer_id,
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body.get("model", "m"),
        }
        self._with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._calls = 0

    def chunks(self, item: Item) -> list[bytes]:
        match item:
            case Text(text):
                return [self.delta({"content": text})]
            case Thinking(text):
                return [self.delta({"reasoning_content": text})]
            case Raw(data):
                return [data]
            case Call(name, arguments, call_id):
                index, self._calls = self._calls, self._calls + 1
                function = {"name": name, "arguments": ""}
                head = {"index": index, "id": call_id or f"call_{index}", "type": "function", "function": function}
                half = len(arguments) // 2
                halves = [{"index": index, "function": {"arguments": a}} for a in (arguments[:half], arguments[half:])]
                return [self.delta({"tool_calls": [fragment]}) for fragment in (head, *halves)]
        return []

    def end(self, finish_reason: str, tokens: Tokens | None) -> list[bytes]:
        data = [self.delta({}, finish_reason or ("tool_calls" if self._calls else "stop"))]
        if tokens is not None and self._with_usage:
            usage = {
                "prompt_tokens": tokens.prompt,
                "completion_tokens": tokens.completion,
                "total_tokens": tokens.prompt + tokens.completion,
                "prompt_tokens_details": {"cached_tokens": tokens.cached},
                "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
            }
            data.append(_event({**self._fixed, "choices": [], "usage": usage}))
        return [*data, b"data: [DONE]\n\n"]

    def delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        return _event({**self._fixed, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _error(status: int, error: Mapping[str, Any] | None, headers: Mapping[str, str]) -> web.Response:
    return web.json_response({"error": dict(error or {})}, status=status, headers=dict(headers))


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _serve(port: int) -> None:
    server = FakeOpenAI()
    base_url = await server.start(port)
    sys.stdout.write(json.dumps({"base_url": base_url}) + "\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A streaming OpenAI-compatible server for tests.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one")
    asyncio.run(_serve(parser.parse_args().port))
