"""One model call beside the conversation, whose text sums something up."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.loop import text_of
from netaclaw_agent.model import Finished, Model, ModelCall
from netaclaw_chassis.ids import new_id


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, and what its model call has cost."""

    text: str
    usage: Usage


async def call_for_summary(model: Model, call: ModelCall) -> Summary:
    """The model's whole answer; the text is empty when it said nothing. Raises ModelError."""
    found = Summary("", Usage())
    async with aclosing(model.stream(call, new_id=new_id)) as events:  # type: ignore[type-var]  # a generator
        async for event in events:
            if isinstance(event, Finished):
                found = Summary(text_of(event.message).strip(), event.message.usage)
    return found
