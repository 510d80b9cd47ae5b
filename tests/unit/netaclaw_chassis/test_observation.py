"""What a served call leaves behind: numbers, and spans of one trace."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis import calls, metrics, tracing
from netaclaw_chassis.channel import connect
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.server import GrpcServer

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Passing(grpc.GenericRpcHandler):
    """Answers with the metadata that it would pass on, or fails."""

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        if request == b"fail":
            raise NetaclawError(Reason.REASON_NOT_FOUND, "no")
        return dict(calls.outgoing()).get("traceparent", "").encode()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.record("test", SimpleSpanProcessor(exporter))
    yield exporter
    tracing.stop()


async def ask(method: str, request: bytes, **metadata: str) -> bytes:
    server = GrpcServer("127.0.0.1", 0, [], handlers=[Passing()])
    await server.start()
    try:
        async with connect(server.address) as channel:
            start: Any = channel.unary_unary(method)
            answer: bytes = await start(request, metadata=tuple(metadata.items()))
            return answer
    finally:
        await server.stop(0)


async def test_a_call_continues_the_trace_that_its_caller_names(spans: InMemorySpanExporter) -> None:
    onward = await ask("/test/Ask", b"", traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
    (span,) = spans.get_finished_spans()
    assert (span.name, f"{span.context.trace_id:032x}") == ("/test/Ask", TRACE)
    assert onward.decode().split("-")[1:3] == [TRACE, f"{span.context.span_id:016x}"]


async def test_a_failed_call_is_a_failed_span(spans: InMemorySpanExporter) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await ask("/test/Ask", b"fail")
    (span,) = spans.get_finished_spans()
    assert (span.status.is_ok, span.status.description) == (False, "NOT_FOUND")


async def test_nothing_is_passed_on_where_nothing_is_recorded() -> None:
    assert await ask("/test/Ask", b"", traceparent=f"00-{TRACE}-b7ad6b7169203331-01") == b""


def scraped(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return list(answer.read().decode().splitlines())


async def test_calls_are_counted_by_method_and_status() -> None:
    server, thread = metrics.serve(0)
    try:
        await ask("/test/Counted", b"")
        with pytest.raises(grpc.aio.AioRpcError):
            await ask("/test/Counted", b"fail")
        lines = await asyncio.to_thread(scraped, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert 'netaclaw_calls_total{method="/test/Counted",status="OK"} 1.0' in lines
    assert 'netaclaw_calls_total{method="/test/Counted",status="NOT_FOUND"} 1.0' in lines
    assert 'netaclaw_calls_open{method="/test/Counted"} 0.0' in lines
    assert 'netaclaw_call_seconds_count{method="/test/Counted"} 2.0' in lines


def test_only_so_many_methods_are_told_apart() -> None:
    numbers = metrics._Numbers()
    labels = {numbers.label(f"/test/{n}") for n in range(1000)}
    assert len(labels) == 201
    assert "other" in labels
