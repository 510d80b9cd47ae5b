"""A service that streams at a pace, and answers at once: what stands behind the ways in when they are measured alone.

As a process: prints one JSON line with its address and process id. A request is "events a second, seconds"; 0 events a
second is a stream that stays silent. An empty request is answered once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw_chassis.lifecycle import new_event_loop
from netaclaw_chassis.link import PLAIN

EVENT = b"x" * 80


class _Paced(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.unary_stream_rpc_method_handler(_stream)


async def _stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    if not request:
        yield EVENT
        return
    rate, seconds = map(float, request.split(b","))
    await context.send_initial_metadata(())
    loop = asyncio.get_running_loop()
    if not rate:
        await asyncio.sleep(seconds)  # silent on purpose
        return
    began = loop.time()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))  # the pace
        yield EVENT


async def _serve() -> None:
    server = grpc.aio.server(options=PLAIN.server_options())
    server.add_generic_rpc_handlers((_Paced(),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    print(json.dumps({"address": address, "pid": str(os.getpid())}), flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve())
