from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolRoute(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_ROUTE_UNSPECIFIED: _ClassVar[ToolRoute]
    TOOL_ROUTE_WORKER_LOCAL: _ClassVar[ToolRoute]
    TOOL_ROUTE_MAIN_PROCESS_PROXY: _ClassVar[ToolRoute]
    TOOL_ROUTE_DISABLED: _ClassVar[ToolRoute]

class ToolEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_EFFECT_UNSPECIFIED: _ClassVar[ToolEffect]
    TOOL_EFFECT_PURE: _ClassVar[ToolEffect]
    TOOL_EFFECT_IDEMPOTENT: _ClassVar[ToolEffect]
    TOOL_EFFECT_EFFECTFUL: _ClassVar[ToolEffect]

class ToolApproval(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_APPROVAL_UNSPECIFIED: _ClassVar[ToolApproval]
    TOOL_APPROVAL_ALLOW: _ClassVar[ToolApproval]
    TOOL_APPROVAL_ASK: _ClassVar[ToolApproval]
    TOOL_APPROVAL_DENY: _ClassVar[ToolApproval]

class SandboxMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_MODE_UNSPECIFIED: _ClassVar[SandboxMode]
    SANDBOX_MODE_REQUIRED: _ClassVar[SandboxMode]
    SANDBOX_MODE_BEST_EFFORT: _ClassVar[SandboxMode]
    SANDBOX_MODE_OFF: _ClassVar[SandboxMode]
TOOL_ROUTE_UNSPECIFIED: ToolRoute
TOOL_ROUTE_WORKER_LOCAL: ToolRoute
TOOL_ROUTE_MAIN_PROCESS_PROXY: ToolRoute
TOOL_ROUTE_DISABLED: ToolRoute
TOOL_EFFECT_UNSPECIFIED: ToolEffect
TOOL_EFFECT_PURE: ToolEffect
TOOL_EFFECT_IDEMPOTENT: ToolEffect
TOOL_EFFECT_EFFECTFUL: ToolEffect
TOOL_APPROVAL_UNSPECIFIED: ToolApproval
TOOL_APPROVAL_ALLOW: ToolApproval
TOOL_APPROVAL_ASK: ToolApproval
TOOL_APPROVAL_DENY: ToolApproval
SANDBOX_MODE_UNSPECIFIED: SandboxMode
SANDBOX_MODE_REQUIRED: SandboxMode
SANDBOX_MODE_BEST_EFFORT: SandboxMode
SANDBOX_MODE_OFF: SandboxMode

class ToolManifest(_message.Message):
    __slots__ = ("tool_name", "description", "parameters_json", "effect", "needs_workspace", "needs_shell", "writes_files", "needs_local_storage", "family")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    NEEDS_WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_SHELL_FIELD_NUMBER: _ClassVar[int]
    WRITES_FILES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_LOCAL_STORAGE_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    description: str
    parameters_json: str
    effect: ToolEffect
    needs_workspace: bool
    needs_shell: bool
    writes_files: bool
    needs_local_storage: bool
    family: str
    def __init__(self, tool_name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ..., effect: _Optional[_Union[ToolEffect, str]] = ..., needs_workspace: _Optional[bool] = ..., needs_shell: _Optional[bool] = ..., writes_files: _Optional[bool] = ..., needs_local_storage: _Optional[bool] = ..., family: _Optional[str] = ...) -> None: ...

class ToolRuntimeRoute(_message.Message):
    __slots__ = ("tool_name", "route", "reason", "policy_sources", "approval", "effect")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POLICY_SOURCES_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    route: ToolRoute
    reason: str
    policy_sources: _containers.RepeatedScalarFieldContainer[str]
    approval: ToolApproval
    effect: ToolEffect
    def __init__(self, tool_name: _Optional[str] = ..., route: _Optional[_Union[ToolRoute, str]] = ..., reason: _Optional[str] = ..., policy_sources: _Optional[_Iterable[str]] = ..., approval: _Optional[_Union[ToolApproval, str]] = ..., effect: _Optional[_Union[ToolEffect, str]] = ...) -> None: ...

class ToolPolicy(_message.Message):
    __slots__ = ("workspace", "shell", "read_only", "local_storage", "sandbox", "routes")
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOCAL_STORAGE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    workspace: str
    shell: bool
    read_only: bool
    local_storage: bool
    sandbox: SandboxMode
    routes: _containers.RepeatedCompositeFieldContainer[ToolRuntimeRoute]
    def __init__(self, workspace: _Optional[str] = ..., shell: _Optional[bool] = ..., read_only: _Optional[bool] = ..., local_storage: _Optional[bool] = ..., sandbox: _Optional[_Union[SandboxMode, str]] = ..., routes: _Optional[_Iterable[_Union[ToolRuntimeRoute, _Mapping]]] = ...) -> None: ...

class ToolDiagnostic(_message.Message):
    __slots__ = ("tool_name", "message", "fix")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    message: str
    fix: str
    def __init__(self, tool_name: _Optional[str] = ..., message: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...

class ToolProfileItem(_message.Message):
    __slots__ = ("manifest", "main_route", "subagent_route")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    MAIN_ROUTE_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_ROUTE_FIELD_NUMBER: _ClassVar[int]
    manifest: ToolManifest
    main_route: ToolRuntimeRoute
    subagent_route: ToolRuntimeRoute
    def __init__(self, manifest: _Optional[_Union[ToolManifest, _Mapping]] = ..., main_route: _Optional[_Union[ToolRuntimeRoute, _Mapping]] = ..., subagent_route: _Optional[_Union[ToolRuntimeRoute, _Mapping]] = ...) -> None: ...

class ToolProfile(_message.Message):
    __slots__ = ("agent_id", "items", "diagnostics")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    items: _containers.RepeatedCompositeFieldContainer[ToolProfileItem]
    diagnostics: _containers.RepeatedCompositeFieldContainer[ToolDiagnostic]
    def __init__(self, agent_id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[ToolProfileItem, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[ToolDiagnostic, _Mapping]]] = ...) -> None: ...
