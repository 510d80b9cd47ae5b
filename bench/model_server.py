"""A model server for benchmarks: answers at once, or after a stated time, in the OpenAI streaming format.

As a process: prints one JSON line with its base_url. What it answers depends on the last messages only:
"delegate N" makes the main agent delegate N tasks; each child makes two calls of CHILD_S seconds and one tool call.
"delegate N busy" makes each make nine tool calls in one message, and answer at once.
A child whose goal is to hold is in a command, or in a model call, until it is cancelled.
"stream S" streams tokens for S seconds, PER_SECOND of them a second.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

CHILD_S = 0.4
HELD_S = 600.0
"""How long a call lasts that is to be cancelled."""
TREE = "setsid sleep 600 & (setsid -f sleep 600); sleep 600 & echo ready; wait"
"""A command with a tree of processes, two of them in sessions of their own."""
PER_SECOND = 50
PLAIN = ("Hello", " from", " a", " quick", " model", ".")


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    body = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    body["choices"][0]["finish_reason"] = finish  # type: ignore[index]  # the list above
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _text(*pieces: str) -> list[bytes]:
    return [*(_chunk({"content": piece}) for piece in pieces), _chunk({}, "stop")]


def _call(name: str, arguments: dict[str, Any], times: int = 1) -> list[bytes]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"index": n, "id": f"call-{n}", "type": "function", "function": function} for n in range(times)]
    return [_chunk({"tool_calls": calls}), _chunk({}, "tool_calls")]


def _usage() -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"


def plan(messages: list[dict[str, Any]]) -> tuple[float, list[bytes]]:
    """Seconds to wait, and the chunks to send."""
    first = next((str(m["content"]) for m in messages if m["role"] == "user"), "")
    answered = messages[-1]["role"] == "tool"
    if "busy" in first and "child" in first:
        return 0.0, _text("done") if answered else _call("list_files", {"path": "docs", "limit": 1}, times=9)
    if "hold a model" in first:
        return HELD_S, []
    if "hold a command" in first:
        return 0.0, _call("run_shell", {"command": TREE})
    if "child" in first:
        return CHILD_S, _text("done") if answered else _call("list_files", {"path": ".", "limit": 5})
    if first.startswith("delegate ") and not answered:
        kind = "busy child" if "busy" in first else "child"
        tasks = [{"goal": f"{kind} {number}"} for number in range(int(first.split()[1]))]
        return 0.0, _call("delegate_parallel", {"tasks": tasks})
    return 0.0, _text(*PLAIN)


async def _complete(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    wait, chunks = plan(body["messages"])
    first = str(body["messages"][-1].get("content") or "")
    if wait:
        await asyncio.sleep(wait)  # the model's thinking time
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if first.startswith("stream ") and not await _paced(response, float(first.split()[1])):
        return response
    for chunk in chunks:
        await response.write(chunk)
    await response.write(_usage() + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _paced(response: web.StreamResponse, seconds: float) -> bool:
    """One token after the other, on time on average; False when the reader has left."""
    loop = asyncio.get_running_loop()
    started, token = loop.time(), _chunk({"content": "tok "})
    for number in range(round(seconds * PER_SECOND)):
        await asyncio.sleep(max(0.0, started + number / PER_SECOND - loop.time()))  # the pace itself
        try:
            await response.write(token)
        except ConnectionError:
            return False
    return True


async def main() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(json.dumps({"base_url": f"http://127.0.0.1:{port}/v1"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
