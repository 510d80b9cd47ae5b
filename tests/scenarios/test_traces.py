"""One trace from a client's request to a worker's tool call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw_chassis import tracing
from tests.conformance.wire import BINARY, ask, frame, request
from tests.scenarios.suites import OpenSuite

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.record("test", SimpleSpanProcessor(exporter))
    yield exporter
    tracing.stop()


async def test_a_page_s_request_and_a_subagent_s_tool_call_are_in_one_trace(
    open_suite: OpenSuite, spans: InMemorySpanExporter
) -> None:
    async with open_suite("in_process") as suite:
        asked = ChatRequest(content="in parallel: count the files; list the files").SerializeToString()
        headers = {"host": suite.web, "content-type": BINARY, "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        answer = await ask(suite.web, request("/netaclaw.chat.v1.ChatService/Chat", [frame(asked)], headers))
        assert answer.code == 0
    traced = [span for span in spans.get_finished_spans() if f"{span.context.trace_id:032x}" == TRACE]
    names = [span.name for span in traced]
    assert names.count("/netaclaw.chat.v1.ChatService/Chat") == 2  # the gateway's and the orchestrator's
    assert names.count("/netaclaw.subagent.v1.RunnerService/Run") == 1  # of the batch
    assert names.count("run") == 2
    assert sum(name.startswith("tool ") for name in names) >= 2
    assert "/netaclaw.store.v1.JournalService/BeginTurn" in names
    known = {span.context.span_id for span in traced}
    outside = [span for span in traced if span.parent is None or span.parent.span_id not in known]
    assert len(outside) == 1  # only the first one's parent is the page's own
