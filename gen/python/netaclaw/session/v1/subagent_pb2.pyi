import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from netaclaw.tool.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubagentSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBAGENT_SOURCE_UNSPECIFIED: _ClassVar[SubagentSource]
    SUBAGENT_SOURCE_PRESET: _ClassVar[SubagentSource]
    SUBAGENT_SOURCE_CLONE: _ClassVar[SubagentSource]

class SubagentTaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBAGENT_TASK_STATE_UNSPECIFIED: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_QUEUED: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_RUNNING: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_COMPLETED: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_PARTIAL: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_TIMED_OUT: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_FAILED: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_CANCELLED: _ClassVar[SubagentTaskState]
    SUBAGENT_TASK_STATE_IN_DOUBT: _ClassVar[SubagentTaskState]
SUBAGENT_SOURCE_UNSPECIFIED: SubagentSource
SUBAGENT_SOURCE_PRESET: SubagentSource
SUBAGENT_SOURCE_CLONE: SubagentSource
SUBAGENT_TASK_STATE_UNSPECIFIED: SubagentTaskState
SUBAGENT_TASK_STATE_QUEUED: SubagentTaskState
SUBAGENT_TASK_STATE_RUNNING: SubagentTaskState
SUBAGENT_TASK_STATE_COMPLETED: SubagentTaskState
SUBAGENT_TASK_STATE_PARTIAL: SubagentTaskState
SUBAGENT_TASK_STATE_TIMED_OUT: SubagentTaskState
SUBAGENT_TASK_STATE_FAILED: SubagentTaskState
SUBAGENT_TASK_STATE_CANCELLED: SubagentTaskState
SUBAGENT_TASK_STATE_IN_DOUBT: SubagentTaskState

class SubagentTask(_message.Message):
    __slots__ = ("task_id", "name", "source_type", "preset_agent_id", "state", "goal", "context", "summary", "error", "partial_text", "usage", "sort_order", "model", "tool_call_count", "worker_pid", "start_time", "end_time", "tool_names", "tool_runtime_routes", "activity", "resumed_task_id", "earlier_usage")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRESET_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_TEXT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    WORKER_PID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOOL_RUNTIME_ROUTES_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    RESUMED_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EARLIER_USAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    name: str
    source_type: SubagentSource
    preset_agent_id: str
    state: SubagentTaskState
    goal: str
    context: str
    summary: str
    error: str
    partial_text: str
    usage: _usage_pb2.Usage
    sort_order: int
    model: str
    tool_call_count: int
    worker_pid: int
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    tool_names: _containers.RepeatedScalarFieldContainer[str]
    tool_runtime_routes: _containers.RepeatedCompositeFieldContainer[_tool_pb2.ToolRuntimeRoute]
    activity: str
    resumed_task_id: str
    earlier_usage: _usage_pb2.Usage
    def __init__(self, task_id: _Optional[str] = ..., name: _Optional[str] = ..., source_type: _Optional[_Union[SubagentSource, str]] = ..., preset_agent_id: _Optional[str] = ..., state: _Optional[_Union[SubagentTaskState, str]] = ..., goal: _Optional[str] = ..., context: _Optional[str] = ..., summary: _Optional[str] = ..., error: _Optional[str] = ..., partial_text: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., sort_order: _Optional[int] = ..., model: _Optional[str] = ..., tool_call_count: _Optional[int] = ..., worker_pid: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tool_names: _Optional[_Iterable[str]] = ..., tool_runtime_routes: _Optional[_Iterable[_Union[_tool_pb2.ToolRuntimeRoute, _Mapping]]] = ..., activity: _Optional[str] = ..., resumed_task_id: _Optional[str] = ..., earlier_usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class SubagentCounts(_message.Message):
    __slots__ = ("total", "queued", "running", "completed", "partial", "timed_out", "failed", "cancelled", "in_doubt")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    total: int
    queued: int
    running: int
    completed: int
    partial: int
    timed_out: int
    failed: int
    cancelled: int
    in_doubt: int
    def __init__(self, total: _Optional[int] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., completed: _Optional[int] = ..., partial: _Optional[int] = ..., timed_out: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., in_doubt: _Optional[int] = ...) -> None: ...

class SubagentBatch(_message.Message):
    __slots__ = ("parent_entry_id", "batch_entry_id", "tool_call_id", "title", "items", "counts", "usage")
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    parent_entry_id: str
    batch_entry_id: str
    tool_call_id: str
    title: str
    items: _containers.RepeatedCompositeFieldContainer[SubagentTask]
    counts: SubagentCounts
    usage: _usage_pb2.Usage
    def __init__(self, parent_entry_id: _Optional[str] = ..., batch_entry_id: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., title: _Optional[str] = ..., items: _Optional[_Iterable[_Union[SubagentTask, _Mapping]]] = ..., counts: _Optional[_Union[SubagentCounts, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class ProcessEvent(_message.Message):
    __slots__ = ("task_id", "type", "call_id", "tool_name", "route", "arguments_json", "content", "is_error", "stage", "status", "fraction", "time", "worker_pid", "sandbox_in_force", "sandbox_missing")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    WORKER_PID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    type: str
    call_id: str
    tool_name: str
    route: _tool_pb2.ToolRoute
    arguments_json: str
    content: str
    is_error: bool
    stage: str
    status: str
    fraction: float
    time: _timestamp_pb2.Timestamp
    worker_pid: int
    sandbox_in_force: _containers.RepeatedScalarFieldContainer[str]
    sandbox_missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_id: _Optional[str] = ..., type: _Optional[str] = ..., call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., route: _Optional[_Union[_tool_pb2.ToolRoute, str]] = ..., arguments_json: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., stage: _Optional[str] = ..., status: _Optional[str] = ..., fraction: _Optional[float] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., worker_pid: _Optional[int] = ..., sandbox_in_force: _Optional[_Iterable[str]] = ..., sandbox_missing: _Optional[_Iterable[str]] = ...) -> None: ...

class SubagentBatchBody(_message.Message):
    __slots__ = ("batch", "events", "latest_event", "process_event_count", "final_results", "evidence_summaries")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LATEST_EVENT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FINAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    batch: SubagentBatch
    events: _containers.RepeatedCompositeFieldContainer[ProcessEvent]
    latest_event: ProcessEvent
    process_event_count: int
    final_results: _containers.RepeatedCompositeFieldContainer[SubagentFinalResult]
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[EvidenceSummary]
    def __init__(self, batch: _Optional[_Union[SubagentBatch, _Mapping]] = ..., events: _Optional[_Iterable[_Union[ProcessEvent, _Mapping]]] = ..., latest_event: _Optional[_Union[ProcessEvent, _Mapping]] = ..., process_event_count: _Optional[int] = ..., final_results: _Optional[_Iterable[_Union[SubagentFinalResult, _Mapping]]] = ..., evidence_summaries: _Optional[_Iterable[_Union[EvidenceSummary, _Mapping]]] = ...) -> None: ...

class SubagentFinalResult(_message.Message):
    __slots__ = ("task", "final_output", "raw_final_content", "tool_results", "duration_ms", "resume_handle", "shortened", "diagnostics")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FINAL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RAW_FINAL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    RESUME_HANDLE_FIELD_NUMBER: _ClassVar[int]
    SHORTENED_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    task: SubagentTask
    final_output: str
    raw_final_content: str
    tool_results: _containers.RepeatedCompositeFieldContainer[NormalizedToolResult]
    duration_ms: int
    resume_handle: str
    shortened: bool
    diagnostics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[_Union[SubagentTask, _Mapping]] = ..., final_output: _Optional[str] = ..., raw_final_content: _Optional[str] = ..., tool_results: _Optional[_Iterable[_Union[NormalizedToolResult, _Mapping]]] = ..., duration_ms: _Optional[int] = ..., resume_handle: _Optional[str] = ..., shortened: _Optional[bool] = ..., diagnostics: _Optional[_Iterable[str]] = ...) -> None: ...

class NormalizedToolResult(_message.Message):
    __slots__ = ("call_id", "tool_name", "preview", "size_bytes", "line_count", "is_error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    preview: str
    size_bytes: int
    line_count: int
    is_error: bool
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., preview: _Optional[str] = ..., size_bytes: _Optional[int] = ..., line_count: _Optional[int] = ..., is_error: _Optional[bool] = ...) -> None: ...

class EvidenceSummary(_message.Message):
    __slots__ = ("task_id", "kind", "title", "detail", "value", "call_ids")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    kind: str
    title: str
    detail: str
    value: int
    call_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_id: _Optional[str] = ..., kind: _Optional[str] = ..., title: _Optional[str] = ..., detail: _Optional[str] = ..., value: _Optional[int] = ..., call_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SubagentResultBody(_message.Message):
    __slots__ = ("batch_entry_id", "batch", "final_results", "process_events", "evidence_summaries", "process_event_count")
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FINAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    batch_entry_id: str
    batch: SubagentBatch
    final_results: _containers.RepeatedCompositeFieldContainer[SubagentFinalResult]
    process_events: _containers.RepeatedCompositeFieldContainer[ProcessEvent]
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[EvidenceSummary]
    process_event_count: int
    def __init__(self, batch_entry_id: _Optional[str] = ..., batch: _Optional[_Union[SubagentBatch, _Mapping]] = ..., final_results: _Optional[_Iterable[_Union[SubagentFinalResult, _Mapping]]] = ..., process_events: _Optional[_Iterable[_Union[ProcessEvent, _Mapping]]] = ..., evidence_summaries: _Optional[_Iterable[_Union[EvidenceSummary, _Mapping]]] = ..., process_event_count: _Optional[int] = ...) -> None: ...

class ToolExecution(_message.Message):
    __slots__ = ("call_id", "tool_name", "route", "arguments_json", "content", "is_error", "completed", "start_time", "end_time")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    route: _tool_pb2.ToolRoute
    arguments_json: str
    content: str
    is_error: bool
    completed: bool
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., route: _Optional[_Union[_tool_pb2.ToolRoute, str]] = ..., arguments_json: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., completed: _Optional[bool] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SubagentTaskPanel(_message.Message):
    __slots__ = ("task", "tool_executions", "process_events", "evidence_summaries", "final_output")
    TASK_FIELD_NUMBER: _ClassVar[int]
    TOOL_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    FINAL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    task: SubagentTask
    tool_executions: _containers.RepeatedCompositeFieldContainer[ToolExecution]
    process_events: _containers.RepeatedCompositeFieldContainer[ProcessEvent]
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[EvidenceSummary]
    final_output: str
    def __init__(self, task: _Optional[_Union[SubagentTask, _Mapping]] = ..., tool_executions: _Optional[_Iterable[_Union[ToolExecution, _Mapping]]] = ..., process_events: _Optional[_Iterable[_Union[ProcessEvent, _Mapping]]] = ..., evidence_summaries: _Optional[_Iterable[_Union[EvidenceSummary, _Mapping]]] = ..., final_output: _Optional[str] = ...) -> None: ...

class SubagentProjection(_message.Message):
    __slots__ = ("task_panels", "process_events", "diagnostics")
    TASK_PANELS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    task_panels: _containers.RepeatedCompositeFieldContainer[SubagentTaskPanel]
    process_events: _containers.RepeatedCompositeFieldContainer[ProcessEvent]
    diagnostics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_panels: _Optional[_Iterable[_Union[SubagentTaskPanel, _Mapping]]] = ..., process_events: _Optional[_Iterable[_Union[ProcessEvent, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[str]] = ...) -> None: ...
