"""A model that stands in the catalogue and cannot answer, for a reason that the operator can mend."""

from __future__ import annotations

from collections.abc import AsyncIterator

from netaclaw_agent.model import ModelCall, ModelError, ModelEvent, NewId


class UnavailableModel:
    """Fails each call, once and for good, with the reason and its remedy."""

    def __init__(self, name: str, context_window: int, why: str) -> None:
        self._name = name
        self._context_window = context_window
        self._why = why

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return self._name

    @property
    def context_window(self) -> int:
        """Tokens that would fit."""
        return self._context_window

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """Raises ModelError MODEL_REFUSED, not retryable."""
        raise ModelError(self._why, reason="MODEL_REFUSED", retryable=False)
        yield  # makes it a generator, as callers expect
