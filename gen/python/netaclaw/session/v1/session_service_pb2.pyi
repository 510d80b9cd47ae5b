import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "query")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    query: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Session]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[_entry_pb2.Session, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetSessionTreeRequest(_message.Message):
    __slots__ = ("session_id", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class QueuedMessage(_message.Message):
    __slots__ = ("request_id", "text", "create_time")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    text: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, request_id: _Optional[str] = ..., text: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetSessionTreeResponse(_message.Message):
    __slots__ = ("session", "entries", "next_page_token", "queued_messages")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    entries: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    next_page_token: str
    queued_messages: _containers.RepeatedCompositeFieldContainer[QueuedMessage]
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., queued_messages: _Optional[_Iterable[_Union[QueuedMessage, _Mapping]]] = ...) -> None: ...

class ListMessagesRequest(_message.Message):
    __slots__ = ("session_id", "leaf_entry_id", "compacted", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    leaf_entry_id: str
    compacted: bool
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., compacted: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMessagesResponse(_message.Message):
    __slots__ = ("entries", "next_page_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    next_page_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReadContentRequest(_message.Message):
    __slots__ = ("session_id", "content_id", "offset", "limit_bytes")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    content_id: str
    offset: int
    limit_bytes: int
    def __init__(self, session_id: _Optional[str] = ..., content_id: _Optional[str] = ..., offset: _Optional[int] = ..., limit_bytes: _Optional[int] = ...) -> None: ...

class ReadContentResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _entry_pb2.ContentChunk
    def __init__(self, chunk: _Optional[_Union[_entry_pb2.ContentChunk, _Mapping]] = ...) -> None: ...

class SubagentEntry(_message.Message):
    __slots__ = ("task_id", "n", "message", "create_time")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    n: int
    message: _entry_pb2.Message
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, task_id: _Optional[str] = ..., n: _Optional[int] = ..., message: _Optional[_Union[_entry_pb2.Message, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListSubagentEntriesRequest(_message.Message):
    __slots__ = ("session_id", "task_id", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task_id: str
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., task_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSubagentEntriesResponse(_message.Message):
    __slots__ = ("task", "entries", "next_page_token")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    task: _subagent_pb2.SubagentTask
    entries: _containers.RepeatedCompositeFieldContainer[SubagentEntry]
    next_page_token: str
    def __init__(self, task: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[SubagentEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetSubagentResultRequest(_message.Message):
    __slots__ = ("session_id", "task_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task_id: str
    def __init__(self, session_id: _Optional[str] = ..., task_id: _Optional[str] = ...) -> None: ...

class GetSubagentResultResponse(_message.Message):
    __slots__ = ("task", "result", "evidence_summaries")
    TASK_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    task: _subagent_pb2.SubagentTask
    result: _subagent_pb2.SubagentFinalResult
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.EvidenceSummary]
    def __init__(self, task: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ..., result: _Optional[_Union[_subagent_pb2.SubagentFinalResult, _Mapping]] = ..., evidence_summaries: _Optional[_Iterable[_Union[_subagent_pb2.EvidenceSummary, _Mapping]]] = ...) -> None: ...

class ListProcessEventsRequest(_message.Message):
    __slots__ = ("session_id", "batch_entry_id", "task_id", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    batch_entry_id: str
    task_id: str
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., batch_entry_id: _Optional[str] = ..., task_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListProcessEventsResponse(_message.Message):
    __slots__ = ("process_events", "next_page_token")
    PROCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    process_events: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.ProcessEvent]
    next_page_token: str
    def __init__(self, process_events: _Optional[_Iterable[_Union[_subagent_pb2.ProcessEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("session_id", "turn_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    turn_id: str
    def __init__(self, session_id: _Optional[str] = ..., turn_id: _Optional[str] = ...) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("total", "subagents")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SUBAGENTS_FIELD_NUMBER: _ClassVar[int]
    total: _usage_pb2.Usage
    subagents: _usage_pb2.Usage
    def __init__(self, total: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., subagents: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class Workspace(_message.Message):
    __slots__ = ("name", "is_default")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_default: bool
    def __init__(self, name: _Optional[str] = ..., is_default: _Optional[bool] = ...) -> None: ...

class ListWorkspacesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListWorkspacesResponse(_message.Message):
    __slots__ = ("workspaces", "next_page_token")
    WORKSPACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    workspaces: _containers.RepeatedCompositeFieldContainer[Workspace]
    next_page_token: str
    def __init__(self, workspaces: _Optional[_Iterable[_Union[Workspace, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
