"""The floor of a turn: bare generic handlers gateway → orchestrator → store, bytes only, one commit in the store.

As a process: `python -m bench.bare UPSTREAM`, where UPSTREAM is host:port of the next hop or a postgresql:// address;
prints one JSON line with its address.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc
import uvloop

METHOD = "/bench.Bare/Call"
INSERT = "INSERT INTO bench_bare (body) VALUES ($1)"
Answer = Callable[[bytes, Any], Awaitable[bytes]]


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, answer: Answer) -> None:
        self._handler: Any = grpc.unary_unary_rpc_method_handler(answer)

    def service(self, handler_call_details: Any) -> Any:
        return self._handler if handler_call_details.method == METHOD else None


async def _committing(url: str) -> Answer:
    pool = await asyncpg.create_pool(url, min_size=1, max_size=4)
    await pool.execute("CREATE TABLE IF NOT EXISTS bench_bare (id bigserial PRIMARY KEY, body bytea NOT NULL)")

    async def answer(request: bytes, context: Any) -> bytes:
        await pool.execute(INSERT, request)
        return request

    return answer


def _forwarding(address: str) -> Answer:
    call: Any = grpc.aio.insecure_channel(address).unary_unary(METHOD)

    async def answer(request: bytes, context: Any) -> bytes:
        answered: bytes = await call(request)
        return answered

    return answer


async def main(upstream: str) -> None:
    answer = await _committing(upstream) if upstream.startswith("postgres") else _forwarding(upstream)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handler(answer),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
