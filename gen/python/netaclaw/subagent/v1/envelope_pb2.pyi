from netaclaw.agent.v1 import agent_pb2 as _agent_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from netaclaw.tool.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskBudget(_message.Message):
    __slots__ = ("max_tool_rounds", "max_tool_calls", "max_tokens", "stall_ms")
    MAX_TOOL_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STALL_MS_FIELD_NUMBER: _ClassVar[int]
    max_tool_rounds: int
    max_tool_calls: int
    max_tokens: int
    stall_ms: int
    def __init__(self, max_tool_rounds: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_tokens: _Optional[int] = ..., stall_ms: _Optional[int] = ...) -> None: ...

class SubagentTaskEnvelope(_message.Message):
    __slots__ = ("protocol_version", "run_id", "session_id", "parent_entry_id", "task", "agent_config", "tool_names", "tool_manifest", "policy", "timeout_ms", "budget", "history", "owner_id")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    AGENT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    TOOL_MANIFEST_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    run_id: str
    session_id: str
    parent_entry_id: str
    task: _subagent_pb2.SubagentTask
    agent_config: _agent_pb2.Agent
    tool_names: _containers.RepeatedScalarFieldContainer[str]
    tool_manifest: _containers.RepeatedCompositeFieldContainer[_tool_pb2.ToolManifest]
    policy: _tool_pb2.ToolPolicy
    timeout_ms: int
    budget: TaskBudget
    history: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Message]
    owner_id: str
    def __init__(self, protocol_version: _Optional[int] = ..., run_id: _Optional[str] = ..., session_id: _Optional[str] = ..., parent_entry_id: _Optional[str] = ..., task: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ..., agent_config: _Optional[_Union[_agent_pb2.Agent, _Mapping]] = ..., tool_names: _Optional[_Iterable[str]] = ..., tool_manifest: _Optional[_Iterable[_Union[_tool_pb2.ToolManifest, _Mapping]]] = ..., policy: _Optional[_Union[_tool_pb2.ToolPolicy, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., budget: _Optional[_Union[TaskBudget, _Mapping]] = ..., history: _Optional[_Iterable[_Union[_entry_pb2.Message, _Mapping]]] = ..., owner_id: _Optional[str] = ...) -> None: ...

class RunStart(_message.Message):
    __slots__ = ("protocol_version", "pid", "sandbox_in_force", "sandbox_missing")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    pid: int
    sandbox_in_force: _containers.RepeatedScalarFieldContainer[str]
    sandbox_missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol_version: _Optional[int] = ..., pid: _Optional[int] = ..., sandbox_in_force: _Optional[_Iterable[str]] = ..., sandbox_missing: _Optional[_Iterable[str]] = ...) -> None: ...

class ModelRequest(_message.Message):
    __slots__ = ("request_id", "keep", "messages")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    keep: int
    messages: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Message]
    def __init__(self, request_id: _Optional[int] = ..., keep: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[_entry_pb2.Message, _Mapping]]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Thinking(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Log(_message.Message):
    __slots__ = ("level", "message")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    level: str
    message: str
    def __init__(self, level: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("call_id", "tool_name", "arguments_json", "route")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    arguments_json: str
    route: _tool_pb2.ToolRoute
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., route: _Optional[_Union[_tool_pb2.ToolRoute, str]] = ...) -> None: ...

class ToolResultLine(_message.Message):
    __slots__ = ("call_id", "content", "is_error", "tool_name")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    content: str
    is_error: bool
    tool_name: str
    def __init__(self, call_id: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., tool_name: _Optional[str] = ...) -> None: ...

class ToolOutput(_message.Message):
    __slots__ = ("call_id", "text")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    text: str
    def __init__(self, call_id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ProxyToolCall(_message.Message):
    __slots__ = ("call_id", "tool_name", "arguments_json")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    arguments_json: str
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class RunEnd(_message.Message):
    __slots__ = ("state", "final_output", "error", "tool_call_count", "raw_final_content")
    STATE_FIELD_NUMBER: _ClassVar[int]
    FINAL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    RAW_FINAL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    state: _subagent_pb2.SubagentTaskState
    final_output: str
    error: str
    tool_call_count: int
    raw_final_content: str
    def __init__(self, state: _Optional[_Union[_subagent_pb2.SubagentTaskState, str]] = ..., final_output: _Optional[str] = ..., error: _Optional[str] = ..., tool_call_count: _Optional[int] = ..., raw_final_content: _Optional[str] = ...) -> None: ...

class RunError(_message.Message):
    __slots__ = ("error", "partial_text", "tool_call_count")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    error: str
    partial_text: str
    tool_call_count: int
    def __init__(self, error: _Optional[str] = ..., partial_text: _Optional[str] = ..., tool_call_count: _Optional[int] = ...) -> None: ...

class HostStart(_message.Message):
    __slots__ = ("protocol_version", "policy", "tool_names")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    policy: _tool_pb2.ToolPolicy
    tool_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol_version: _Optional[int] = ..., policy: _Optional[_Union[_tool_pb2.ToolPolicy, _Mapping]] = ..., tool_names: _Optional[_Iterable[str]] = ...) -> None: ...

class ModelResponse(_message.Message):
    __slots__ = ("request_id", "message", "error")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    message: _entry_pb2.Message
    error: str
    def __init__(self, request_id: _Optional[int] = ..., message: _Optional[_Union[_entry_pb2.Message, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class ProxyToolResult(_message.Message):
    __slots__ = ("call_id", "content", "is_error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    content: str
    is_error: bool
    def __init__(self, call_id: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ...) -> None: ...

class Steer(_message.Message):
    __slots__ = ("request_id", "content")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    content: str
    def __init__(self, request_id: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class SteerTaken(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class BudgetWarning(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ModelCallUsage(_message.Message):
    __slots__ = ("model", "usage")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    usage: _usage_pb2.Usage
    def __init__(self, model: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...
