"""What the parts of a run share: a way to speak to caller and worker, and to end the run."""

from __future__ import annotations

from typing import Protocol

from google.protobuf.message import Message

from netaclaw.subagent.v1.runner_service_pb2 import RunEvent
from netaclaw_runner.ending import End


class RunVoice(Protocol):
    """The run, as its parts see it."""

    @property
    def attended(self) -> bool:
        """Whether a caller reads and the run is not over: only then may something new be started."""
        ...

    def emit(self, event: RunEvent) -> None:
        """Tell the caller."""
        ...

    def tell(self, message: Message) -> None:
        """Tell the worker."""
        ...

    def end(self, end: End) -> None:
        """End the run, unless it has ended before."""
        ...

    def note(self, fact: str) -> None:
        """Something for the run's diagnostics; no content."""
        ...

    def progress(self) -> None:
        """Something moved: the stall clock starts anew."""
        ...
