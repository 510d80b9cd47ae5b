"""Further tries of model calls that showed nothing."""

from collections.abc import AsyncIterator, Sequence

import pytest

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, NewId, TextDelta
from netaclaw_agent.models.faults import ModelStalled, ProviderError
from netaclaw_agent.models.retry import RetryingModel

Script = Sequence[ModelEvent | ModelError]


class Played:
    """A model that plays one script per call."""

    name = "played"
    context_window = 10

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.ended = 0

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        try:
            for item in self.scripts.pop(0):
                if isinstance(item, ModelError):
                    raise item
                yield item
        finally:
            self.ended += 1


def done() -> Finished:
    return Finished(Message(usage=Usage(input_tokens=5, model_calls=1)))


async def play(*scripts: Script) -> tuple[list[ModelEvent], ModelError | None, list[float], Played]:
    waits: list[float] = []
    inner = Played(*scripts)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    model = RetryingModel(inner, tries=3, base_s=1.0, cap_s=10.0, sleep=sleep)
    events: list[ModelEvent] = []
    try:
        async for event in model.stream(ModelCall(system="", messages=[]), new_id=lambda: "x"):
            events.append(event)
    except ModelError as error:
        return events, error, waits, inner
    return events, None, waits, inner


async def test_a_retryable_error_is_tried_again_with_growing_waits() -> None:
    events, error, waits, inner = await play([ProviderError("a")], [ProviderError("b")], [TextDelta("ok"), done()])
    assert error is None
    assert events[0] == TextDelta("ok")
    assert waits == [1.0, 2.0]
    assert inner.ended == 3


async def test_failed_tries_are_part_of_the_usage() -> None:
    events, _, _, _ = await play([ProviderError("a", usage=Usage(input_tokens=2, model_calls=1))], [done()])
    assert isinstance(events[-1], Finished)
    usage = events[-1].message.usage
    assert (usage.model_calls, usage.input_tokens) == (2, 7)


async def test_the_last_try_fails_with_its_own_error_and_the_usage_of_all() -> None:
    _, error, waits, _ = await play([ProviderError("a")], [ProviderError("b")], [ProviderError("c")])
    assert str(error) == "c"
    assert error is not None
    assert error.usage.model_calls == 3
    assert waits == [1.0, 2.0]


async def test_nothing_is_tried_again_once_something_was_shown() -> None:
    events, error, waits, _ = await play([TextDelta("half"), ProviderError("cut")])
    assert events == [TextDelta("half")]
    assert str(error) == "cut"
    assert waits == []


@pytest.mark.parametrize("error", [ProviderError("no", retryable=False), ModelStalled("slow")])
async def test_refusals_and_stalls_are_not_tried_again(error: ModelError) -> None:
    _, got, waits, _ = await play([error])
    assert got is error
    assert waits == []


@pytest.mark.parametrize(("asked", "waited"), [(3.0, 3.0), (3600.0, 10.0), (0.0, 0.0), (-1.0, 0.0)])
async def test_the_providers_wait_is_honoured_up_to_the_cap(asked: float, waited: float) -> None:
    _, _, waits, _ = await play([ProviderError("busy", retry_after_s=asked)], [done()])
    assert waits == [waited]


async def test_closing_ends_the_inner_call() -> None:
    inner = Played([TextDelta("a"), TextDelta("b")])
    events = RetryingModel(inner).stream(ModelCall(system="", messages=[]), new_id=lambda: "x")
    assert await anext(events) == TextDelta("a")
    await events.aclose()  # type: ignore[attr-defined]  # a generator, which the interface need not be
    assert inner.ended == 1
