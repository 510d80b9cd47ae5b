"""A run's tool calls: what the worker runs, what it asks the caller for, and what came of it."""

from __future__ import annotations

from typing import Any

from netaclaw.session.v1.entry_pb2 import ToolCallState, ToolResult
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw.subagent.v1.runner_service_pb2 import RunEvent
from netaclaw.tool.v1.tool_pb2 import ToolRoute
from netaclaw_agent.tools.results import cut_middle
from netaclaw_chassis import tracing
from netaclaw_runner.ending import failed, stopped_at
from netaclaw_runner.limits import Limits
from netaclaw_runner.model_desk import ModelDesk
from netaclaw_runner.run_parts import RunVoice
from netaclaw_runner.tool_output import ToolOutputs
from netaclaw_runner.transcript import Transcript

_MAX_NAME = 200
_NEAR = 0.8
_WORKER_LOCAL = ToolRoute.TOOL_ROUTE_WORKER_LOCAL
_PROXY = ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY


class ToolLedger:
    """Call ids are matched per kind: a result needs an open call of its own kind, and answers it once."""

    def __init__(
        self, run: RunVoice, desk: ModelDesk, transcript: Transcript, budget: pb.TaskBudget, limits: Limits
    ) -> None:
        self._run = run
        self._desk = desk
        self._transcript = transcript
        self._most = budget.max_tool_calls
        self._limits = limits
        self._seen: set[str] = set()
        self._local: dict[str, str] = {}
        self._spans: dict[str, Any] = {}
        self._proxied: dict[str, RunEvent] = {}
        self._outputs = ToolOutputs(
            lambda output: run.emit(RunEvent(tool_output=output)),
            interval_s=limits.flush_s,
            most_bytes=limits.output_bytes,
        )
        self.count = 0
        """Calls so far, refused ones too."""

    @property
    def waiting(self) -> bool:
        """Whether the worker waits for the caller."""
        return bool(self._proxied)

    def catch_up(self, dropped_no: int) -> list[RunEvent]:
        """For a caller who takes over: calls that wait for an answer, of those that events up to a number told of."""
        again = {
            call_id: RunEvent(proxy_tool_call=event.proxy_tool_call)
            for call_id, event in self._proxied.items()
            if event.event_no <= dropped_no
        }
        self._proxied.update(again)
        return list(again.values())

    def close(self) -> None:
        """Pass on what waits."""
        self._outputs.close()

    def local(self, call: pb.ToolCall) -> bool:
        """The worker runs a tool itself, or reports one that it refused. False when it is ignored, as below."""
        if not self._enter(call):
            return False
        route = self._transcript.route_of(call.tool_name)
        if route == _PROXY:
            self._run.note("the worker ran a tool that it should have asked for")
        self._local[call.call_id] = call.tool_name
        self._spans[call.call_id] = tracing.below(f"tool {call.tool_name[:_MAX_NAME]}")
        arguments = cut_middle(call.arguments_json, self._limits.result_bytes)
        shown = pb.ToolCall(call_id=call.call_id, tool_name=call.tool_name, arguments_json=arguments, route=route)
        self._run.emit(RunEvent(tool_call=shown))
        return True

    def output(self, line: pb.ToolOutput) -> bool:
        """A tool of the worker has written something."""
        if line.call_id not in self._local:
            self._run.note("a tool_output without its tool_call was ignored")
            return False
        self._outputs.add(line.call_id, line.text)
        return bool(line.text)

    def result(self, line: pb.ToolResultLine) -> bool:
        """A tool of the worker ended."""
        name = self._local.pop(line.call_id, None)
        if name is None:
            self._run.note("a tool_result without its tool_call was ignored")
            return False
        self._outputs.end(line.call_id)
        tracing.end(self._spans.pop(line.call_id, None), "ERROR" if line.is_error else "OK")
        content = cut_middle(line.content, self._limits.result_bytes)
        self._run.emit(
            RunEvent(
                tool_result=pb.ToolResultLine(
                    call_id=line.call_id, content=content, is_error=line.is_error, tool_name=name
                )
            )
        )
        refused = self._transcript.route_of(name) != _WORKER_LOCAL
        self._settle(line.call_id, content, line.is_error, refused=refused)
        return True

    def proxied(self, call: pb.ProxyToolCall) -> bool:
        """The worker asks the caller for a tool."""
        if not self._enter(call):
            return False
        if self._transcript.route_of(call.tool_name) != _PROXY:
            self._answer(call.call_id, f"{call.tool_name} was refused: it is not a tool of the main side", refused=True)
        elif len(call.arguments_json.encode()) > self._limits.message_bytes:
            self._answer(call.call_id, f"arguments of more than {self._limits.message_bytes} bytes cannot be passed on")
        else:
            event = RunEvent(proxy_tool_call=call)
            self._proxied[call.call_id] = event
            self._run.emit(event)
        return True

    def proxy_result(self, result: pb.ProxyToolResult) -> None:
        """The caller's answer."""
        if self._proxied.pop(result.call_id, None) is None:
            self._run.note("a proxied result that nobody waits for was ignored")
            return
        self._settle(result.call_id, result.content, result.is_error)
        self._run.progress()
        self._run.tell(result)

    def _enter(self, call: pb.ToolCall | pb.ProxyToolCall) -> bool:
        """Check and count a call. False when it ends here."""
        if not 0 < len(call.call_id) <= _MAX_NAME or not 0 < len(call.tool_name) <= _MAX_NAME:
            self._run.end(failed("the worker sent a tool call whose id or name is empty or too long"))
            return False
        if call.call_id in self._seen:
            self._run.note("a repeated tool call was ignored")
            return False
        if self._most and self.count >= self._most:
            self._run.end(stopped_at(f"stopped after {self.count} tool calls"))
            return False
        if self.count >= self._limits.tool_calls:
            self._run.end(failed(f"the worker made more than {self._limits.tool_calls} tool calls"))
            return False
        self._seen.add(call.call_id)
        self.count += 1
        self._transcript.begin(call.call_id)
        # One call before the last at the latest: the warning then comes before an answer, not in a race with a request.
        if self._most and self.count >= min(_NEAR * self._most, self._most - 1):
            self._desk.warn(f"{self.count} of {self._most} tool calls are used")
        return True

    def _answer(self, call_id: str, content: str, *, refused: bool = False) -> None:
        self._settle(call_id, content, True, refused=refused)
        self._run.tell(pb.ProxyToolResult(call_id=call_id, content=content, is_error=True))

    def _settle(self, call_id: str, content: str, is_error: bool, *, refused: bool = False) -> None:
        state = ToolCallState.TOOL_CALL_STATE_FAILED if is_error else ToolCallState.TOOL_CALL_STATE_COMPLETED
        if is_error and refused:
            state = ToolCallState.TOOL_CALL_STATE_REFUSED
        place = self._transcript.settle(call_id, ToolResult(content=content, is_error=is_error), state)
        if place is not None:
            self._desk.show(place)
