from google.protobuf import field_mask_pb2 as _field_mask_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateSessionRequest(_message.Message):
    __slots__ = ("session_id", "workspace", "agent_id", "title")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    workspace: str
    agent_id: str
    title: str
    def __init__(self, session_id: _Optional[str] = ..., workspace: _Optional[str] = ..., agent_id: _Optional[str] = ..., title: _Optional[str] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class EntryLabel(_message.Message):
    __slots__ = ("entry_id", "label")
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    entry_id: str
    label: str
    def __init__(self, entry_id: _Optional[str] = ..., label: _Optional[str] = ...) -> None: ...

class UpdateSessionRequest(_message.Message):
    __slots__ = ("session", "update_mask", "etag", "labels")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    update_mask: _field_mask_pb2.FieldMask
    etag: str
    labels: _containers.RepeatedCompositeFieldContainer[EntryLabel]
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., etag: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[EntryLabel, _Mapping]]] = ...) -> None: ...

class UpdateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class SwitchLeafRequest(_message.Message):
    __slots__ = ("session_id", "leaf_entry_id", "summarize", "instructions", "to_root")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    TO_ROOT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    leaf_entry_id: str
    summarize: bool
    instructions: str
    to_root: bool
    def __init__(self, session_id: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., summarize: _Optional[bool] = ..., instructions: _Optional[str] = ..., to_root: _Optional[bool] = ...) -> None: ...

class SwitchLeafResponse(_message.Message):
    __slots__ = ("session", "entries", "next_page_token")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    entries: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    next_page_token: str
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ForkSessionRequest(_message.Message):
    __slots__ = ("session_id", "entry_id", "new_session_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    entry_id: str
    new_session_id: str
    def __init__(self, session_id: _Optional[str] = ..., entry_id: _Optional[str] = ..., new_session_id: _Optional[str] = ...) -> None: ...

class ForkSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class DeleteBranchRequest(_message.Message):
    __slots__ = ("session_id", "entry_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    entry_id: str
    def __init__(self, session_id: _Optional[str] = ..., entry_id: _Optional[str] = ...) -> None: ...

class DeleteBranchResponse(_message.Message):
    __slots__ = ("session", "deleted_count")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    deleted_count: int
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., deleted_count: _Optional[int] = ...) -> None: ...

class DeleteSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class DeleteSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteAllSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteAllSessionsResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...
