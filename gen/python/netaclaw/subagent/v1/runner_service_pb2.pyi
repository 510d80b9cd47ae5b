from netaclaw.chat.v1 import event_pb2 as _event_pb2
from netaclaw.error.v1 import reason_pb2 as _reason_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from netaclaw.subagent.v1 import envelope_pb2 as _envelope_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunCommand(_message.Message):
    __slots__ = ("cancel", "steer", "proxy_tool_result", "pause")
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    STEER_FIELD_NUMBER: _ClassVar[int]
    PROXY_TOOL_RESULT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    cancel: _envelope_pb2.Cancel
    steer: _envelope_pb2.Steer
    proxy_tool_result: _envelope_pb2.ProxyToolResult
    pause: Pause
    def __init__(self, cancel: _Optional[_Union[_envelope_pb2.Cancel, _Mapping]] = ..., steer: _Optional[_Union[_envelope_pb2.Steer, _Mapping]] = ..., proxy_tool_result: _Optional[_Union[_envelope_pb2.ProxyToolResult, _Mapping]] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ...) -> None: ...

class Pause(_message.Message):
    __slots__ = ("paused",)
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    def __init__(self, paused: _Optional[bool] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("orders",)
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[RunOrder]
    def __init__(self, orders: _Optional[_Iterable[_Union[RunOrder, _Mapping]]] = ...) -> None: ...

class RunOrder(_message.Message):
    __slots__ = ("run_id", "start", "attach", "command")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    start: _envelope_pb2.SubagentTaskEnvelope
    attach: AttachTarget
    command: RunCommand
    def __init__(self, run_id: _Optional[str] = ..., start: _Optional[_Union[_envelope_pb2.SubagentTaskEnvelope, _Mapping]] = ..., attach: _Optional[_Union[AttachTarget, _Mapping]] = ..., command: _Optional[_Union[RunCommand, _Mapping]] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("event_no", "started", "stream_start", "stream_delta", "message", "usage", "tool_call", "tool_result", "proxy_tool_call", "steer_taken", "ended", "tool_output", "compaction", "attached")
    EVENT_NO_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    STREAM_START_FIELD_NUMBER: _ClassVar[int]
    STREAM_DELTA_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULT_FIELD_NUMBER: _ClassVar[int]
    PROXY_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    STEER_TAKEN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TOOL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    event_no: int
    started: WorkerStarted
    stream_start: RunStreamStart
    stream_delta: _event_pb2.AssistantStreamDelta
    message: TranscriptMessage
    usage: _envelope_pb2.ModelCallUsage
    tool_call: _envelope_pb2.ToolCall
    tool_result: _envelope_pb2.ToolResultLine
    proxy_tool_call: _envelope_pb2.ProxyToolCall
    steer_taken: _envelope_pb2.SteerTaken
    ended: RunEnded
    tool_output: _envelope_pb2.ToolOutput
    compaction: RunCompaction
    attached: RunAttached
    def __init__(self, event_no: _Optional[int] = ..., started: _Optional[_Union[WorkerStarted, _Mapping]] = ..., stream_start: _Optional[_Union[RunStreamStart, _Mapping]] = ..., stream_delta: _Optional[_Union[_event_pb2.AssistantStreamDelta, _Mapping]] = ..., message: _Optional[_Union[TranscriptMessage, _Mapping]] = ..., usage: _Optional[_Union[_envelope_pb2.ModelCallUsage, _Mapping]] = ..., tool_call: _Optional[_Union[_envelope_pb2.ToolCall, _Mapping]] = ..., tool_result: _Optional[_Union[_envelope_pb2.ToolResultLine, _Mapping]] = ..., proxy_tool_call: _Optional[_Union[_envelope_pb2.ProxyToolCall, _Mapping]] = ..., steer_taken: _Optional[_Union[_envelope_pb2.SteerTaken, _Mapping]] = ..., ended: _Optional[_Union[RunEnded, _Mapping]] = ..., tool_output: _Optional[_Union[_envelope_pb2.ToolOutput, _Mapping]] = ..., compaction: _Optional[_Union[RunCompaction, _Mapping]] = ..., attached: _Optional[_Union[RunAttached, _Mapping]] = ...) -> None: ...

class RunCompaction(_message.Message):
    __slots__ = ("n", "summary", "tokens_before", "tokens_after", "error")
    N_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    n: int
    summary: str
    tokens_before: int
    tokens_after: int
    error: str
    def __init__(self, n: _Optional[int] = ..., summary: _Optional[str] = ..., tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class RunAttached(_message.Message):
    __slots__ = ("held_from_no", "usage_before")
    HELD_FROM_NO_FIELD_NUMBER: _ClassVar[int]
    USAGE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    held_from_no: int
    usage_before: _usage_pb2.Usage
    def __init__(self, held_from_no: _Optional[int] = ..., usage_before: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class WorkerStarted(_message.Message):
    __slots__ = ("pid", "sandbox_in_force", "sandbox_missing", "model")
    PID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    pid: int
    sandbox_in_force: _containers.RepeatedScalarFieldContainer[str]
    sandbox_missing: _containers.RepeatedScalarFieldContainer[str]
    model: str
    def __init__(self, pid: _Optional[int] = ..., sandbox_in_force: _Optional[_Iterable[str]] = ..., sandbox_missing: _Optional[_Iterable[str]] = ..., model: _Optional[str] = ...) -> None: ...

class RunStreamStart(_message.Message):
    __slots__ = ("call_no",)
    CALL_NO_FIELD_NUMBER: _ClassVar[int]
    call_no: int
    def __init__(self, call_no: _Optional[int] = ...) -> None: ...

class TranscriptMessage(_message.Message):
    __slots__ = ("n", "message")
    N_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    n: int
    message: _entry_pb2.Message
    def __init__(self, n: _Optional[int] = ..., message: _Optional[_Union[_entry_pb2.Message, _Mapping]] = ...) -> None: ...

class RunEnded(_message.Message):
    __slots__ = ("state", "final_output", "error", "partial_text", "usage", "tool_call_count", "duration_ms", "model", "diagnostics", "raw_final_content")
    STATE_FIELD_NUMBER: _ClassVar[int]
    FINAL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_TEXT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    RAW_FINAL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    state: _subagent_pb2.SubagentTaskState
    final_output: str
    error: str
    partial_text: str
    usage: _usage_pb2.Usage
    tool_call_count: int
    duration_ms: int
    model: str
    diagnostics: _containers.RepeatedScalarFieldContainer[str]
    raw_final_content: str
    def __init__(self, state: _Optional[_Union[_subagent_pb2.SubagentTaskState, str]] = ..., final_output: _Optional[str] = ..., error: _Optional[str] = ..., partial_text: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., tool_call_count: _Optional[int] = ..., duration_ms: _Optional[int] = ..., model: _Optional[str] = ..., diagnostics: _Optional[_Iterable[str]] = ..., raw_final_content: _Optional[str] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunEvents]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunEvents, _Mapping]]] = ...) -> None: ...

class RunEvents(_message.Message):
    __slots__ = ("run_id", "events", "refused")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    events: _containers.RepeatedCompositeFieldContainer[RunEvent]
    refused: RunRefused
    def __init__(self, run_id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[RunEvent, _Mapping]]] = ..., refused: _Optional[_Union[RunRefused, _Mapping]] = ...) -> None: ...

class RunRefused(_message.Message):
    __slots__ = ("reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: _reason_pb2.Reason
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[_Union[_reason_pb2.Reason, str]] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AttachTarget(_message.Message):
    __slots__ = ("generation", "after_no")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    AFTER_NO_FIELD_NUMBER: _ClassVar[int]
    generation: int
    after_no: int
    def __init__(self, generation: _Optional[int] = ..., after_no: _Optional[int] = ...) -> None: ...

class HostToolsRequest(_message.Message):
    __slots__ = ("open", "call", "cancel")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    open: HostToolsOpen
    call: _envelope_pb2.ToolCall
    cancel: HostToolCancel
    def __init__(self, open: _Optional[_Union[HostToolsOpen, _Mapping]] = ..., call: _Optional[_Union[_envelope_pb2.ToolCall, _Mapping]] = ..., cancel: _Optional[_Union[HostToolCancel, _Mapping]] = ...) -> None: ...

class HostToolsOpen(_message.Message):
    __slots__ = ("session_id", "owner_id", "host")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    owner_id: str
    host: _envelope_pb2.HostStart
    def __init__(self, session_id: _Optional[str] = ..., owner_id: _Optional[str] = ..., host: _Optional[_Union[_envelope_pb2.HostStart, _Mapping]] = ...) -> None: ...

class HostToolCancel(_message.Message):
    __slots__ = ("call_id",)
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    def __init__(self, call_id: _Optional[str] = ...) -> None: ...

class HostToolsResponse(_message.Message):
    __slots__ = ("started", "output", "result")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    started: WorkerStarted
    output: _envelope_pb2.ToolOutput
    result: _envelope_pb2.ToolResultLine
    def __init__(self, started: _Optional[_Union[WorkerStarted, _Mapping]] = ..., output: _Optional[_Union[_envelope_pb2.ToolOutput, _Mapping]] = ..., result: _Optional[_Union[_envelope_pb2.ToolResultLine, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("run_id", "session_id", "pid", "state")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    session_id: str
    pid: int
    state: _subagent_pb2.SubagentTaskState
    def __init__(self, run_id: _Optional[str] = ..., session_id: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[_Union[_subagent_pb2.SubagentTaskState, str]] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("sandbox_in_force", "sandbox_missing", "runs", "tool_hosts", "max_workers")
    SANDBOX_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TOOL_HOSTS_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    sandbox_in_force: _containers.RepeatedScalarFieldContainer[str]
    sandbox_missing: _containers.RepeatedScalarFieldContainer[str]
    runs: _containers.RepeatedCompositeFieldContainer[RunStatus]
    tool_hosts: int
    max_workers: int
    def __init__(self, sandbox_in_force: _Optional[_Iterable[str]] = ..., sandbox_missing: _Optional[_Iterable[str]] = ..., runs: _Optional[_Iterable[_Union[RunStatus, _Mapping]]] = ..., tool_hosts: _Optional[int] = ..., max_workers: _Optional[int] = ...) -> None: ...
