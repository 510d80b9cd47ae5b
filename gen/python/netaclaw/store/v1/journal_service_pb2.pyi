import datetime

from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from netaclaw.agent.v1 import agent_pb2 as _agent_pb2
from netaclaw.chat.v1 import chat_service_pb2 as _chat_service_pb2
from netaclaw.chat.v1 import event_pb2 as _event_pb2
from netaclaw.session.v1 import entry_pb2 as _entry_pb2
from netaclaw.session.v1 import session_command_service_pb2 as _session_command_service_pb2
from netaclaw.session.v1 import subagent_pb2 as _subagent_pb2
from netaclaw.session.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BeginTurnOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BEGIN_TURN_OUTCOME_UNSPECIFIED: _ClassVar[BeginTurnOutcome]
    BEGIN_TURN_OUTCOME_STARTED: _ClassVar[BeginTurnOutcome]
    BEGIN_TURN_OUTCOME_JOINED: _ClassVar[BeginTurnOutcome]
    BEGIN_TURN_OUTCOME_QUEUED: _ClassVar[BeginTurnOutcome]
    BEGIN_TURN_OUTCOME_EMPTY: _ClassVar[BeginTurnOutcome]
    BEGIN_TURN_OUTCOME_RETRACTED: _ClassVar[BeginTurnOutcome]
BEGIN_TURN_OUTCOME_UNSPECIFIED: BeginTurnOutcome
BEGIN_TURN_OUTCOME_STARTED: BeginTurnOutcome
BEGIN_TURN_OUTCOME_JOINED: BeginTurnOutcome
BEGIN_TURN_OUTCOME_QUEUED: BeginTurnOutcome
BEGIN_TURN_OUTCOME_EMPTY: BeginTurnOutcome
BEGIN_TURN_OUTCOME_RETRACTED: BeginTurnOutcome

class BeginTurnRequest(_message.Message):
    __slots__ = ("instance_id", "owner_id", "session_id", "create_session", "turn_id", "user_entry_id", "assistant_entry_id", "content", "agent_id", "agent_name", "leaf_entry_id", "request_id", "when_busy", "known_entry_id", "from_queue", "from_root")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WHEN_BUSY_FIELD_NUMBER: _ClassVar[int]
    KNOWN_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_QUEUE_FIELD_NUMBER: _ClassVar[int]
    FROM_ROOT_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    owner_id: str
    session_id: str
    create_session: bool
    turn_id: str
    user_entry_id: str
    assistant_entry_id: str
    content: str
    agent_id: str
    agent_name: str
    leaf_entry_id: str
    request_id: str
    when_busy: _chat_service_pb2.WhenBusy
    known_entry_id: str
    from_queue: bool
    from_root: bool
    def __init__(self, instance_id: _Optional[str] = ..., owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., create_session: _Optional[bool] = ..., turn_id: _Optional[str] = ..., user_entry_id: _Optional[str] = ..., assistant_entry_id: _Optional[str] = ..., content: _Optional[str] = ..., agent_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., request_id: _Optional[str] = ..., when_busy: _Optional[_Union[_chat_service_pb2.WhenBusy, str]] = ..., known_entry_id: _Optional[str] = ..., from_queue: _Optional[bool] = ..., from_root: _Optional[bool] = ...) -> None: ...

class BeginTurnResponse(_message.Message):
    __slots__ = ("outcome", "turn_id", "session", "generation", "events", "path", "path_omitted", "agent", "presets", "turn_start_seq", "request_id")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PATH_OMITTED_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PRESETS_FIELD_NUMBER: _ClassVar[int]
    TURN_START_SEQ_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    outcome: BeginTurnOutcome
    turn_id: str
    session: _entry_pb2.Session
    generation: int
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    path: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    path_omitted: bool
    agent: _agent_pb2.Agent
    presets: _containers.RepeatedCompositeFieldContainer[_agent_pb2.Agent]
    turn_start_seq: int
    request_id: str
    def __init__(self, outcome: _Optional[_Union[BeginTurnOutcome, str]] = ..., turn_id: _Optional[str] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., generation: _Optional[int] = ..., events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ..., path: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ..., path_omitted: _Optional[bool] = ..., agent: _Optional[_Union[_agent_pb2.Agent, _Mapping]] = ..., presets: _Optional[_Iterable[_Union[_agent_pb2.Agent, _Mapping]]] = ..., turn_start_seq: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class Write(_message.Message):
    __slots__ = ("entry", "leaf", "subagent_task", "subagent_entry", "event", "turn_end", "content", "queue_take", "subagent_steps", "usage")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_TASK_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_ENTRY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TURN_END_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_TAKE_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_STEPS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    entry: EntryWrite
    leaf: LeafWrite
    subagent_task: SubagentTaskWrite
    subagent_entry: SubagentEntryWrite
    event: EventWrite
    turn_end: TurnEndWrite
    content: ContentWrite
    queue_take: QueueTakeWrite
    subagent_steps: SubagentStepsWrite
    usage: UsageWrite
    def __init__(self, entry: _Optional[_Union[EntryWrite, _Mapping]] = ..., leaf: _Optional[_Union[LeafWrite, _Mapping]] = ..., subagent_task: _Optional[_Union[SubagentTaskWrite, _Mapping]] = ..., subagent_entry: _Optional[_Union[SubagentEntryWrite, _Mapping]] = ..., event: _Optional[_Union[EventWrite, _Mapping]] = ..., turn_end: _Optional[_Union[TurnEndWrite, _Mapping]] = ..., content: _Optional[_Union[ContentWrite, _Mapping]] = ..., queue_take: _Optional[_Union[QueueTakeWrite, _Mapping]] = ..., subagent_steps: _Optional[_Union[SubagentStepsWrite, _Mapping]] = ..., usage: _Optional[_Union[UsageWrite, _Mapping]] = ...) -> None: ...

class UsageWrite(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _usage_pb2.Usage
    def __init__(self, usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ...) -> None: ...

class QueueTakeWrite(_message.Message):
    __slots__ = ("request_id", "turn_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    turn_id: str
    def __init__(self, request_id: _Optional[str] = ..., turn_id: _Optional[str] = ...) -> None: ...

class EntryWrite(_message.Message):
    __slots__ = ("entry", "quiet")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    entry: _entry_pb2.Entry
    quiet: bool
    def __init__(self, entry: _Optional[_Union[_entry_pb2.Entry, _Mapping]] = ..., quiet: _Optional[bool] = ...) -> None: ...

class LeafWrite(_message.Message):
    __slots__ = ("leaf_entry_id", "expected_leaf_entry_id")
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    leaf_entry_id: str
    expected_leaf_entry_id: str
    def __init__(self, leaf_entry_id: _Optional[str] = ..., expected_leaf_entry_id: _Optional[str] = ...) -> None: ...

class SubagentTaskWrite(_message.Message):
    __slots__ = ("task", "parent_entry_id", "tool_call_id", "parent_agent_id", "batch_entry_id", "result", "evidence_summaries")
    TASK_FIELD_NUMBER: _ClassVar[int]
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_SUMMARIES_FIELD_NUMBER: _ClassVar[int]
    task: _subagent_pb2.SubagentTask
    parent_entry_id: str
    tool_call_id: str
    parent_agent_id: str
    batch_entry_id: str
    result: _subagent_pb2.SubagentFinalResult
    evidence_summaries: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.EvidenceSummary]
    def __init__(self, task: _Optional[_Union[_subagent_pb2.SubagentTask, _Mapping]] = ..., parent_entry_id: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., parent_agent_id: _Optional[str] = ..., batch_entry_id: _Optional[str] = ..., result: _Optional[_Union[_subagent_pb2.SubagentFinalResult, _Mapping]] = ..., evidence_summaries: _Optional[_Iterable[_Union[_subagent_pb2.EvidenceSummary, _Mapping]]] = ...) -> None: ...

class SubagentStepsWrite(_message.Message):
    __slots__ = ("parent_entry_id", "turn_id", "batch_entry_id", "task_id", "first_n", "process_events", "counts", "usage", "ended")
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_N_FIELD_NUMBER: _ClassVar[int]
    PROCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    parent_entry_id: str
    turn_id: str
    batch_entry_id: str
    task_id: str
    first_n: int
    process_events: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.ProcessEvent]
    counts: _subagent_pb2.SubagentCounts
    usage: _usage_pb2.Usage
    ended: bool
    def __init__(self, parent_entry_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., batch_entry_id: _Optional[str] = ..., task_id: _Optional[str] = ..., first_n: _Optional[int] = ..., process_events: _Optional[_Iterable[_Union[_subagent_pb2.ProcessEvent, _Mapping]]] = ..., counts: _Optional[_Union[_subagent_pb2.SubagentCounts, _Mapping]] = ..., usage: _Optional[_Union[_usage_pb2.Usage, _Mapping]] = ..., ended: _Optional[bool] = ...) -> None: ...

class SubagentEntryWrite(_message.Message):
    __slots__ = ("task_id", "n", "message", "is_last")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    n: int
    message: _entry_pb2.Message
    is_last: bool
    def __init__(self, task_id: _Optional[str] = ..., n: _Optional[int] = ..., message: _Optional[_Union[_entry_pb2.Message, _Mapping]] = ..., is_last: _Optional[bool] = ...) -> None: ...

class EventWrite(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _event_pb2.ChatEvent
    def __init__(self, event: _Optional[_Union[_event_pb2.ChatEvent, _Mapping]] = ...) -> None: ...

class TurnEndWrite(_message.Message):
    __slots__ = ("turn_id", "outcome")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    outcome: _event_pb2.TurnOutcome
    def __init__(self, turn_id: _Optional[str] = ..., outcome: _Optional[_Union[_event_pb2.TurnOutcome, str]] = ...) -> None: ...

class ContentWrite(_message.Message):
    __slots__ = ("content_id", "entry_id", "text")
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    content_id: str
    entry_id: str
    text: str
    def __init__(self, content_id: _Optional[str] = ..., entry_id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Draft(_message.Message):
    __slots__ = ("session_id", "generation", "entry_id", "task_id", "channel", "attempt", "text")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    generation: int
    entry_id: str
    task_id: str
    channel: _event_pb2.StreamChannel
    attempt: int
    text: str
    def __init__(self, session_id: _Optional[str] = ..., generation: _Optional[int] = ..., entry_id: _Optional[str] = ..., task_id: _Optional[str] = ..., channel: _Optional[_Union[_event_pb2.StreamChannel, str]] = ..., attempt: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("session_id", "generation", "append_no", "writes", "drafts")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    APPEND_NO_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    generation: int
    append_no: int
    writes: _containers.RepeatedCompositeFieldContainer[Write]
    drafts: _containers.RepeatedCompositeFieldContainer[Draft]
    def __init__(self, session_id: _Optional[str] = ..., generation: _Optional[int] = ..., append_no: _Optional[int] = ..., writes: _Optional[_Iterable[_Union[Write, _Mapping]]] = ..., drafts: _Optional[_Iterable[_Union[Draft, _Mapping]]] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("session_id", "append_no", "last_seq", "events", "repeated_append")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    APPEND_NO_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REPEATED_APPEND_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    append_no: int
    last_seq: int
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    repeated_append: bool
    def __init__(self, session_id: _Optional[str] = ..., append_no: _Optional[int] = ..., last_seq: _Optional[int] = ..., events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ..., repeated_append: _Optional[bool] = ...) -> None: ...

class ReadPathRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "leaf_entry_id", "known_entry_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    KNOWN_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    leaf_entry_id: str
    known_entry_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., leaf_entry_id: _Optional[str] = ..., known_entry_id: _Optional[str] = ...) -> None: ...

class ReadPathResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ...) -> None: ...

class ReadQuestionsRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "turn_id", "request_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    turn_id: str
    request_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReadQuestionsResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[_entry_pb2.Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[_entry_pb2.Entry, _Mapping]]] = ...) -> None: ...

class ReadDelegationsRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "parent_entry_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    parent_entry_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., parent_entry_id: _Optional[str] = ...) -> None: ...

class ReadDelegationsResponse(_message.Message):
    __slots__ = ("batch_entry_id", "tool_call_id", "title", "result_written", "tasks", "steer_receipts")
    BATCH_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STEER_RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    batch_entry_id: str
    tool_call_id: str
    title: str
    result_written: bool
    tasks: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.SubagentTask]
    steer_receipts: _containers.RepeatedCompositeFieldContainer[TaskReceipt]
    def __init__(self, batch_entry_id: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., title: _Optional[str] = ..., result_written: _Optional[bool] = ..., tasks: _Optional[_Iterable[_Union[_subagent_pb2.SubagentTask, _Mapping]]] = ..., steer_receipts: _Optional[_Iterable[_Union[TaskReceipt, _Mapping]]] = ...) -> None: ...

class TaskReceipt(_message.Message):
    __slots__ = ("task_id", "receipt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    receipt: _event_pb2.SteerReceipt
    def __init__(self, task_id: _Optional[str] = ..., receipt: _Optional[_Union[_event_pb2.SteerReceipt, _Mapping]] = ...) -> None: ...

class ReadEventsRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "after_seq")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    after_seq: int
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., after_seq: _Optional[int] = ...) -> None: ...

class ReadEventsResponse(_message.Message):
    __slots__ = ("events", "session", "drafts")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    session: _entry_pb2.Session
    drafts: _containers.RepeatedCompositeFieldContainer[Draft]
    def __init__(self, events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., drafts: _Optional[_Iterable[_Union[Draft, _Mapping]]] = ...) -> None: ...

class NoticesRequest(_message.Message):
    __slots__ = ("instance_id",)
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    def __init__(self, instance_id: _Optional[str] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("session_id", "owner_id", "seq", "deleted")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    owner_id: str
    seq: int
    deleted: bool
    def __init__(self, session_id: _Optional[str] = ..., owner_id: _Optional[str] = ..., seq: _Optional[int] = ..., deleted: _Optional[bool] = ...) -> None: ...

class NoticesResponse(_message.Message):
    __slots__ = ("notices",)
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("instance_id", "incarnation_id", "address", "leaving")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    incarnation_id: str
    address: str
    leaving: bool
    def __init__(self, instance_id: _Optional[str] = ..., incarnation_id: _Optional[str] = ..., address: _Optional[str] = ..., leaving: _Optional[bool] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class ClaimDueRequest(_message.Message):
    __slots__ = ("instance_id", "limit", "held")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    limit: int
    held: HeldTurns
    def __init__(self, instance_id: _Optional[str] = ..., limit: _Optional[int] = ..., held: _Optional[_Union[HeldTurns, _Mapping]] = ...) -> None: ...

class HeldTurns(_message.Message):
    __slots__ = ("turn_ids",)
    TURN_IDS_FIELD_NUMBER: _ClassVar[int]
    turn_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, turn_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ClaimedTurn(_message.Message):
    __slots__ = ("owner_id", "session", "turn_id", "generation", "takeovers", "agent", "presets", "queued")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TAKEOVERS_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PRESETS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session: _entry_pb2.Session
    turn_id: str
    generation: int
    takeovers: int
    agent: _agent_pb2.Agent
    presets: _containers.RepeatedCompositeFieldContainer[_agent_pb2.Agent]
    queued: _containers.RepeatedCompositeFieldContainer[QueuedMessage]
    def __init__(self, owner_id: _Optional[str] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., turn_id: _Optional[str] = ..., generation: _Optional[int] = ..., takeovers: _Optional[int] = ..., agent: _Optional[_Union[_agent_pb2.Agent, _Mapping]] = ..., presets: _Optional[_Iterable[_Union[_agent_pb2.Agent, _Mapping]]] = ..., queued: _Optional[_Iterable[_Union[QueuedMessage, _Mapping]]] = ...) -> None: ...

class ClaimDueResponse(_message.Message):
    __slots__ = ("turns", "waiting")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[ClaimedTurn]
    waiting: _containers.RepeatedCompositeFieldContainer[WaitingSession]
    def __init__(self, turns: _Optional[_Iterable[_Union[ClaimedTurn, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[WaitingSession, _Mapping]]] = ...) -> None: ...

class WaitingSession(_message.Message):
    __slots__ = ("owner_id", "session_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class AcquireSessionRequest(_message.Message):
    __slots__ = ("instance_id", "owner_id", "session_id")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    owner_id: str
    session_id: str
    def __init__(self, instance_id: _Optional[str] = ..., owner_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class AcquireSessionResponse(_message.Message):
    __slots__ = ("generation", "session")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    session: _entry_pb2.Session
    def __init__(self, generation: _Optional[int] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class ReleaseSessionRequest(_message.Message):
    __slots__ = ("instance_id", "session_id", "generation")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    session_id: str
    generation: int
    def __init__(self, instance_id: _Optional[str] = ..., session_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class ReleaseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("owner_id", "request")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    request: _session_command_service_pb2.CreateSessionRequest
    def __init__(self, owner_id: _Optional[str] = ..., request: _Optional[_Union[_session_command_service_pb2.CreateSessionRequest, _Mapping]] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class UpdateSessionRequest(_message.Message):
    __slots__ = ("owner_id", "session", "update_mask", "etag", "labels")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session: _entry_pb2.Session
    update_mask: _field_mask_pb2.FieldMask
    etag: str
    labels: _containers.RepeatedCompositeFieldContainer[_session_command_service_pb2.EntryLabel]
    def __init__(self, owner_id: _Optional[str] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., etag: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[_session_command_service_pb2.EntryLabel, _Mapping]]] = ...) -> None: ...

class UpdateSessionResponse(_message.Message):
    __slots__ = ("session", "events")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ...) -> None: ...

class SwitchLeafRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "generation", "leaf_entry_id", "to_root")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEAF_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_ROOT_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    generation: int
    leaf_entry_id: str
    to_root: bool
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., generation: _Optional[int] = ..., leaf_entry_id: _Optional[str] = ..., to_root: _Optional[bool] = ...) -> None: ...

class SwitchLeafResponse(_message.Message):
    __slots__ = ("session", "events")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ...) -> None: ...

class ForkSessionRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "entry_id", "new_session_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    entry_id: str
    new_session_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., entry_id: _Optional[str] = ..., new_session_id: _Optional[str] = ...) -> None: ...

class ForkSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ...) -> None: ...

class DeleteBranchRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "generation", "entry_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    generation: int
    entry_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., generation: _Optional[int] = ..., entry_id: _Optional[str] = ...) -> None: ...

class DeleteBranchResponse(_message.Message):
    __slots__ = ("session", "events", "deleted_count")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    session: _entry_pb2.Session
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    deleted_count: int
    def __init__(self, session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ..., deleted_count: _Optional[int] = ...) -> None: ...

class DeleteSessionsRequest(_message.Message):
    __slots__ = ("owner_id", "session_ids", "all")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    def __init__(self, owner_id: _Optional[str] = ..., session_ids: _Optional[_Iterable[str]] = ..., all: _Optional[bool] = ...) -> None: ...

class DeleteSessionsResponse(_message.Message):
    __slots__ = ("deleted_session_ids",)
    DELETED_SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    deleted_session_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, deleted_session_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RetractMessageRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "request_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    request_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RetractMessageResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.ChatEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[_event_pb2.ChatEvent, _Mapping]]] = ...) -> None: ...

class QueuedMessage(_message.Message):
    __slots__ = ("request_id", "when_busy", "content")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WHEN_BUSY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    when_busy: _chat_service_pb2.WhenBusy
    content: str
    def __init__(self, request_id: _Optional[str] = ..., when_busy: _Optional[_Union[_chat_service_pb2.WhenBusy, str]] = ..., content: _Optional[str] = ...) -> None: ...

class GetOwnerRequest(_message.Message):
    __slots__ = ("owner_id", "session_id", "instance_id")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    owner_id: str
    session_id: str
    instance_id: str
    def __init__(self, owner_id: _Optional[str] = ..., session_id: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class GetOwnerResponse(_message.Message):
    __slots__ = ("instance_id", "address", "expire_time", "session", "open_tasks", "other_addresses")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_TASKS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    address: str
    expire_time: _timestamp_pb2.Timestamp
    session: _entry_pb2.Session
    open_tasks: _containers.RepeatedCompositeFieldContainer[_subagent_pb2.SubagentTask]
    other_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, instance_id: _Optional[str] = ..., address: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[_Union[_entry_pb2.Session, _Mapping]] = ..., open_tasks: _Optional[_Iterable[_Union[_subagent_pb2.SubagentTask, _Mapping]]] = ..., other_addresses: _Optional[_Iterable[str]] = ...) -> None: ...
