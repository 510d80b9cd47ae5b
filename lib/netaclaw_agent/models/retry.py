"""Further tries of a model call that failed before it showed anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Finished, Model, ModelCall, ModelError, ModelEvent, NewId
from netaclaw_agent.models.faults import ModelStalled, ProviderError
from netaclaw_agent.usage import add_usage

Sleep = Callable[[float], Awaitable[object]]


class RetryingModel:
    """A model whose calls are tried again after retryable errors, as long as nothing was yielded yet.

    Waits `base_s`, then twice as long each time, or as long as the provider asked, never above `cap_s`. A stall is not
    tried again: its time limit was the patience there is. The usage of failed tries is added to what is reported.
    """

    def __init__(
        self,
        model: Model,
        *,
        tries: int = 3,
        base_s: float = 0.5,
        cap_s: float = 20.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._model = model
        self._tries = tries
        self._base_s = base_s
        self._cap_s = cap_s
        self._sleep = sleep

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._model.name

    @property
    def context_window(self) -> int:
        """The inner model's window."""
        return self._model.context_window

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """As Model.stream. Raises the last try's error."""
        spent = Usage()
        for attempt in range(self._tries):
            shown = False
            events = self._model.stream(call, new_id=new_id)
            try:
                async for event in events:
                    shown = True
                    yield _with_spent(event, spent)
                return
            except ModelError as error:
                add_usage(spent, error.usage)
                error.usage = spent
                last_try = attempt + 1 >= self._tries
                if shown or last_try or not error.retryable or isinstance(error, ModelStalled):
                    raise
                wait_s = self._wait_s(attempt, error)
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
            await self._sleep(wait_s)

    def _wait_s(self, attempt: int, error: ModelError) -> float:
        asked = error.retry_after_s if isinstance(error, ProviderError) else None
        wait_s = self._base_s * 2.0**attempt if asked is None else max(0.0, asked)
        return min(wait_s, self._cap_s)


def _with_spent(event: ModelEvent, spent: Usage) -> ModelEvent:
    if isinstance(event, Finished) and spent.model_calls:
        add_usage(event.message.usage, spent)
    return event
