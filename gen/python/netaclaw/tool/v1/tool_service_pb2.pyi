from netaclaw.tool.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListToolsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_page_token")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[_tool_pb2.ToolManifest]
    next_page_token: str
    def __init__(self, tools: _Optional[_Iterable[_Union[_tool_pb2.ToolManifest, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetToolProfileRequest(_message.Message):
    __slots__ = ("agent_id", "workspace")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    workspace: str
    def __init__(self, agent_id: _Optional[str] = ..., workspace: _Optional[str] = ...) -> None: ...

class GetToolProfileResponse(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: _tool_pb2.ToolProfile
    def __init__(self, profile: _Optional[_Union[_tool_pb2.ToolProfile, _Mapping]] = ...) -> None: ...
