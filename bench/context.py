"""From a long path to a model's context."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from bench.figures import Figure
from netaclaw.session.v1.entry_pb2 import (
    AssistantBody,
    Entry,
    EntryKind,
    EntryState,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
    ToolResult,
    UserBody,
)
from netaclaw_agent.context import ContextBuilder, build_context

ENTRIES = 10_000
SHORT = 1_000
ROUNDS = 15
WORDS = "some words of a conversation " * 10


def _path(count: int) -> list[Entry]:
    """Half of them questions, half answers, each second answer with a tool call."""
    path = []
    for n in range(count):
        if n % 2 == 0:
            path.append(Entry(entry_id=f"u{n}", kind=EntryKind.ENTRY_KIND_USER, user=UserBody(text=WORDS)))
            continue
        parts = [Part(text=TextPart(text=WORDS))]
        if n % 4 == 1:
            call = ToolCallPart(
                call_id=f"c{n}",
                tool_name="read_file",
                arguments_json='{"path": "README.md"}',
                state=ToolCallState.TOOL_CALL_STATE_COMPLETED,
                result=ToolResult(content=WORDS),
            )
            parts.append(Part(tool_call=call))
        path.append(
            Entry(
                entry_id=f"a{n}",
                kind=EntryKind.ENTRY_KIND_ASSISTANT,
                state=EntryState.ENTRY_STATE_COMPLETE,
                assistant=AssistantBody(parts=parts),
            )
        )
    return path


async def build() -> Sequence[Figure]:
    """context.build10k: a path of 10,000 entries; floor: ten times one of 1,000, so that 1 is linear.
    context.append10k: after one more entry; floor: the full build."""
    long, short = _path(ENTRIES), _path(SHORT)
    one_more = [*long, Entry(entry_id="u", kind=EntryKind.ENTRY_KIND_USER, user=UserBody(text=WORDS))]
    full, tenths, appended = [], [], []
    for _ in range(ROUNDS):
        tenths.append(sum(_ms(lambda: build_context(short)) for _ in range(ENTRIES // SHORT)))
        full.append(_ms(lambda: build_context(long)))
        builder = ContextBuilder()
        builder.build(long)
        appended.append(_ms(lambda builder=builder: builder.build(one_more)))  # type: ignore[misc]  # a default binds it
    return [
        _figure("context.build10k", full, tenths, 1.5),
        _figure("context.append10k", appended, full, 0.01),
    ]


def _ms(what: Callable[[], object]) -> float:
    started = time.perf_counter()
    what()
    return (time.perf_counter() - started) * 1000


def _figure(name: str, values: Sequence[float], floors: Sequence[float], limit: float) -> Figure:
    ratios = sorted(value / floor for value, floor in zip(values, floors, strict=True))
    quartiles = (ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4])
    return Figure(name, "ms", statistics.median(values), statistics.median(floors), quartiles, limit)
