"""A child's messages as the runner keeps them: what its model is asked with, and what the caller journals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.session.v1.entry_pb2 import Message, ToolCallPart, ToolCallState, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolRoute, ToolRuntimeRoute
from netaclaw_agent.loop import calls_of
from netaclaw_agent.tools.results import cut_middle
from netaclaw_runner.limits import Limits

_MAX_CALLS = 256
_MAX_PARTS = 4096
_CALL_BYTES = 320
"""What a call that has ended takes besides its result: route, state and times."""
_NOT_REPORTED = "the worker reported no result for this call"


class Transcript:
    """Messages by place. Messages that were handed out are never changed: a new result makes a new message."""

    def __init__(self, history: Iterable[Message], routes: Iterable[ToolRuntimeRoute], limits: Limits) -> None:
        self._messages = list(history)
        self._routes: Mapping[str, ToolRuntimeRoute] = {route.tool_name: route for route in routes}
        self._result_bytes = limits.result_bytes
        self._message_bytes = limits.message_bytes
        self._settled_bytes = limits.message_bytes * 5 // 4
        self._transcript_bytes = limits.transcript_bytes
        self._starts: dict[str, Timestamp] = {}

    @property
    def messages(self) -> Sequence[Message]:
        """All messages, as of now."""
        return tuple(self._messages)

    def message(self, n: int) -> Message:
        """The message at a place."""
        return self._messages[n]

    def replace_tail(self, keep: int, fresh: Iterable[Message]) -> list[int]:
        """Keep the first messages, then put the fresh ones. Returns the places that changed.

        Raises ValueError when there are not so many to keep, or when the whole, or one of them, is too large.
        """
        if not 0 <= keep <= len(self._messages):
            raise ValueError(f"it keeps {keep} of {len(self._messages)} messages")
        before = self._messages[keep:]
        self._messages[keep:] = [self._fitted(message) for message in fresh]
        if sum(message.ByteSize() for message in self._messages) > self._transcript_bytes:
            raise ValueError(f"the conversation has more than {self._transcript_bytes} bytes")
        after = self._messages[keep:]
        return [keep + place for place, message in enumerate(after) if place >= len(before) or before[place] != message]

    def append(self, message: Message) -> int:
        """Add a model's message, its calls with their routes. Returns its place. Raises ValueError as above."""
        routed = Message()
        routed.CopyFrom(self._fitted(message))
        for call in calls_of(routed):
            self._set_route(call)
        self._messages.append(routed)
        return len(self._messages) - 1

    def begin(self, call_id: str) -> None:
        """Note when a call began."""
        self._starts[call_id] = _now()

    def settle(self, call_id: str, result: ToolResult, state: ToolCallState) -> int | None:
        """Put a call's result in its message. Returns the place; None for a call that no message holds."""
        place = self._place_of(call_id)
        if place is None:
            return None
        answered = Message()
        answered.CopyFrom(self._messages[place])
        calls = calls_of(answered)
        given = sum(len(call.result.content.encode()) for call in calls)
        free = self._settled_bytes - (answered.ByteSize() - given)
        share = min(self._message_bytes // len(calls), max(0, free // len(calls) - _CALL_BYTES))
        room = min(self._result_bytes, share)
        for call in calls:
            if call.call_id == call_id:
                self._end(call, result, state, room)
        self._messages[place] = answered
        return place

    def close_dangling(self) -> list[int]:
        """Give every call without a result one that says so: no provider takes a request with open calls."""
        changed: set[int] = set()
        lost = ToolResult(content=_NOT_REPORTED, is_error=True)
        for place in range(len(self._messages)):
            for call in calls_of(self._messages[place]):
                if not call.HasField("result"):
                    self.settle(call.call_id, lost, ToolCallState.TOOL_CALL_STATE_FAILED)
                    changed.add(place)
        return sorted(changed)

    def route_of(self, tool_name: str) -> ToolRoute:
        """Where policy lets a tool run; DISABLED for a tool that it does not name."""
        route = self._routes.get(tool_name)
        return route.route if route is not None and route.route else ToolRoute.TOOL_ROUTE_DISABLED

    def _fitted(self, message: Message) -> Message:
        """The message, or a copy with the middle of its long texts cut when it is too large for the wire.

        Raises ValueError when that does not make it small enough, or when it has more calls or parts than fit.
        """
        if len(message.parts) > _MAX_PARTS or len(calls_of(message)) > _MAX_CALLS:
            raise ValueError(f"a message has more than {_MAX_CALLS} calls or {_MAX_PARTS} parts")
        if message.ByteSize() <= self._message_bytes:
            return message
        fitted = Message()
        fitted.CopyFrom(message)
        room = self._message_bytes // len(fitted.parts)
        for part in fitted.parts:
            if part.WhichOneof("part") == "text":
                part.text.text = cut_middle(part.text.text, room)
            elif part.WhichOneof("part") == "thinking":
                part.thinking.text = cut_middle(part.thinking.text, room)
            elif part.WhichOneof("part") == "tool_call":
                part.tool_call.arguments_json = cut_middle(part.tool_call.arguments_json, room // 2)
                part.tool_call.result.content = cut_middle(part.tool_call.result.content, room // 2)
        if fitted.ByteSize() > self._message_bytes * 9 // 8:
            raise ValueError(f"a message has more than {self._message_bytes} bytes")
        return fitted

    def _set_route(self, call: ToolCallPart) -> None:
        route = self._routes.get(call.tool_name)
        if route is not None:
            call.route.CopyFrom(route)

    def _end(self, call: ToolCallPart, result: ToolResult, state: ToolCallState, room: int) -> None:
        call.result.CopyFrom(result)
        call.result.content = cut_middle(result.content, room)
        call.state = state
        self._set_route(call)
        if call.call_id in self._starts:
            call.start_time.CopyFrom(self._starts[call.call_id])
            call.end_time.CopyFrom(_now())

    def _place_of(self, call_id: str) -> int | None:
        for place in range(len(self._messages) - 1, -1, -1):
            if any(call.call_id == call_id for call in calls_of(self._messages[place])):
                return place
        return None


def _now() -> Timestamp:
    now = Timestamp()
    now.GetCurrentTime()
    return now
