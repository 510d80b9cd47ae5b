"""Structured logs: one JSON object a line on stderr, with ids and never with prompts, arguments or outputs."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter

from netaclaw_chassis import calls


class _CallFilter(logging.Filter):
    """Adds the id of the running call to every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        call = calls.current()
        if call is not None and not hasattr(record, "request_id"):
            record.request_id = call.request_id
        return True


def configure(service: str, level: str = "INFO") -> None:
    """Send all logs of this process to stderr as JSON lines that name the service."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "%(asctime)s %(levelname)s %(name)s %(message)s",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            static_fields={"service": service},
        )
    )
    handler.addFilter(_CallFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
