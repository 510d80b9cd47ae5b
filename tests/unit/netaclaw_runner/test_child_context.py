"""What a child's model sees of a conversation that has become too long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from netaclaw.session.v1.entry_pb2 import Message, MessageRole, Part, TextPart, ToolCallPart, ToolResult
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1.runner_service_pb2 import RunCompaction, RunEvent
from netaclaw_agent.loop import text_of, user_message
from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, NewId
from netaclaw_chassis.ids import new_id
from netaclaw_runner.child_context import ChildContext

LONG = "word " * 400
"""About 500 tokens."""


@dataclass
class Summarizer:
    """A model that sums up, or fails."""

    name: str = "small"
    context_window: int = 4_000
    error: ModelError | None = None
    calls: list[ModelCall] = field(default_factory=list)

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        said = [Part(text=TextPart(text=f"summary {len(self.calls)}"))]
        yield Finished(Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, parts=said, usage=Usage(model_calls=1)))


@dataclass
class Voice:
    """Takes what a run is told."""

    compactions: list[RunCompaction] = field(default_factory=list)

    def emit(self, event: RunEvent) -> None:
        self.compactions.append(event.compaction)

    def progress(self) -> None:
        """Nobody waits."""


def context(model: Summarizer, *, goal_at: int = 0, threshold: float = 0.8) -> tuple[ChildContext, Voice, list[Usage]]:
    voice: Any = Voice()  # as much of a run as it needs
    spent: list[Usage] = []
    made = ChildContext(voice, model, "", (), goal_at=goal_at, threshold=threshold, account=spent.append, new_id=new_id)
    return made, voice, spent


def step(words: str = LONG) -> Message:
    """An answer with a call and its result."""
    call = ToolCallPart(call_id=new_id(), tool_name="read_file", result=ToolResult(content=words))
    return Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, parts=[Part(tool_call=call)])


async def test_a_short_conversation_is_shown_as_it_is() -> None:
    child, voice, spent = context(Summarizer())
    messages = [user_message("Goal:\nx"), step()]
    assert await child.prepared(messages) == tuple(messages)
    assert not voice.compactions
    assert not spent


async def test_goal_and_recent_messages_stay_and_the_rest_is_summed_up_again_and_again() -> None:
    model = Summarizer()
    child, voice, spent = context(model)
    messages = [user_message("Goal:\nx")]
    for _ in range(20):
        messages.append(step())
        shown = await child.prepared(messages)
        assert text_of(shown[0]).startswith("Goal:\nx")
        assert shown[-1] is messages[-1]
        assert sum(len(str(message)) for message in shown) < model.context_window * 5
    assert len(voice.compactions) >= 2
    assert [made.n for made in voice.compactions] == list(range(1, len(model.calls) + 1))
    assert text_of(shown[0]).endswith(f"summary {len(model.calls)}")
    assert "summary 1" in text_of(model.calls[1].messages[0])
    assert len(spent) == len(model.calls)


async def test_an_earlier_tasks_conversation_is_summed_up_and_the_goal_kept_where_it_stands() -> None:
    child, _, _ = context(Summarizer(), goal_at=8)
    history = [user_message("Goal:\nearlier"), *(step() for _ in range(7))]
    messages = [*history, user_message("Goal:\nnow")]
    first, *kept = await child.prepared(messages)
    assert text_of(first) == "Summary of the conversation so far:\n\nsummary 1"
    assert kept[-1] is messages[-1]


async def test_another_conversation_in_the_place_of_what_was_summed_up_is_shown_as_it_is() -> None:
    child, voice, _ = context(Summarizer())
    messages = [user_message("Goal:\nx"), *(step() for _ in range(8))]
    assert len(await child.prepared(messages)) < len(messages)
    for other in ([user_message("all anew")], [user_message("Goal:\nx"), *messages[1:3]]):
        assert await child.prepared(other) == tuple(other)
    assert len(voice.compactions) == 1


async def test_a_summary_that_fails_is_told_and_counted_and_nothing_is_left_out() -> None:
    child, voice, spent = context(Summarizer(error=ModelError("no", usage=Usage(input_tokens=7, model_calls=1))))
    messages = [user_message("Goal:\nx"), *(step() for _ in range(8))]
    assert await child.prepared(messages) == tuple(messages)
    assert await child.prepared(messages) == tuple(messages)
    [failed] = voice.compactions
    assert (failed.error, failed.summary) == ("no", "")
    assert [usage.input_tokens for usage in spent] == [7]


async def test_without_a_threshold_only_a_refusal_for_length_shortens() -> None:
    child, _, _ = context(Summarizer(), threshold=0.0)
    messages = [user_message("Goal:\nx"), *(step() for _ in range(8))]
    assert not child.is_due(messages)
    assert await child.prepared(messages) == tuple(messages)
    shorter = await child.shortened(messages)
    assert shorter is not None
    assert len(shorter) < len(messages)
    assert await child.prepared(messages) == shorter
    assert await child.shortened([user_message(LONG * 20)]) is None
