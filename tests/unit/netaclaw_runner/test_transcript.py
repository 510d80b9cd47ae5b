"""What a runner remembers of a child's conversation."""

from __future__ import annotations

import pytest

from netaclaw.session.v1.entry_pb2 import (
    Message,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.tool.v1.tool_pb2 import ToolRoute, ToolRuntimeRoute
from netaclaw_agent.loop import calls_of, user_message
from netaclaw_runner.limits import Limits
from netaclaw_runner.transcript import Transcript

ROUTES = [ToolRuntimeRoute(tool_name="look", route=ToolRoute.TOOL_ROUTE_WORKER_LOCAL, reason="reads")]
DONE = ToolCallState.TOOL_CALL_STATE_COMPLETED


def _transcript(*, result_bytes: int = 1000, message_bytes: int = 100_000) -> Transcript:
    return Transcript([], ROUTES, Limits(result_bytes=result_bytes, message_bytes=message_bytes))


def _answer(text: str, *call_ids: str) -> Message:
    calls = [Part(tool_call=ToolCallPart(call_id=call_id, tool_name="look")) for call_id in call_ids]
    return Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, parts=[Part(text=TextPart(text=text)), *calls])


def test_only_places_that_changed_are_reported() -> None:
    transcript = _transcript()

    assert transcript.replace_tail(0, [user_message("a"), user_message("b")]) == [0, 1]
    assert transcript.replace_tail(0, [user_message("a"), user_message("c"), user_message("d")]) == [1, 2]
    assert transcript.replace_tail(3, []) == []


@pytest.mark.parametrize("keep", [-1, 1])
def test_more_messages_than_there_are_cannot_be_kept(keep: int) -> None:
    with pytest.raises(ValueError, match="keeps"):
        _transcript().replace_tail(keep, [])


def test_a_result_makes_a_new_message_and_leaves_the_handed_out_one_alone() -> None:
    transcript = _transcript()
    place = transcript.append(_answer("hm", "c1", "c2"))
    before = transcript.message(place)
    transcript.begin("c1")

    assert transcript.settle("c1", ToolResult(content="found"), DONE) == place

    first, second = calls_of(transcript.message(place))
    assert (first.result.content, first.state, first.route.reason) == ("found", DONE, "reads")
    assert first.HasField("start_time")
    assert first.HasField("end_time")
    assert not second.HasField("result")
    assert not calls_of(before)[0].HasField("result")


def test_a_result_of_an_unknown_call_changes_nothing() -> None:
    assert _transcript().settle("c9", ToolResult(content="x"), DONE) is None


def test_open_calls_are_closed_before_a_model_sees_them() -> None:
    transcript = _transcript()
    transcript.append(_answer("hm", "c1", "c2"))
    transcript.settle("c1", ToolResult(content="found"), DONE)

    assert transcript.close_dangling() == [0]
    assert transcript.close_dangling() == []
    assert calls_of(transcript.message(0))[1].result.is_error


def test_results_of_many_calls_share_the_room_of_one_message() -> None:
    transcript = _transcript(result_bytes=50_000, message_bytes=100_000)
    ids = [f"c{number}" for number in range(10)]
    transcript.append(_answer("hm", *ids))
    for call_id in ids:
        transcript.settle(call_id, ToolResult(content="x" * 60_000), DONE)

    assert transcript.message(0).ByteSize() < 110_000


@pytest.mark.parametrize("count", [1, 10, 256])
def test_a_full_message_and_its_results_together_stay_within_what_is_journaled_at_once(count: int) -> None:
    transcript = _transcript(result_bytes=50_000, message_bytes=200_000)
    ids = [f"c{number}" for number in range(count)]
    transcript.append(_answer("x" * 150_000, *ids))
    for call_id in ids:
        transcript.begin(call_id)
        transcript.settle(call_id, ToolResult(content="y" * 60_000), DONE)
    assert transcript.message(0).ByteSize() <= 250_000
    assert all(call.result.content for call in calls_of(transcript.message(0)))


@pytest.mark.parametrize(
    "message",
    [
        Message(parts=[Part(text=TextPart(text="x"))] * 5000),
        Message(parts=[Part(tool_call=ToolCallPart(call_id="c"))] * 257),
        Message(parts=[Part(tool_call=ToolCallPart(call_id="c", provider_call_id="p" * 20_000))]),
        Message(parts=[Part(thinking=ThinkingPart(signature="s" * 20_000))]),
    ],
    ids=["parts", "calls", "id", "signature"],
)
def test_a_message_that_cannot_be_cut_to_size_is_refused(message: Message) -> None:
    transcript = _transcript(message_bytes=10_000)
    with pytest.raises(ValueError, match="a message has more than"):
        transcript.append(message)
    with pytest.raises(ValueError, match="a message has more than"):
        transcript.replace_tail(0, [message])


def test_a_message_that_is_too_large_for_the_wire_is_cut() -> None:
    transcript = _transcript(message_bytes=10_000)
    transcript.append(_answer("你" * 100_000, "c1"))

    assert transcript.message(0).ByteSize() < 11_000


def test_a_tool_that_policy_does_not_name_is_disabled() -> None:
    transcript = _transcript()

    assert transcript.route_of("look") == ToolRoute.TOOL_ROUTE_WORKER_LOCAL
    assert transcript.route_of("other") == ToolRoute.TOOL_ROUTE_DISABLED
