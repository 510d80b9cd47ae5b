"""A model as the catalogue offers it: it waits for its provider, is tried again, and knows what it costs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Finished, Model, ModelCall, ModelError, ModelEvent, NewId
from netaclaw_agent.models.faults import ModelStalled, ProviderError
from netaclaw_agent.models.limits import Slots
from netaclaw_agent.tokens import estimate_tokens, message_tokens, prompt_tokens
from netaclaw_agent.usage import FREE, Prices, add_usage, cost

Sleep = Callable[[float], Awaitable[object]]


class OfferedModel:
    """A model whose calls are tried again after retryable errors, as long as nothing was yielded yet.

    Waits about `base_s`, then twice as long each time, or as long as the provider asked; a provider that asks for more
    than `cap_s` is not tried again. Neither is a stall: its time limit was the patience there is. Between tries the
    slot is free. The usage of failed tries is added to what is reported; where the provider reported no tokens for what
    it sent, they are estimated and counted in `estimated_calls`.
    """

    def __init__(
        self,
        model: Model,
        *,
        slots: Slots | None = None,
        prices: Prices = FREE,
        tries: int = 3,
        base_s: float = 0.5,
        cap_s: float = 60.0,
        sleep: Sleep = asyncio.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """`spread`: from 0 to 1, how much of a wait's second half is waited, so that many do not come back at once."""
        self._model = model
        self._slots = slots if slots is not None else Slots(0)
        self._prices = prices
        self._tries = tries
        self._base_s = base_s
        self._cap_s = cap_s
        self._sleep = sleep
        self._spread = spread

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._model.name

    @property
    def context_window(self) -> int:
        """The inner model's window."""
        return self._model.context_window

    def price(self, usage: Usage) -> int:
        """As the catalogue has it."""
        return cost(self._prices, usage)

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """As Model.stream. Raises the last try's error."""
        spent = Usage()
        for attempt in range(self._tries):
            shown: list[str] = []
            async with self._slots.held(call.session_id):
                events = self._model.stream(call, new_id=new_id)
                try:
                    async for event in events:
                        if isinstance(event, Finished):
                            self._count_finished(event, call, spent)
                        else:
                            shown.append(event.text)
                        yield event
                    return
                except ModelError as error:
                    self._count_failed(error, call, "".join(shown), spent)
                    wait_s = None if shown or attempt + 1 >= self._tries else self._wait_s(attempt, error)
                    if wait_s is None:
                        raise
                finally:
                    if isinstance(events, AsyncGenerator):
                        await events.aclose()
            await self._sleep(wait_s)

    def _wait_s(self, attempt: int, error: ModelError) -> float | None:
        """Seconds before another try; None when there is to be none."""
        if not error.retryable or isinstance(error, ModelStalled):
            return None
        asked = error.retry_after_s if isinstance(error, ProviderError) else None
        if asked is not None:
            return max(0.0, asked) if asked <= self._cap_s else None
        return min(self._base_s * 2.0**attempt * (1 + self._spread()) / 2, self._cap_s)

    def _count_finished(self, event: Finished, call: ModelCall, spent: Usage) -> None:
        usage = event.message.usage
        if not (usage.input_tokens or usage.output_tokens):
            usage.input_tokens = prompt_tokens(call.system, call.messages, call.tools)
            usage.output_tokens = message_tokens(event.message)
            usage.estimated_calls = 1
        usage.cost_micros = cost(self._prices, usage)
        add_usage(usage, spent)

    def _count_failed(self, error: ModelError, call: ModelCall, shown: str, spent: Usage) -> None:
        """A failed call costs what the provider did: nothing where it sent nothing, as far as is known."""
        usage = Usage()
        usage.CopyFrom(error.usage)
        if shown:
            known = (usage.input_tokens, usage.output_tokens)
            usage.input_tokens = usage.input_tokens or prompt_tokens(call.system, call.messages, call.tools)
            usage.output_tokens = max(usage.output_tokens, estimate_tokens(shown))
            usage.estimated_calls = int(known != (usage.input_tokens, usage.output_tokens))
        usage.cost_micros = cost(self._prices, usage)
        add_usage(spent, usage)
        error.usage = spent
