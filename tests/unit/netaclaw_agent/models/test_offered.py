"""Further tries of model calls that showed nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal

import pytest

from netaclaw.session.v1.entry_pb2 import Message, Part, TextPart
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.loop import user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, NewId, TextDelta
from netaclaw_agent.models.faults import ModelStalled, ProviderError
from netaclaw_agent.models.limits import Slots
from netaclaw_agent.models.offered import OfferedModel
from netaclaw_agent.usage import Prices

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

    model = OfferedModel(inner, tries=3, base_s=1.0, cap_s=10.0, sleep=sleep, spread=lambda: 1.0)
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


@pytest.mark.parametrize(("asked", "waited"), [(3.0, 3.0), (10.0, 10.0), (0.0, 0.0), (-1.0, 0.0)])
async def test_the_providers_wait_is_honoured(asked: float, waited: float) -> None:
    _, _, waits, _ = await play([ProviderError("busy", retry_after_s=asked)], [done()])
    assert waits == [waited]


async def test_closing_ends_the_inner_call() -> None:
    inner = Played([TextDelta("a"), TextDelta("b")])
    events = OfferedModel(inner).stream(ModelCall(system="", messages=[]), new_id=lambda: "x")
    assert await anext(events) == TextDelta("a")
    await events.aclose()  # type: ignore[attr-defined]  # a generator, which the interface need not be
    assert inner.ended == 1


async def test_a_provider_that_asks_for_too_long_a_wait_is_not_tried_again() -> None:
    _, error, waits, _ = await play([ProviderError("busy", retry_after_s=3600.0)])
    assert str(error) == "busy"
    assert waits == []


async def test_waits_are_spread_so_that_many_do_not_come_back_at_once() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    model = OfferedModel(Played([ProviderError("a")], [done()]), base_s=1.0, sleep=sleep, spread=lambda: 0.0)
    assert [event async for event in model.stream(CALL, new_id=lambda: "x")]
    assert waits == [0.5]


CALL = ModelCall(system="Be brief.", messages=[user_message("Hello there")])


async def test_tokens_that_nobody_reported_are_estimated_and_said_to_be() -> None:
    message = Message(parts=[Part(text=TextPart(text="An answer of some words."))], usage=Usage(model_calls=1))
    model = OfferedModel(Played([Finished(message)]), prices=Prices(output=Decimal(1000)))
    [event] = [event async for event in model.stream(CALL, new_id=lambda: "x")]
    assert isinstance(event, Finished)
    usage = event.message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated_calls) == (10, 10, 1)
    assert usage.cost_micros == 10_000


async def test_reported_tokens_are_not_estimates() -> None:
    events, _, _, _ = await play([done()])
    assert isinstance(events[-1], Finished)
    assert events[-1].message.usage.estimated_calls == 0


async def test_a_call_that_failed_after_text_costs_what_was_shown() -> None:
    _, error, _, _ = await play([TextDelta("12345678"), ProviderError("cut")])
    assert error is not None
    assert (error.usage.output_tokens, error.usage.estimated_calls, error.usage.model_calls) == (2, 1, 1)
    _, error, _, _ = await play([ProviderError("no", retryable=False)])
    assert error is not None
    assert error.usage == Usage(model_calls=1)


async def test_calls_wait_for_a_slot_and_sessions_take_turns() -> None:
    slots, order, gate = Slots(1), list[str](), asyncio.Event()

    async def use(name: str, session_id: str) -> None:
        async with slots.held(session_id):
            order.append(name)
            await gate.wait()

    names = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c")]
    tasks = [asyncio.create_task(use(*name)) for name in names]
    await asyncio.sleep(0)  # lets them queue; nothing else here suspends
    gate.set()
    await asyncio.gather(*tasks)
    assert order == ["a1", "a2", "b1", "c1", "a3"]


async def test_a_wait_for_a_slot_is_bounded_and_leaves_the_queue() -> None:
    slots = Slots(1, patience_s=0.01)
    async with slots.held("a"):
        with pytest.raises(ModelError, match="busy") as caught:
            async with slots.held("b"):
                pass
        assert caught.value.reason == "LIMIT_REACHED"
    async with slots.held("c"):
        pass


async def test_a_waiting_call_that_is_cancelled_takes_no_slot() -> None:
    slots, entered = Slots(1), asyncio.Event()

    async def wait() -> None:
        async with slots.held("b"):
            entered.set()

    async with slots.held("a"):
        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)  # lets them queue; nothing else here suspends
        waiting[0].cancel()
    waiting[1].cancel()  # in the very moment in which it is its turn
    await asyncio.gather(*waiting, return_exceptions=True)
    assert entered.is_set()
    async with slots.held("c"):
        pass


async def test_the_slot_is_free_while_another_try_is_waited_for() -> None:
    slots, held = Slots(1), list[bool]()

    async def sleep(seconds: float) -> None:
        async with slots.held("other"):
            held.append(True)

    model = OfferedModel(Played([ProviderError("a")], [done()]), slots=slots, sleep=sleep)
    assert [event async for event in model.stream(CALL, new_id=lambda: "x")]
    assert held == [True]
