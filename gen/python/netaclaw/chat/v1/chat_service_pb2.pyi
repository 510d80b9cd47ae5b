import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.agent.v1 import agent_pb2 as _agent_pb2
from netaclaw.chat.v1 import event_pb2 as _event_pb2
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

class WhenBusy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHEN_BUSY_UNSPECIFIED: _ClassVar[WhenBusy]
    WHEN_BUSY_REJECT: _ClassVar[WhenBusy]
    WHEN_BUSY_ENQUEUE: _ClassVar[WhenBusy]
    WHEN_BUSY_INTERRUPT: _ClassVar[WhenBusy]
    WHEN_BUSY_STEER: _ClassVar[WhenBusy]
WHEN_BUSY_UNSPECIFIED: WhenBusy
WHEN_BUSY_REJECT: WhenBusy
WHEN_BUSY_ENQUEUE: WhenBusy
WHEN_BUSY_INTERRUPT: WhenBusy
WHEN_BUSY_STEER: WhenBusy

class ChatRequest(_message.Message):
    __slots__ = ("session_id", "content", "agent_id", "agent_name", "leaf_entry_id", "request_id", "when_busy", "from_root")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WHEN_BUSY_FIELD_NUMBER: _ClassVar[int]
    FROM_ROOT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    content: str
    agent_id: str
    agent_name: str
    leaf_entry_id: str
    request_id: str
    when_busy: WhenBusy
    from_root: bool
    def __init__(self, session_id: _Optional[str] = ..., content: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., request_id: _Optional[str] = ..., when_busy: _Optional[_Union[WhenBusy, str]] = ..., from_root: _Optional[bool] = ...) -> None: ...

class ChatResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ...) -> None: ...

class ExecuteChatRequest(_message.Message):
    __slots__ = ("session_id", "content", "agent_id", "agent_name", "leaf_entry_id", "request_id", "when_busy", "from_root")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WHEN_BUSY_FIELD_NUMBER: _ClassVar[int]
    FROM_ROOT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    content: str
    agent_id: str
    agent_name: str
    leaf_entry_id: str
    request_id: str
    when_busy: WhenBusy
    from_root: bool
    def __init__(self, session_id: _Optional[str] = ..., content: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., request_id: _Optional[str] = ..., when_busy: _Optional[_Union[WhenBusy, str]] = ..., from_root: _Optional[bool] = ...) -> None: ...

class ExecuteChatResponse(_message.Message):
    __slots__ = ("session_id", "turn_id", "final_content", "usage", "tool_call_count", "assistant_entry_id", "subagent_batches", "outcome", "error")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_BATCHES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    turn_id: str
    final_content: str
    usage: _usage_pb2.Usage
    tool_call_count: int
    assistant_entry_id: str
    subagent_batches: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.SubagentBatch]
    outcome: _event_pb2.TurnOutcome
    error: _event_pb2.Error
    def __init__(self, session_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., final_content: _Optional[str] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., tool_call_count: _Optional[int] = ..., assistant_entry_id: _Optional[str] = ..., subagent_batches: _Optional[_Iterable[_Union[_subagent_pb2.SubagentBatch, _Mapping]]] = ..., outcome: _Optional[_Union[_event_pb2.TurnOutcome, str]] = ..., error: _Optional[_Union[_event_pb2.Error, _Mapping]] = ...) -> None: ...

class WatchTarget(_message.Message):
    __slots__ = ("session_id", "after_seq")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    after_seq: int
    def __init__(self, session_id: _Optional[str] = ..., after_seq: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("targets", "include_session_list")
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SESSION_LIST_FIELD_NUMBER: _ClassVar[int]
    targets: _containers.RepeatedCompositeFieldContainer[WatchTarget]
    include_session_list: bool
    def __init__(self, targets: _Optional[_Iterable[_Union[WatchTarget, _Mapping]]] = ..., include_session_list: _Optional[bool] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ...) -> None: ...

class CancelTurnRequest(_message.Message):
    __slots__ = ("session_id", "turn_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    turn_id: str
    def __init__(self, session_id: _Optional[str] = ..., turn_id: _Optional[str] = ...) -> None: ...

class CancelTurnResponse(_message.Message):
    __slots__ = ("turn_id", "gone_time")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    GONE_TIME_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    gone_time: _timestamp_pb2.Timestamp
    def __init__(self, turn_id: _Optional[str] = ..., gone_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CancelSubagentRequest(_message.Message):
    __slots__ = ("session_id", "task_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task_id: str
    def __init__(self, session_id: _Optional[str] = ..., task_id: _Optional[str] = ...) -> None: ...

class CancelSubagentResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _subagent_pb2.SubagentTask
    def __init__(self, task: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ...) -> None: ...

class SteerSubagentRequest(_message.Message):
    __slots__ = ("session_id", "task_id", "content", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task_id: str
    content: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., task_id: _Optional[str] = ..., content: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SteerSubagentResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _event_pb2.ReceiptState
    def __init__(self, state: _Optional[_Union[_event_pb2.ReceiptState, str]] = ...) -> None: ...

class RetractMessageRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RetractMessageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RespondClarifyRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "answer")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    answer: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., answer: _Optional[str] = ...) -> None: ...

class RespondClarifyResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class CompactRequest(_message.Message):
    __slots__ = ("session_id", "instructions")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    instructions: str
    def __init__(self, session_id: _Optional[str] = ..., instructions: _Optional[str] = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ...) -> None: ...

class SetThinkingLevelRequest(_message.Message):
    __slots__ = ("session_id", "level")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    level: _agent_pb2.ThinkingLevel
    def __init__(self, session_id: _Optional[str] = ..., level: _Optional[_Union[_agent_pb2.ThinkingLevel, str]] = ...) -> None: ...

class SetThinkingLevelResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: str
    def __init__(self, nonce: _Optional[str] = ...) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _event_pb2.ChatEvent
    def __init__(self, event: _Optional[_Union[_event_pb2.ChatEvent, _Mapping]] = ...) -> None: ...
