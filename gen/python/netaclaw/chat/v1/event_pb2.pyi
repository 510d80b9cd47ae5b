import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamChannel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_CHANNEL_UNSPECIFIED: _ClassVar[StreamChannel]
    STREAM_CHANNEL_TEXT: _ClassVar[StreamChannel]
    STREAM_CHANNEL_THINKING: _ClassVar[StreamChannel]

class ReceiptState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECEIPT_STATE_UNSPECIFIED: _ClassVar[ReceiptState]
    RECEIPT_STATE_QUEUED: _ClassVar[ReceiptState]
    RECEIPT_STATE_TAKEN: _ClassVar[ReceiptState]
    RECEIPT_STATE_MISSED: _ClassVar[ReceiptState]
    RECEIPT_STATE_RETRACTED: _ClassVar[ReceiptState]

class TurnOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_OUTCOME_UNSPECIFIED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_COMPLETED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_CANCELLED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_INTERRUPTED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_FAILED: _ClassVar[TurnOutcome]
STREAM_CHANNEL_UNSPECIFIED: StreamChannel
STREAM_CHANNEL_TEXT: StreamChannel
STREAM_CHANNEL_THINKING: StreamChannel
RECEIPT_STATE_UNSPECIFIED: ReceiptState
RECEIPT_STATE_QUEUED: ReceiptState
RECEIPT_STATE_TAKEN: ReceiptState
RECEIPT_STATE_MISSED: ReceiptState
RECEIPT_STATE_RETRACTED: ReceiptState
TURN_OUTCOME_UNSPECIFIED: TurnOutcome
TURN_OUTCOME_COMPLETED: TurnOutcome
TURN_OUTCOME_CANCELLED: TurnOutcome
TURN_OUTCOME_INTERRUPTED: TurnOutcome
TURN_OUTCOME_FAILED: TurnOutcome

class ChatEvent(_message.Message):
    __slots__ = ("seq", "session_id", "turn_id", "entry_id", "task_id", "time", "session_entry_added", "session_entry_updated", "session_entry_removed", "session_leaf_changed", "session_updated", "session_list_changed", "assistant_stream_start", "assistant_stream_delta", "assistant_stream_end", "thinking_done", "tool_call_started", "tool_result_streamed", "tool_call_completed", "process_event", "progress", "skill_start", "skill_end", "todo_update", "token_update", "clarify_request", "clarify_resolved", "compaction_start", "compaction_done", "compaction_error", "subagent_run_started", "subagent_event", "subagent_run_completed", "message_receipt", "steer_receipt", "done", "error", "pong", "heartbeat")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENTRY_ADDED_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENTRY_UPDATED_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENTRY_REMOVED_FIELD_NUMBER: _ClassVar[int]
    SESSION_LEAF_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SESSION_UPDATED_FIELD_NUMBER: _ClassVar[int]
    SESSION_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_STREAM_START_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_STREAM_DELTA_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_STREAM_END_FIELD_NUMBER: _ClassVar[int]
    THINKING_DONE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_STARTED_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULT_STREAMED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SKILL_START_FIELD_NUMBER: _ClassVar[int]
    SKILL_END_FIELD_NUMBER: _ClassVar[int]
    TODO_UPDATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_UPDATE_FIELD_NUMBER: _ClassVar[int]
    CLARIFY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CLARIFY_RESOLVED_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_START_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_DONE_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ERROR_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_RUN_STARTED_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_EVENT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_RUN_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_RECEIPT_FIELD_NUMBER: _ClassVar[int]
    STEER_RECEIPT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    session_id: str
    turn_id: str
    entry_id: str
    task_id: str
    time: _timestamp_pb2.Timestamp
    session_entry_added: SessionEntryAdded
    session_entry_updated: SessionEntryUpdated
    session_entry_removed: SessionEntryRemoved
    session_leaf_changed: SessionLeafChanged
    session_updated: SessionUpdated
    session_list_changed: SessionListChanged
    assistant_stream_start: AssistantStreamStart
    assistant_stream_delta: AssistantStreamDelta
    assistant_stream_end: AssistantStreamEnd
    thinking_done: ThinkingDone
    tool_call_started: ToolCallStarted
    tool_result_streamed: ToolResultStreamed
    tool_call_completed: ToolCallCompleted
    process_event: ProcessEventReported
    progress: Progress
    skill_start: SkillStart
    skill_end: SkillEnd
    todo_update: TodoUpdate
    token_update: TokenUpdate
    clarify_request: ClarifyRequest
    clarify_resolved: ClarifyResolved
    compaction_start: CompactionStart
    compaction_done: CompactionDone
    compaction_error: CompactionError
    subagent_run_started: SubagentRunStarted
    subagent_event: SubagentEvent
    subagent_run_completed: SubagentRunCompleted
    message_receipt: MessageReceipt
    steer_receipt: SteerReceipt
    done: Done
    error: Error
    pong: Pong
    heartbeat: Heartbeat
    def __init__(self, seq: _Optional[int] = ..., session_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., entry_id: _Optional[str] = ..., task_id: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., session_entry_added: _Optional[_Union[SessionEntryAdded, _Mapping]] = ..., session_entry_updated: _Optional[_Union[SessionEntryUpdated, _Mapping]] = ..., session_entry_removed: _Optional[_Union[SessionEntryRemoved, _Mapping]] = ..., session_leaf_changed: _Optional[_Union[SessionLeafChanged, _Mapping]] = ..., session_updated: _Optional[_Union[SessionUpdated, _Mapping]] = ..., session_list_changed: _Optional[_Union[SessionListChanged, _Mapping]] = ..., assistant_stream_start: _Optional[_Union[AssistantStreamStart, _Mapping]] = ..., assistant_stream_delta: _Optional[_Union[AssistantStreamDelta, _Mapping]] = ..., assistant_stream_end: _Optional[_Union[AssistantStreamEnd, _Mapping]] = ..., thinking_done: _Optional[_Union[ThinkingDone, _Mapping]] = ..., tool_call_started: _Optional[_Union[ToolCallStarted, _Mapping]] = ..., tool_result_streamed: _Optional[_Union[ToolResultStreamed, _Mapping]] = ..., tool_call_completed: _Optional[_Union[ToolCallCompleted, _Mapping]] = ..., process_event: _Optional[_Union[ProcessEventReported, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., skill_start: _Optional[_Union[SkillStart, _Mapping]] = ..., skill_end: _Optional[_Union[SkillEnd, _Mapping]] = ..., todo_update: _Optional[_Union[TodoUpdate, _Mapping]] = ..., token_update: _Optional[_Union[TokenUpdate, _Mapping]] = ..., clarify_request: _Optional[_Union[ClarifyRequest, _Mapping]] = ..., clarify_resolved: _Optional[_Union[ClarifyResolved, _Mapping]] = ..., compaction_start: _Optional[_Union[CompactionStart, _Mapping]] = ..., compaction_done: _Optional[_Union[CompactionDone, _Mapping]] = ..., compaction_error: _Optional[_Union[CompactionError, _Mapping]] = ..., subagent_run_started: _Optional[_Union[SubagentRunStarted, _Mapping]] = ..., subagent_event: _Optional[_Union[SubagentEvent, _Mapping]] = ..., subagent_run_completed: _Optional[_Union[SubagentRunCompleted, _Mapping]] = ..., message_receipt: _Optional[_Union[MessageReceipt, _Mapping]] = ..., steer_receipt: _Optional[_Union[SteerReceipt, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class SessionEntryAdded(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class SessionEntryUpdated(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class SessionEntryRemoved(_message.Message):
    __slots__ = ("entry_id",)
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    entry_id: str
    def __init__(self, entry_id: _Optional[str] = ...) -> None: ...

class SessionLeafChanged(_message.Message):
    __slots__ = ("leaf_entry_id",)
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    leaf_entry_id: str
    def __init__(self, leaf_entry_id: _Optional[str] = ...) -> None: ...

class SessionUpdated(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class SessionListChanged(_message.Message):
    __slots__ = ("session", "deleted")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    deleted: bool
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., deleted: _Optional[bool] = ...) -> None: ...

class AssistantStreamStart(_message.Message):
    __slots__ = ("attempt", "text", "thinking", "model")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    text: str
    thinking: str
    model: str
    def __init__(self, attempt: _Optional[int] = ..., text: _Optional[str] = ..., thinking: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class AssistantStreamDelta(_message.Message):
    __slots__ = ("channel", "attempt", "offset", "text")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    channel: StreamChannel
    attempt: int
    offset: int
    text: str
    def __init__(self, channel: _Optional[_Union[StreamChannel, str]] = ..., attempt: _Optional[int] = ..., offset: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class AssistantStreamEnd(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class ThinkingDone(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ToolCallStarted(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: _entry_pb2.ToolCallPart
    def __init__(self, call: _Optional[_Union[_entry_pb2.ToolCallPart, _Mapping]] = ...) -> None: ...

class ToolResultStreamed(_message.Message):
    __slots__ = ("call_id", "offset", "text")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    offset: int
    text: str
    def __init__(self, call_id: _Optional[str] = ..., offset: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ToolCallCompleted(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: _entry_pb2.ToolCallPart
    def __init__(self, call: _Optional[_Union[_entry_pb2.ToolCallPart, _Mapping]] = ...) -> None: ...

class ProcessEventReported(_message.Message):
    __slots__ = ("process_event",)
    PROCESS_EVENT_FIELD_NUMBER: _ClassVar[int]
    process_event: _subagent_pb2.ProcessEvent
    def __init__(self, process_event: _Optional[_Union[_subagent_pb2.ProcessEvent, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("message", "fraction")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    message: str
    fraction: float
    def __init__(self, message: _Optional[str] = ..., fraction: _Optional[float] = ...) -> None: ...

class SkillStart(_message.Message):
    __slots__ = ("call_id", "skill_name")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_NAME_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    skill_name: str
    def __init__(self, call_id: _Optional[str] = ..., skill_name: _Optional[str] = ...) -> None: ...

class SkillEnd(_message.Message):
    __slots__ = ("call_id", "skill_name", "is_error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    skill_name: str
    is_error: bool
    def __init__(self, call_id: _Optional[str] = ..., skill_name: _Optional[str] = ..., is_error: _Optional[bool] = ...) -> None: ...

class TodoUpdate(_message.Message):
    __slots__ = ("todos",)
    TODOS_FIELD_NUMBER: _ClassVar[int]
    todos: _containers.RepeatedCompositeFieldContainer[_entry_pb2.TodoItem]
    def __init__(self, todos: _Optional[_Iterable[_Union[_entry_pb2.TodoItem, _Mapping]]] = ...) -> None: ...

class TokenUpdate(_message.Message):
    __slots__ = ("usage", "context_used", "context_window")
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_USED_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    usage: _usage_pb2.Usage
    context_used: int
    context_window: int
    def __init__(self, usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., context_used: _Optional[int] = ..., context_window: _Optional[int] = ...) -> None: ...

class ClarifyRequest(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class ClarifyResolved(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class CompactionStart(_message.Message):
    __slots__ = ("manual", "tokens_before")
    MANUAL_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    manual: bool
    tokens_before: int
    def __init__(self, manual: _Optional[bool] = ..., tokens_before: _Optional[int] = ...) -> None: ...

class CompactionDone(_message.Message):
    __slots__ = ("compaction_entry_id", "tokens_before", "tokens_after")
    COMPACTION_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
    compaction_entry_id: str
    tokens_before: int
    tokens_after: int
    def __init__(self, compaction_entry_id: _Optional[str] = ..., tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ...) -> None: ...

class CompactionError(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class SubagentRunStarted(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: _subagent_pb2.SubagentBatch
    def __init__(self, batch: _Optional[_Union[_subagent_pb2.SubagentBatch, _Mapping]] = ...) -> None: ...

class SubagentEvent(_message.Message):
    __slots__ = ("batch_entry_id", "item", "counts", "usage", "process_event", "result", "evidence_summaries")
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    batch_entry_id: str
    item: _subagent_pb2.SubagentTask
    counts: _subagent_pb2.SubagentCounts
    usage: _usage_pb2.Usage
    process_event: _subagent_pb2.ProcessEvent
    result: _subagent_pb2.SubagentFinalResult
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.EvidenceSummary]
    def __init__(self, batch_entry_id: _Optional[str] = ..., item: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ..., counts: _Optional[_Union[_subagent_pb2.SubagentCounts, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., process_event: _Optional[_Union[_subagent_pb2.ProcessEvent, _Mapping]] = ..., result: _Optional[_Union[_subagent_pb2.SubagentFinalResult, _Mapping]] = ..., evidence_summaries: _Optional[_Iterable[_Union[_subagent_pb2.EvidenceSummary, _Mapping]]] = ...) -> None: ...

class SubagentRunCompleted(_message.Message):
    __slots__ = ("batch", "result_entry_id")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    RESULT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    batch: _subagent_pb2.SubagentBatch
    result_entry_id: str
    def __init__(self, batch: _Optional[_Union[_subagent_pb2.SubagentBatch, _Mapping]] = ..., result_entry_id: _Optional[str] = ...) -> None: ...

class MessageReceipt(_message.Message):
    __slots__ = ("request_id", "state")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    state: ReceiptState
    def __init__(self, request_id: _Optional[str] = ..., state: _Optional[_Union[ReceiptState, str]] = ...) -> None: ...

class SteerReceipt(_message.Message):
    __slots__ = ("request_id", "state")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    state: ReceiptState
    def __init__(self, request_id: _Optional[str] = ..., state: _Optional[_Union[ReceiptState, str]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("outcome", "usage", "tool_call_count", "assistant_entry_id")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    outcome: TurnOutcome
    usage: _usage_pb2.Usage
    tool_call_count: int
    assistant_entry_id: str
    def __init__(self, outcome: _Optional[_Union[TurnOutcome, str]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., tool_call_count: _Optional[int] = ..., assistant_entry_id: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("reason", "message", "retryable", "usage", "assistant_entry_id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    retryable: bool
    usage: _usage_pb2.Usage
    assistant_entry_id: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., assistant_entry_id: _Optional[str] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: str
    def __init__(self, nonce: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...
