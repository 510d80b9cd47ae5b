import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.agent.v1 import agent_pb2 as _agent_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from netaclaw.tool.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EntryKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_KIND_UNSPECIFIED: _ClassVar[EntryKind]
    ENTRY_KIND_USER: _ClassVar[EntryKind]
    ENTRY_KIND_ASSISTANT: _ClassVar[EntryKind]
    ENTRY_KIND_COMPACTION: _ClassVar[EntryKind]
    ENTRY_KIND_BRANCH_SUMMARY: _ClassVar[EntryKind]
    ENTRY_KIND_SUBAGENT_BATCH: _ClassVar[EntryKind]
    ENTRY_KIND_SUBAGENT_RESULT: _ClassVar[EntryKind]
    ENTRY_KIND_CLARIFY: _ClassVar[EntryKind]

class EntryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_STATE_UNSPECIFIED: _ClassVar[EntryState]
    ENTRY_STATE_STREAMING: _ClassVar[EntryState]
    ENTRY_STATE_COMPLETE: _ClassVar[EntryState]
    ENTRY_STATE_CANCELLED: _ClassVar[EntryState]
    ENTRY_STATE_INTERRUPTED: _ClassVar[EntryState]
    ENTRY_STATE_FAILED: _ClassVar[EntryState]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_TOOL_CALLS: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CONTENT_FILTER: _ClassVar[FinishReason]
    FINISH_REASON_ERROR: _ClassVar[FinishReason]

class ToolCallState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_CALL_STATE_UNSPECIFIED: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_PENDING: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_WAITING: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_RUNNING: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_COMPLETED: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_FAILED: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_REFUSED: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_CANCELLED: _ClassVar[ToolCallState]
    TOOL_CALL_STATE_IN_DOUBT: _ClassVar[ToolCallState]

class ClarifyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLARIFY_STATE_UNSPECIFIED: _ClassVar[ClarifyState]
    CLARIFY_STATE_OPEN: _ClassVar[ClarifyState]
    CLARIFY_STATE_ANSWERED: _ClassVar[ClarifyState]
    CLARIFY_STATE_EXPIRED: _ClassVar[ClarifyState]
    CLARIFY_STATE_CLOSED: _ClassVar[ClarifyState]

class MessageRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_ROLE_UNSPECIFIED: _ClassVar[MessageRole]
    MESSAGE_ROLE_USER: _ClassVar[MessageRole]
    MESSAGE_ROLE_ASSISTANT: _ClassVar[MessageRole]
ENTRY_KIND_UNSPECIFIED: EntryKind
ENTRY_KIND_USER: EntryKind
ENTRY_KIND_ASSISTANT: EntryKind
ENTRY_KIND_COMPACTION: EntryKind
ENTRY_KIND_BRANCH_SUMMARY: EntryKind
ENTRY_KIND_SUBAGENT_BATCH: EntryKind
ENTRY_KIND_SUBAGENT_RESULT: EntryKind
ENTRY_KIND_CLARIFY: EntryKind
ENTRY_STATE_UNSPECIFIED: EntryState
ENTRY_STATE_STREAMING: EntryState
ENTRY_STATE_COMPLETE: EntryState
ENTRY_STATE_CANCELLED: EntryState
ENTRY_STATE_INTERRUPTED: EntryState
ENTRY_STATE_FAILED: EntryState
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_TOOL_CALLS: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CONTENT_FILTER: FinishReason
FINISH_REASON_ERROR: FinishReason
TOOL_CALL_STATE_UNSPECIFIED: ToolCallState
TOOL_CALL_STATE_PENDING: ToolCallState
TOOL_CALL_STATE_WAITING: ToolCallState
TOOL_CALL_STATE_RUNNING: ToolCallState
TOOL_CALL_STATE_COMPLETED: ToolCallState
TOOL_CALL_STATE_FAILED: ToolCallState
TOOL_CALL_STATE_REFUSED: ToolCallState
TOOL_CALL_STATE_CANCELLED: ToolCallState
TOOL_CALL_STATE_IN_DOUBT: ToolCallState
CLARIFY_STATE_UNSPECIFIED: ClarifyState
CLARIFY_STATE_OPEN: ClarifyState
CLARIFY_STATE_ANSWERED: ClarifyState
CLARIFY_STATE_EXPIRED: ClarifyState
CLARIFY_STATE_CLOSED: ClarifyState
MESSAGE_ROLE_UNSPECIFIED: MessageRole
MESSAGE_ROLE_USER: MessageRole
MESSAGE_ROLE_ASSISTANT: MessageRole

class Session(_message.Message):
    __slots__ = ("session_id", "title", "workspace", "agent_id", "leaf_entry_id", "seq", "thinking_level", "running_turn_id", "needs_attention", "etag", "create_time", "update_time", "forked_from_session_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    THINKING_LEVEL_FIELD_NUMBER: _ClassVar[int]
    RUNNING_TURN_ID_FIELD_NUMBER: _ClassVar[int]
    NEEDS_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    FORKED_FROM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    title: str
    workspace: str
    agent_id: str
    leaf_entry_id: str
    seq: int
    thinking_level: _agent_pb2.ThinkingLevel
    running_turn_id: str
    needs_attention: bool
    etag: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    forked_from_session_id: str
    def __init__(self, session_id: _Optional[str] = ..., title: _Optional[str] = ..., workspace: _Optional[str] = ..., agent_id: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., seq: _Optional[int] = ..., thinking_level: _Optional[_Union[_agent_pb2.ThinkingLevel, str]] = ..., running_turn_id: _Optional[str] = ..., needs_attention: _Optional[bool] = ..., etag: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., forked_from_session_id: _Optional[str] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("entry_id", "session_id", "parent_entry_id", "turn_id", "kind", "state", "tool_call_id", "label", "updated_seq", "create_time", "update_time", "user", "assistant", "compaction", "branch_summary", "subagent_batch", "subagent_result", "clarify", "subagent_projection")
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    UPDATED_SEQ_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_FIELD_NUMBER: _ClassVar[int]
    BRANCH_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_BATCH_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_RESULT_FIELD_NUMBER: _ClassVar[int]
    CLARIFY_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_PROJECTION_FIELD_NUMBER: _ClassVar[int]
    entry_id: str
    session_id: str
    parent_entry_id: str
    turn_id: str
    kind: EntryKind
    state: EntryState
    tool_call_id: str
    label: str
    updated_seq: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    user: UserBody
    assistant: AssistantBody
    compaction: CompactionBody
    branch_summary: BranchSummaryBody
    subagent_batch: _subagent_pb2.SubagentBatchBody
    subagent_result: _subagent_pb2.SubagentResultBody
    clarify: ClarifyBody
    subagent_projection: _subagent_pb2.SubagentProjection
    def __init__(self, entry_id: _Optional[str] = ..., session_id: _Optional[str] = ..., parent_entry_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., kind: _Optional[_Union[EntryKind, str]] = ..., state: _Optional[_Union[EntryState, str]] = ..., tool_call_id: _Optional[str] = ..., label: _Optional[str] = ..., updated_seq: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[_Union[UserBody, _Mapping]] = ..., assistant: _Optional[_Union[AssistantBody, _Mapping]] = ..., compaction: _Optional[_Union[CompactionBody, _Mapping]] = ..., branch_summary: _Optional[_Union[BranchSummaryBody, _Mapping]] = ..., subagent_batch: _Optional[_Union[_subagent_pb2.SubagentBatchBody, _Mapping]] = ..., subagent_result: _Optional[_Union[_subagent_pb2.SubagentResultBody, _Mapping]] = ..., clarify: _Optional[_Union[ClarifyBody, _Mapping]] = ..., subagent_projection: _Optional[_Union[_subagent_pb2.SubagentProjection, _Mapping]] = ...) -> None: ...

class UserBody(_message.Message):
    __slots__ = ("text", "origin")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    text: str
    origin: str
    def __init__(self, text: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class AssistantBody(_message.Message):
    __slots__ = ("parts", "agent_id", "model", "attempt", "usage", "finish_reason", "error", "todos")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TODOS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    agent_id: str
    model: str
    attempt: int
    usage: _usage_pb2.Usage
    finish_reason: FinishReason
    error: str
    todos: _containers.RepeatedCompositeFieldContainer[TodoItem]
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., agent_id: _Optional[str] = ..., model: _Optional[str] = ..., attempt: _Optional[int] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., error: _Optional[str] = ..., todos: _Optional[_Iterable[_Union[TodoItem, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("text", "thinking", "tool_call", "batch_reference")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    BATCH_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    text: TextPart
    thinking: ThinkingPart
    tool_call: ToolCallPart
    batch_reference: BatchReferencePart
    def __init__(self, text: _Optional[_Union[TextPart, _Mapping]] = ..., thinking: _Optional[_Union[ThinkingPart, _Mapping]] = ..., tool_call: _Optional[_Union[ToolCallPart, _Mapping]] = ..., batch_reference: _Optional[_Union[BatchReferencePart, _Mapping]] = ...) -> None: ...

class TextPart(_message.Message):
    __slots__ = ("text", "content_id", "size_bytes")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    text: str
    content_id: str
    size_bytes: int
    def __init__(self, text: _Optional[str] = ..., content_id: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class ThinkingPart(_message.Message):
    __slots__ = ("text", "signature", "redacted", "content_id", "size_bytes")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    text: str
    signature: str
    redacted: str
    content_id: str
    size_bytes: int
    def __init__(self, text: _Optional[str] = ..., signature: _Optional[str] = ..., redacted: _Optional[str] = ..., content_id: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class ToolCallPart(_message.Message):
    __slots__ = ("call_id", "provider_call_id", "tool_name", "arguments_json", "route", "state", "result", "last_process_event", "start_time", "end_time")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LAST_PROCESS_EVENT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    provider_call_id: str
    tool_name: str
    arguments_json: str
    route: _tool_pb2.ToolRuntimeRoute
    state: ToolCallState
    result: ToolResult
    last_process_event: _subagent_pb2.ProcessEvent
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, call_id: _Optional[str] = ..., provider_call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., route: _Optional[_Union[_tool_pb2.ToolRuntimeRoute, _Mapping]] = ..., state: _Optional[_Union[ToolCallState, str]] = ..., result: _Optional[_Union[ToolResult, _Mapping]] = ..., last_process_event: _Optional[_Union[_subagent_pb2.ProcessEvent, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("content", "is_error", "content_id", "size_bytes")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    content: str
    is_error: bool
    content_id: str
    size_bytes: int
    def __init__(self, content: _Optional[str] = ..., is_error: _Optional[bool] = ..., content_id: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class BatchReferencePart(_message.Message):
    __slots__ = ("batch_entry_id", "call_id")
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    batch_entry_id: str
    call_id: str
    def __init__(self, batch_entry_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class CompactionBody(_message.Message):
    __slots__ = ("summary", "first_kept_entry_id", "tokens_before", "tokens_after", "manual", "instructions", "usage")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    FIRST_KEPT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
    MANUAL_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    tokens_after: int
    manual: bool
    instructions: str
    usage: _usage_pb2.Usage
    def __init__(self, summary: _Optional[str] = ..., first_kept_entry_id: _Optional[str] = ..., tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ..., manual: _Optional[bool] = ..., instructions: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class BranchSummaryBody(_message.Message):
    __slots__ = ("summary", "from_entry_id", "usage")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    FROM_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    summary: str
    from_entry_id: str
    usage: _usage_pb2.Usage
    def __init__(self, summary: _Optional[str] = ..., from_entry_id: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class ClarifyBody(_message.Message):
    __slots__ = ("request_id", "question", "choices", "state", "answer", "expire_time", "approval", "task_id", "agent_id", "agent_name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    question: str
    choices: _containers.RepeatedScalarFieldContainer[str]
    state: ClarifyState
    answer: str
    expire_time: _timestamp_pb2.Timestamp
    approval: ToolCallPart
    task_id: str
    agent_id: str
    agent_name: str
    def __init__(self, request_id: _Optional[str] = ..., question: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ..., state: _Optional[_Union[ClarifyState, str]] = ..., answer: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., approval: _Optional[_Union[ToolCallPart, _Mapping]] = ..., task_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ...) -> None: ...

class TodoItem(_message.Message):
    __slots__ = ("todo_id", "text", "status")
    TODO_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    todo_id: str
    text: str
    status: str
    def __init__(self, todo_id: _Optional[str] = ..., text: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "parts", "finish_reason", "usage", "model", "entry_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    role: MessageRole
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    finish_reason: FinishReason
    usage: _usage_pb2.Usage
    model: str
    entry_id: str
    def __init__(self, role: _Optional[_Union[MessageRole, str]] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., model: _Optional[str] = ..., entry_id: _Optional[str] = ...) -> None: ...

class ContentChunk(_message.Message):
    __slots__ = ("content_id", "offset", "data", "size_bytes")
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    content_id: str
    offset: int
    data: bytes
    size_bytes: int
    def __init__(self, content_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., size_bytes: _Optional[int] = ...) -> None: ...
