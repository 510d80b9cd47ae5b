"""The agent loop: model call, tools, model call, until the model answers or a limit is reached.

The loop is a coroutine that awaits only what its port gives it and touches no event loop of its own, so the
orchestrator drives it with asyncio and a worker drives it with blocking calls (`drive`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from netaclaw.session.v1.entry_pb2 import FinishReason, Message, MessageRole, Part, TextPart, ToolCallPart
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Where a loop stops on its own; 0 means no limit."""

    max_rounds: int = 0
    """Model calls."""
    max_tool_calls: int = 0
    max_tokens: int = 0
    """Input and output tokens of all model calls together."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How a loop ended."""

    state: SubagentTaskState
    """COMPLETED, PARTIAL (a limit, a length stop, a content filter or a cut answer; text kept) or FAILED (empty)."""
    text: str
    """Text of the last message; for PARTIAL, of the last message that had any."""
    error: str
    """Why it did not complete; empty for COMPLETED."""
    tool_call_count: int
    last: Message | None
    """The last assistant message."""


class LoopPort(Protocol):
    """What the loop needs from its surroundings."""

    async def call_model(self, transcript: list[Message]) -> Message:
        """Make one model call and return the finished message. Exceptions end the loop and pass through.

        The port may shorten the transcript in place before, and put words of its own behind it.
        """
        ...

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        """Run the calls of one message; return them with state and result set, in the same order."""
        ...

    async def take_steering(self) -> list[str]:
        """Messages that arrived since the last model call; they enter as user messages, in order."""
        ...


def user_message(text: str) -> Message:
    """A user message of one text part."""
    return Message(role=MessageRole.MESSAGE_ROLE_USER, parts=[Part(text=TextPart(text=text))])


def text_of(message: Message) -> str:
    """All text parts of a message, joined."""
    return "".join(part.text.text for part in message.parts if part.WhichOneof("part") == "text")


def calls_of(message: Message) -> list[ToolCallPart]:
    """The tool calls of a message, in order."""
    return [part.tool_call for part in message.parts if part.WhichOneof("part") == "tool_call"]


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose awaits never suspend, without an event loop.

    Raises RuntimeError when it suspends after all: a port that needs an event loop was given to a blocking caller.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is untyped; the coroutine's type is T
    coroutine.close()
    raise RuntimeError("a blocking loop was given a port that suspends")


async def run_loop(
    port: LoopPort, transcript: list[Message], limits: LoopLimits, *, resume: Message | None = None
) -> LoopEnd:
    """Run until the model answers without calls or a limit is reached.

    A steering message that arrives while the last answer is made brings another model call, unless the limits allow
    none: then it is left where it is. With `resume`, an assistant message behind the transcript whose calls have not
    all ended, the loop goes on with those calls.

    `transcript` grows in place: steering messages, assistant messages, and the results inside their call parts. Input
    messages are never changed. Complete calls decide, not the label: a reply with calls goes on whatever its finish
    reason, except LENGTH and CONTENT_FILTER.
    """
    tool_calls = rounds = tokens = 0
    kept = ""
    message: Message | None = None
    if resume is not None:
        ended = await port.run_tools(calls_of(resume))
        transcript.append(with_results(resume, ended))
        tool_calls = len(ended)
    steering = await port.take_steering()
    while True:
        transcript.extend(user_message(text) for text in steering)
        message = await port.call_model(transcript)
        transcript.append(message)
        rounds += 1
        tokens += message.usage.input_tokens + message.usage.output_tokens
        text = text_of(message)
        kept = text if text.strip() else kept
        spent = _spent(limits, rounds, tokens)
        end = _answer(message, text, kept, tool_calls)
        if end is not None:
            steering = [] if spent else await port.take_steering()
            if not steering:
                return end
            continue
        calls = calls_of(message)
        if limits.max_tool_calls and tool_calls + len(calls) > limits.max_tool_calls:
            return _stopped(f"stopped after {tool_calls} tool calls", kept, tool_calls, message)
        if limits.max_tokens and tokens >= limits.max_tokens:
            return _stopped(f"stopped after {tokens} tokens", kept, tool_calls, message)
        transcript[-1] = with_results(message, await port.run_tools(calls))
        tool_calls += len(calls)
        if spent:
            return _stopped(spent, kept, tool_calls, message)
        steering = await port.take_steering()


def with_results(message: Message, ended: Sequence[ToolCallPart]) -> Message:
    """A copy of the message in which the calls are replaced by their ended ones, matched by call id."""
    by_id = {call.call_id: call for call in ended}
    answered = Message()
    answered.CopyFrom(message)
    for part in answered.parts:
        if part.WhichOneof("part") == "tool_call" and part.tool_call.call_id in by_id:
            part.tool_call.CopyFrom(by_id[part.tool_call.call_id])
    return answered


def _spent(limits: LoopLimits, rounds: int, tokens: int) -> str:
    """Why no further model call may follow; empty where one may."""
    if limits.max_rounds and rounds >= limits.max_rounds:
        return f"stopped after {rounds} model calls"
    if limits.max_tokens and tokens >= limits.max_tokens:
        return f"stopped after {tokens} tokens"
    return ""


def _answer(message: Message, text: str, kept: str, tool_calls: int) -> LoopEnd | None:
    """The end that a message makes; None when its calls let the loop go on."""
    if message.finish_reason == FinishReason.FINISH_REASON_LENGTH:
        return _stopped("the model reached its length limit", kept, tool_calls, message)
    if message.finish_reason == FinishReason.FINISH_REASON_CONTENT_FILTER:
        return _stopped("the provider's content filter ended the answer", kept, tool_calls, message)
    if calls_of(message):
        return None
    if not text.strip():
        return LoopEnd(SubagentTaskState.SUBAGENT_TASK_STATE_FAILED, "", "the answer was empty", tool_calls, message)
    if message.finish_reason == FinishReason.FINISH_REASON_ERROR:
        return _stopped("the model's answer was cut", kept, tool_calls, message)
    return LoopEnd(SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED, text, "", tool_calls, message)


def _stopped(error: str, kept: str, tool_calls: int, message: Message | None) -> LoopEnd:
    return LoopEnd(SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL, kept, error, tool_calls, message)
