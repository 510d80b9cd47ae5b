"""Events of a delegated turn, as the suite sends them, for tests of the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netaclaw.chat.v1 import event_pb2 as chat
from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1 import entry_pb2 as entries
from netaclaw.session.v1 import subagent_pb2 as subagent
from netaclaw.session.v1.entry_pb2 import Entry

SESSION = "s"
TURN = "t"
USER, ANCHOR, BATCH, RESULT = "e1-user", "e2-anchor", "e3-batch", "e4-result"
CALL = "c1"
TASKS = ("k1", "k2")

QUEUED = subagent.SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED
RUNNING = subagent.SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING
COMPLETED = subagent.SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED


def event(seq: int, *, entry_id: str = "", task_id: str = "", **kind: Any) -> ChatEvent:
    """One event; durable when seq is not 0, at second `seq`."""
    made = ChatEvent(seq=seq, session_id=SESSION, turn_id=TURN, entry_id=entry_id, task_id=task_id, **kind)
    made.time.seconds = seq
    return made


def entry(entry_id: str, seq: int, **body: Any) -> Entry:
    """An entry as event `seq` carries it."""
    made = Entry(entry_id=entry_id, session_id=SESSION, turn_id=TURN, updated_seq=seq, **body)
    made.update_time.seconds = seq
    return made


def user(seq: int) -> Entry:
    return entry(
        USER,
        seq,
        kind=entries.ENTRY_KIND_USER,
        state=entries.ENTRY_STATE_COMPLETE,
        user=entries.UserBody(text="count them"),
    )


def anchor(
    seq: int, *parts: entries.Part, state: entries.EntryState = entries.EntryState.ENTRY_STATE_STREAMING
) -> Entry:
    return entry(
        ANCHOR,
        seq,
        parent_entry_id=USER,
        kind=entries.ENTRY_KIND_ASSISTANT,
        state=state,
        assistant=entries.AssistantBody(parts=parts, attempt=1),
    )


def text(words: str) -> entries.Part:
    return entries.Part(text=entries.TextPart(text=words))


def call(state: entries.ToolCallState, result: str = "") -> entries.ToolCallPart:
    part = entries.ToolCallPart(call_id=CALL, tool_name="delegate_parallel", state=state)
    if result:
        part.result.content = result
    return part


def batch(*states: subagent.SubagentTaskState) -> subagent.SubagentBatch:
    return subagent.SubagentBatch(
        parent_entry_id=ANCHOR,
        batch_entry_id=BATCH,
        tool_call_id=CALL,
        items=[
            subagent.SubagentTask(task_id=task_id, name=task_id, state=state, sort_order=n)
            for n, (task_id, state) in enumerate(zip(TASKS, states, strict=True))
        ],
        counts=counts(states),
    )


def counts(states: Sequence[subagent.SubagentTaskState]) -> subagent.SubagentCounts:
    return subagent.SubagentCounts(
        total=len(states),
        queued=states.count(QUEUED),
        running=states.count(RUNNING),
        completed=states.count(COMPLETED),
    )


def batch_entry(seq: int, *states: subagent.SubagentTaskState, steps: Sequence[str] = ()) -> Entry:
    """The batch entry; its projection names the states it was made from."""
    events = [step(words) for words in steps]
    body = subagent.SubagentBatchBody(batch=batch(*states), events=events)
    if events:
        body.latest_event.CopyFrom(events[-1])
    return entry(
        BATCH,
        seq,
        parent_entry_id=ANCHOR,
        tool_call_id=CALL,
        kind=entries.ENTRY_KIND_SUBAGENT_BATCH,
        state=entries.ENTRY_STATE_COMPLETE if set(states) == {COMPLETED} else entries.ENTRY_STATE_STREAMING,
        subagent_batch=body,
        subagent_projection=subagent.SubagentProjection(diagnostics=[str(state) for state in states]),
    )


def result_entry(seq: int) -> Entry:
    return entry(
        RESULT,
        seq,
        parent_entry_id=ANCHOR,
        tool_call_id=CALL,
        kind=entries.ENTRY_KIND_SUBAGENT_RESULT,
        state=entries.ENTRY_STATE_COMPLETE,
        subagent_result=subagent.SubagentResultBody(batch_entry_id=BATCH, batch=batch(COMPLETED, COMPLETED)),
    )


def step(words: str, task_id: str = TASKS[0]) -> subagent.ProcessEvent:
    return subagent.ProcessEvent(task_id=task_id, type="tool_result", content=words)


def task_event(seq: int, n: int, *states: subagent.SubagentTaskState, words: str = "") -> ChatEvent:
    """Task n's change; `states` are those of all tasks after it."""
    change = chat.SubagentEvent(batch_entry_id=BATCH, item=batch(*states).items[n], counts=counts(states))
    change.usage.input_tokens = seq
    if words:
        change.process_event.CopyFrom(step(words, TASKS[n]))
    return event(seq, entry_id=ANCHOR, task_id=TASKS[n], subagent_event=change)


def added(seq: int, which: Entry) -> ChatEvent:
    return event(seq, entry_id=which.entry_id, session_entry_added=chat.SessionEntryAdded(entry=which))


def updated(seq: int, which: Entry) -> ChatEvent:
    return event(seq, entry_id=which.entry_id, session_entry_updated=chat.SessionEntryUpdated(entry=which))


def leaf(seq: int, entry_id: str) -> ChatEvent:
    return event(seq, session_leaf_changed=chat.SessionLeafChanged(leaf_entry_id=entry_id))


def started(attempt: int = 1, words: str = "", *, entry_id: str = ANCHOR, task_id: str = "") -> ChatEvent:
    start = chat.AssistantStreamStart(attempt=attempt, text=words)
    return event(0, entry_id=entry_id, task_id=task_id, assistant_stream_start=start)


def delta(
    offset: int,
    words: str,
    attempt: int = 1,
    *,
    channel: chat.StreamChannel = chat.StreamChannel.STREAM_CHANNEL_TEXT,
    task_id: str = "",
) -> ChatEvent:
    change = chat.AssistantStreamDelta(channel=channel, attempt=attempt, offset=offset, text=words)
    return event(0, entry_id=ANCHOR, task_id=task_id, assistant_stream_delta=change)


def done(seq: int) -> ChatEvent:
    end = chat.Done(outcome=chat.TURN_OUTCOME_COMPLETED, assistant_entry_id=ANCHOR)
    return event(seq, entry_id=ANCHOR, done=end)


def whole_turn() -> list[ChatEvent]:
    """The durable events of a turn that delegates two tasks, from 1."""
    running = entries.ToolCallState.TOOL_CALL_STATE_RUNNING
    complete = entries.ToolCallState.TOOL_CALL_STATE_COMPLETED
    pending = entries.Part(tool_call=call(entries.ToolCallState.TOOL_CALL_STATE_PENDING))
    ended = call(complete, "both counted")
    return [
        added(1, user(1)),
        added(2, anchor(2)),
        leaf(3, ANCHOR),
        updated(4, anchor(4, text("I ask two. "), pending)),
        event(5, entry_id=ANCHOR, tool_call_started=chat.ToolCallStarted(call=call(running))),
        added(6, batch_entry(6, QUEUED, QUEUED)),
        event(7, entry_id=ANCHOR, subagent_run_started=chat.SubagentRunStarted(batch=batch(QUEUED, QUEUED))),
        task_event(8, 0, RUNNING, QUEUED, words="one"),
        task_event(9, 1, RUNNING, RUNNING),
        task_event(10, 0, COMPLETED, RUNNING, words="two"),
        task_event(11, 1, COMPLETED, COMPLETED, words="three"),
        updated(12, batch_entry(12, COMPLETED, COMPLETED, steps=("one", "two", "three"))),
        added(13, result_entry(13)),
        event(
            14,
            entry_id=ANCHOR,
            subagent_run_completed=chat.SubagentRunCompleted(batch=batch(COMPLETED, COMPLETED), result_entry_id=RESULT),
        ),
        event(15, entry_id=ANCHOR, tool_call_completed=chat.ToolCallCompleted(call=ended)),
        updated(
            16,
            anchor(
                16,
                text("I ask two. "),
                entries.Part(tool_call=ended),
                text("Both counted."),
                state=entries.EntryState.ENTRY_STATE_COMPLETE,
            ),
        ),
        done(17),
    ]
