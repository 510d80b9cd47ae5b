"""One served call, as logs, numbers and traces see it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from netaclaw_chassis import calls, metrics, tracing

log = logging.getLogger(__name__)


class Observation:
    """Begins with the call, whose identity it sets, and ends with it, once. No message content is noted."""

    def __init__(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        received = tuple(metadata)
        self.call = calls.begin(received)
        self._method = method
        self._started = time.monotonic()
        self._span = tracing.begin(method, received)
        self._open = True
        metrics.opened(method)

    def end(self, status: str, **extra: object) -> None:
        """The call has ended with a status; what comes later is ignored."""
        if not self._open:
            return
        self._open = False
        elapsed = time.monotonic() - self._started
        metrics.ended(self._method, status, elapsed)
        tracing.end(self._span, status)
        if log.isEnabledFor(logging.INFO):
            shown = {"method": self._method[:200], "request_id": self.call.request_id, "status": status}
            log.info("call", extra=shown | {"ms": round(elapsed * 1000, 1)} | extra)
