"""A message that waits for a turn to take it in."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw.chat.v1.chat_service_pb2 import WhenBusy


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that arrived while a turn was running."""

    request_id: str
    when_busy: WhenBusy
    content: str
