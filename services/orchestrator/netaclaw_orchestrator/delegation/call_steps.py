"""A child's tool calls, as steps of its task: each begins and ends once, however often the runner tells of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolCallState, ToolResult
from netaclaw.session.v1.subagent_pb2 import ProcessEvent, SubagentTask
from netaclaw.subagent.v1.envelope_pb2 import ProxyToolCall
from netaclaw.subagent.v1.envelope_pb2 import ToolCall as ToolCallLine
from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolRoute
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_orchestrator.delegation.report import preview

Report = Callable[[ProcessEvent], None]

_EFFECTFUL = frozenset(tool.tool_name for tool in KNOWN_TOOLS if tool.effect == ToolEffect.TOOL_EFFECT_EFFECTFUL)
_LOCAL, _PROXIED = "tool_call", "proxy_tool_call"
_RUNNING = ToolCallState.TOOL_CALL_STATE_RUNNING
_COMPLETED = ToolCallState.TOOL_CALL_STATE_COMPLETED
_FAILED = ToolCallState.TOOL_CALL_STATE_FAILED


class CallSteps:
    """The calls of one task, by id."""

    def __init__(self, task: SubagentTask, report: Report) -> None:
        self._task = task
        self._report = report
        self._calls: dict[str, ToolCallPart] = {}
        self.effect_begun = False
        """Whether, under an earlier owner, a call began that may have had effect."""
        self.effect_in_flight = False
        """Whether such a call was asked of an earlier owner whose answer is not known."""

    @property
    def calls(self) -> list[ToolCallPart]:
        """All calls in order; results of an earlier owner's are previews."""
        return list(self._calls.values())

    def recover(self, steps: Sequence[ProcessEvent], undecided: Collection[str] = ()) -> None:
        """Take over what an earlier owner has written; `undecided`: calls that a person has not allowed, so that none
        of them has begun."""
        asked: set[str] = set()
        for step in steps:
            if step.type in (_LOCAL, _PROXIED):
                self._calls[step.call_id] = ToolCallPart(
                    call_id=step.call_id, tool_name=step.tool_name, arguments_json=step.arguments_json
                )
                if step.tool_name in _EFFECTFUL and step.call_id not in undecided:
                    self.effect_begun = True
                    asked.update([step.call_id] if step.type == _PROXIED else [])
            elif step.type == "tool_result" and step.call_id in self._calls:
                result = ToolResult(content=step.content, is_error=step.is_error)
                self._calls[step.call_id].result.CopyFrom(result)
                asked.discard(step.call_id)
        self.effect_in_flight = bool(asked)

    def begin_local(self, call: ToolCallLine) -> None:
        """A tool runs in the worker."""
        self._begin(call, _LOCAL, call.route)

    def begin_proxied(self, call: ProxyToolCall) -> ToolCallPart:
        """The worker asks for a tool here; the part has a result when an earlier owner had answered."""
        return self._begin(call, _PROXIED, ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY)

    def end(self, call_id: str, result: ToolResult) -> None:
        """A call has a result. One without its call, or a second one, is no step."""
        part = self._calls.get(call_id)
        if part is None or part.HasField("result"):
            return
        part.result.CopyFrom(result)
        part.state = _FAILED if result.is_error else _COMPLETED
        self._task.activity = ""
        step = ProcessEvent(
            type="tool_result",
            call_id=call_id,
            tool_name=part.tool_name,
            content=preview(result.content),
            is_error=result.is_error,
        )
        self._report(step)

    def end_lost(self) -> None:
        """The run is gone with its process, and the task begins again."""
        lost = ToolResult(content="lost with its process; the task began again", is_error=True)
        for call_id in list(self._calls):
            self.end(call_id, lost)

    def _begin(self, call: ToolCallLine | ProxyToolCall, kind: str, route: ToolRoute) -> ToolCallPart:
        known = self._calls.get(call.call_id)
        part = ToolCallPart(
            call_id=call.call_id,
            tool_name=call.tool_name,
            arguments_json=call.arguments_json,
            state=_RUNNING,
        )
        self._calls[call.call_id] = part
        if known is not None:  # told again to a new owner
            if known.HasField("result"):
                part.result.CopyFrom(known.result)
            return part
        self._task.tool_call_count += 1
        self._task.activity = call.tool_name
        step = ProcessEvent(
            type=kind,
            call_id=call.call_id,
            tool_name=call.tool_name,
            route=route,
            arguments_json=preview(call.arguments_json),
        )
        self._report(step)
        return part
