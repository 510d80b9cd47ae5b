"""Numbers of this process for Prometheus: calls by method and status, their time, and how many are open.

Nothing is counted, and the library is not loaded, unless `serve` was called.
"""

from __future__ import annotations

from typing import Any

_MAX_METHODS = 200
_OTHER = "other"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)

_numbers: _Numbers | None = None


class _Numbers:
    def __init__(self) -> None:
        import prometheus_client as prometheus  # noqa: PLC0415  # loaded where it is used: it is slow to load

        self.registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        self.calls = prometheus.Counter("netaclaw_calls", "Calls that ended", ("method", "status"), registry=registry)
        self.seconds = prometheus.Histogram(
            "netaclaw_call_seconds", "How long calls took", ("method",), buckets=_BUCKETS, registry=registry
        )
        self.open = prometheus.Gauge("netaclaw_calls_open", "Calls and streams open", ("method",), registry=registry)
        self._known: set[str] = set()

    def label(self, method: str) -> str:
        """Clients choose names of methods, so only so many are told apart."""
        if method not in self._known:
            if len(self._known) >= _MAX_METHODS:
                return _OTHER
            self._known.add(method)
        return method


def serve(port: int, host: str = "127.0.0.1") -> tuple[Any, Any]:
    """Count from now on, and answer scrapes at http://host:port/metrics; the server and its thread.

    Raises OSError when the port is in use.
    """
    global _numbers  # noqa: PLW0603  # one registry a process
    import prometheus_client as prometheus  # noqa: PLC0415  # as above

    _numbers = _numbers or _Numbers()
    return prometheus.start_http_server(port, host, registry=_numbers.registry)


def opened(method: str) -> None:
    """A call began."""
    if _numbers is not None:
        _numbers.open.labels(_numbers.label(method)).inc()


def ended(method: str, status: str, seconds: float) -> None:
    """A call that was noted as opened has ended."""
    if _numbers is not None:
        label = _numbers.label(method)
        _numbers.open.labels(label).dec()
        _numbers.calls.labels(label, status).inc()
        _numbers.seconds.labels(label).observe(seconds)
