import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.tool.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ThinkingLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THINKING_LEVEL_UNSPECIFIED: _ClassVar[ThinkingLevel]
    THINKING_LEVEL_OFF: _ClassVar[ThinkingLevel]
    THINKING_LEVEL_LOW: _ClassVar[ThinkingLevel]
    THINKING_LEVEL_MEDIUM: _ClassVar[ThinkingLevel]
    THINKING_LEVEL_HIGH: _ClassVar[ThinkingLevel]

class DelegationRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELEGATION_ROLE_UNSPECIFIED: _ClassVar[DelegationRole]
    DELEGATION_ROLE_SUPERVISOR: _ClassVar[DelegationRole]
    DELEGATION_ROLE_SUBAGENT: _ClassVar[DelegationRole]

class CrewRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CREW_ROLE_UNSPECIFIED: _ClassVar[CrewRole]
    CREW_ROLE_MASTER: _ClassVar[CrewRole]
    CREW_ROLE_MEMBER: _ClassVar[CrewRole]
THINKING_LEVEL_UNSPECIFIED: ThinkingLevel
THINKING_LEVEL_OFF: ThinkingLevel
THINKING_LEVEL_LOW: ThinkingLevel
THINKING_LEVEL_MEDIUM: ThinkingLevel
THINKING_LEVEL_HIGH: ThinkingLevel
DELEGATION_ROLE_UNSPECIFIED: DelegationRole
DELEGATION_ROLE_SUPERVISOR: DelegationRole
DELEGATION_ROLE_SUBAGENT: DelegationRole
CREW_ROLE_UNSPECIFIED: CrewRole
CREW_ROLE_MASTER: CrewRole
CREW_ROLE_MEMBER: CrewRole

class NameList(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class SubagentConfig(_message.Message):
    __slots__ = ("enabled", "max_concurrent", "allowed_preset_agent_ids", "allowed_tool_names", "timeout_seconds", "max_tool_rounds")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_PRESET_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    max_concurrent: int
    allowed_preset_agent_ids: NameList
    allowed_tool_names: NameList
    timeout_seconds: int
    max_tool_rounds: int
    def __init__(self, enabled: _Optional[bool] = ..., max_concurrent: _Optional[int] = ..., allowed_preset_agent_ids: _Optional[_Union[NameList, _Mapping]] = ..., allowed_tool_names: _Optional[_Union[NameList, _Mapping]] = ..., timeout_seconds: _Optional[int] = ..., max_tool_rounds: _Optional[int] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("agent_id", "name", "description", "system_prompt", "model", "tool_names", "subagent_config", "published", "workspace_enabled", "shell_enabled", "read_only", "local_storage_enabled", "approvals", "thinking_level", "crew_role", "max_tool_rounds", "etag", "create_time", "update_time", "sandbox")
    class ApprovalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _tool_pb2.ToolApproval
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_tool_pb2.ToolApproval, str]] = ...) -> None: ...
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    SHELL_ENABLED_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOCAL_STORAGE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    THINKING_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CREW_ROLE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    name: str
    description: str
    system_prompt: str
    model: str
    tool_names: NameList
    subagent_config: SubagentConfig
    published: bool
    workspace_enabled: bool
    shell_enabled: bool
    read_only: bool
    local_storage_enabled: bool
    approvals: _containers.ScalarMap[str, _tool_pb2.ToolApproval]
    thinking_level: ThinkingLevel
    crew_role: CrewRole
    max_tool_rounds: int
    etag: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    sandbox: _tool_pb2.SandboxMode
    def __init__(self, agent_id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., system_prompt: _Optional[str] = ..., model: _Optional[str] = ..., tool_names: _Optional[_Union[NameList, _Mapping]] = ..., subagent_config: _Optional[_Union[SubagentConfig, _Mapping]] = ..., published: _Optional[bool] = ..., workspace_enabled: _Optional[bool] = ..., shell_enabled: _Optional[bool] = ..., read_only: _Optional[bool] = ..., local_storage_enabled: _Optional[bool] = ..., approvals: _Optional[_Mapping[str, _tool_pb2.ToolApproval]] = ..., thinking_level: _Optional[_Union[ThinkingLevel, str]] = ..., crew_role: _Optional[_Union[CrewRole, str]] = ..., max_tool_rounds: _Optional[int] = ..., etag: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sandbox: _Optional[_Union[_tool_pb2.SandboxMode, str]] = ...) -> None: ...

class AgentOption(_message.Message):
    __slots__ = ("agent_id", "name", "description")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    name: str
    description: str
    def __init__(self, agent_id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...
