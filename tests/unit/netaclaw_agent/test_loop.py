"""The loop, driven without an event loop by a port that never suspends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from netaclaw.session.v1.entry_pb2 import (
    FinishReason,
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallState,
)
from netaclaw.session.v1.subagent_pb2 import SubagentTaskState
from netaclaw_agent.loop import LoopEnd, LoopLimits, drive, run_loop, text_of, user_message

COMPLETED = SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED
PARTIAL = SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL
FAILED = SubagentTaskState.SUBAGENT_TASK_STATE_FAILED


def says(text: str, *calls: str, finish: FinishReason = FinishReason.FINISH_REASON_STOP, tokens: int = 0) -> Message:
    message = Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, finish_reason=finish)
    if text:
        message.parts.append(Part(text=TextPart(text=text)))
    message.parts.extend(Part(tool_call=ToolCallPart(call_id=call, tool_name="list_files")) for call in calls)
    message.usage.output_tokens = tokens
    return message


class FakePort:
    """Answers with prepared messages; keeps what it was asked."""

    def __init__(self, answers: Sequence[Message | Exception], steering: Sequence[Sequence[str]] = ()) -> None:
        self.answers = list(answers)
        self.steering = [list(texts) for texts in steering]
        self.seen: list[list[str]] = []
        self.ran: list[list[str]] = []

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        self.seen.append([text_of(message) for message in transcript])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        self.ran.append([call.call_id for call in calls])
        ended = []
        for call in calls:
            done = ToolCallPart()
            done.CopyFrom(call)
            done.state = ToolCallState.TOOL_CALL_STATE_COMPLETED
            done.result.content = f"result of {call.call_id}"
            ended.append(done)
        return ended

    async def take_steering(self) -> list[str]:
        return self.steering.pop(0) if self.steering else []


def run(port: FakePort, limits: LoopLimits | None = None) -> tuple[LoopEnd, list[Message]]:
    transcript = [user_message("the goal")]
    return drive(run_loop(port, transcript, limits or LoopLimits())), transcript


def test_an_answer_without_calls_completes_the_loop() -> None:
    end, transcript = run(FakePort([says("done")]))
    assert (end.state, end.text, end.error, end.tool_call_count) == (COMPLETED, "done", "", 0)
    assert [text_of(message) for message in transcript] == ["the goal", "done"]


def test_results_stand_in_the_calls_of_the_message_that_made_them() -> None:
    port = FakePort([says("looking", "a", "b"), says("done")])
    end, transcript = run(port)
    assert port.ran == [["a", "b"]]
    assert [part.tool_call.result.content for part in transcript[1].parts[1:]] == ["result of a", "result of b"]
    assert end.tool_call_count == 2


def test_the_message_that_the_model_gave_is_never_changed() -> None:
    given = says("looking", "a")
    before = given.SerializeToString()
    run(FakePort([given, says("done")]))
    assert given.SerializeToString() == before


def test_complete_calls_decide_whatever_the_finish_reason_says() -> None:
    port = FakePort([says("", "a", finish=FinishReason.FINISH_REASON_STOP), says("done")])
    assert run(port)[0].state == COMPLETED
    assert port.ran == [["a"]]


@pytest.mark.parametrize("finish", [FinishReason.FINISH_REASON_LENGTH, FinishReason.FINISH_REASON_CONTENT_FILTER])
def test_a_cut_message_runs_no_calls_and_is_partial(finish: FinishReason) -> None:
    port = FakePort([says("half", "a", finish=finish)])
    end, _ = run(port)
    assert (end.state, end.text, port.ran) == (PARTIAL, "half", [])
    assert end.error


def test_an_answer_whose_call_failed_midway_is_partial() -> None:
    end, _ = run(FakePort([says("half an ans", finish=FinishReason.FINISH_REASON_ERROR)]))
    assert (end.state, end.text) == (PARTIAL, "half an ans")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_fails(text: str) -> None:
    end, _ = run(FakePort([says(text)]))
    assert (end.state, end.text, end.error) == (FAILED, "", "the answer was empty")


def test_a_round_limit_keeps_the_last_text_there_was() -> None:
    port = FakePort([says("first thoughts", "a"), says(" ", "b"), says("never asked")])
    end, _ = run(port, LoopLimits(max_rounds=2))
    assert (end.state, end.text, end.error) == (PARTIAL, "first thoughts", "stopped after 2 model calls")
    assert port.ran == [["a"], ["b"]]


def test_a_tool_limit_runs_no_message_in_part() -> None:
    port = FakePort([says("", "a"), says("more", "b", "c")])
    end, _ = run(port, LoopLimits(max_tool_calls=2))
    assert (end.state, end.text, end.tool_call_count) == (PARTIAL, "more", 1)
    assert port.ran == [["a"]]


def test_a_token_limit_stops_before_the_next_tools_but_never_spoils_an_answer() -> None:
    assert run(FakePort([says("so far", "a", tokens=10)]), LoopLimits(max_tokens=10))[0].state == PARTIAL
    assert run(FakePort([says("done", tokens=10)]), LoopLimits(max_tokens=10))[0].state == COMPLETED


def test_steering_enters_before_the_next_model_call_in_order() -> None:
    port = FakePort([says("", "a"), says("done")], steering=[[], ["look there", "and there"]])
    run(port)
    assert port.seen[1][-2:] == ["look there", "and there"]


@pytest.mark.parametrize("limits", [LoopLimits(max_rounds=1), LoopLimits(max_tokens=10)])
def test_steering_that_no_model_call_can_follow_is_not_taken(limits: LoopLimits) -> None:
    answered = FakePort([says("done", tokens=10)], steering=[[], ["too late"]])
    assert run(answered, limits)[0].state == COMPLETED
    assert answered.steering == [["too late"]]


def test_steering_at_the_last_round_is_not_taken() -> None:
    calling = FakePort([says("first", "1")], steering=[[], ["too late"]])
    assert run(calling, LoopLimits(max_rounds=1))[0].state == PARTIAL
    assert calling.steering == [["too late"]]


def test_a_failing_model_ends_the_loop_with_its_own_error() -> None:
    with pytest.raises(ValueError, match="no model"):
        run(FakePort([ValueError("no model")]))


def test_a_blocking_caller_refuses_a_port_that_suspends() -> None:
    class Suspended:
        def __await__(self):  # type: ignore[no-untyped-def]  # a bare suspension has no type of its own
            yield

    async def suspends() -> None:
        await Suspended()

    with pytest.raises(RuntimeError, match="suspends"):
        drive(suspends())
