"""What a model is to this suite: one streaming call that ends in one finished message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.tool.v1.tool_pb2 import ToolManifest

NewId = Callable[[], str]
"""Makes call ids: ours, unique in the session, whatever the provider sends."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Everything that one call depends on. Messages are treated as frozen."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolManifest] = ()
    thinking_level: ThinkingLevel = ThinkingLevel.THINKING_LEVEL_UNSPECIFIED
    max_output_tokens: int = 0
    """0: the provider's default."""
    must_call_tool: bool = False
    """The answer has to be a tool call, where the provider can be told so."""
    session_id: str = ""
    """Whose call it is: sessions that wait for the same provider take turns."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The call's last item: the whole assistant message with usage, model and finish reason set.

    Tool call parts are PENDING and carry our call ids.
    """

    message: Message


ModelEvent = TextDelta | ThinkingDelta | Finished


class ModelError(Exception):
    """A model call that gave no finished message. Its text is safe to show: no key, no prompt."""

    def __init__(
        self, message: str, *, reason: str = "MODEL_UNAVAILABLE", retryable: bool = True, usage: Usage | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        """A name of netaclaw.error.v1.Reason without its prefix."""
        self.retryable = retryable
        self.usage = usage if usage is not None else Usage(model_calls=1)
        """What the failed call cost, as far as is known."""


class Model(Protocol):
    """One model of the catalogue."""

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that fit, prompt and answer together."""
        ...

    def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """Run the call. Yields deltas in order, then exactly one Finished.

        Raises ModelError, before or after deltas. Closing the iterator, or cancelling the task that reads it, closes
        the provider's connection.
        """
        ...
