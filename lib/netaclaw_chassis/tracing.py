"""OpenTelemetry traces: one trace from a client's request through every service that works for it.

Nothing is recorded, and the library is not loaded, unless `configure` found somewhere to send spans to. Span names are
methods and tools; no prompt, argument or output stands in a span.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
KEYS = ("traceparent", "tracestate")

_recorder: _Recorder | None = None


class _Recorder:
    def __init__(self, service: str, processor: SpanProcessor) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415  # loaded where it is used: it is slow to load
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # as above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # as above
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415  # as above

        self.context, self.trace = context, trace
        self.propagator = tracecontext.TraceContextTextMapPropagator()
        self.provider = TracerProvider(resource=Resource.create({"service.name": f"netaclaw-{service}"}))
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("netaclaw")


def configure(service: str, environ: Mapping[str, str]) -> None:
    """Send spans to the OTLP (gRPC) endpoint that OTEL_EXPORTER_OTLP_ENDPOINT names, if any."""
    if not environ.get(ENDPOINT):
        return
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # as above

    record(service, BatchSpanProcessor(OTLPSpanExporter(insecure=environ[ENDPOINT].startswith("http://"))))


def record(service: str, processor: SpanProcessor) -> None:
    """Give this process's spans to a processor."""
    global _recorder  # noqa: PLW0603  # one a process, as OpenTelemetry has it
    _recorder = _Recorder(service, processor)


def stop() -> None:
    """Send what is still held, and record no more."""
    global _recorder  # noqa: PLW0603  # as above
    if _recorder is not None:
        _recorder.provider.shutdown()
        _recorder = None


def begin(name: str, metadata: Iterable[tuple[str, str | bytes]]) -> Span | None:
    """A span of a call, under the one that its metadata names; None where nothing is recorded. Pass it to `end`.

    It is the current one of this task from now on, and of tasks that are made in it.
    """
    if _recorder is None:
        return None
    carrier = {key: value for key, value in metadata if key in KEYS and isinstance(value, str)}
    parent = _recorder.propagator.extract(carrier, _recorder.context.Context())
    span = _recorder.tracer.start_span(name, context=parent, kind=_recorder.trace.SpanKind.SERVER)
    # A call has a task of its own: nothing is to be detached.
    _recorder.context.attach(_recorder.trace.set_span_in_context(span))
    return span


def below(name: str) -> Span | None:
    """A span under the current one, for work inside a call; None where nothing is recorded. Pass it to `end`."""
    return None if _recorder is None else _recorder.tracer.start_span(name)


def enter(name: str) -> Span | None:
    """As `below`; it is the current one of this task from now on, and of tasks that are made in it."""
    span = below(name)
    if span is not None and _recorder is not None:
        _recorder.context.attach(_recorder.trace.set_span_in_context(span))  # the task is its own: nothing to detach
    return span


def end(span: Span | None, status: str = "OK") -> None:
    """The span's work is done."""
    if span is None or _recorder is None:
        return
    if status != "OK":
        span.set_status(_recorder.trace.StatusCode.ERROR, status)
    span.end()


def onward() -> tuple[tuple[str, str], ...]:
    """Metadata that names the current span; empty where nothing is recorded."""
    if _recorder is None:
        return ()
    carrier: dict[str, Any] = {}
    _recorder.propagator.inject(carrier)
    return tuple(carrier.items())
