"""The client's side of the contract: one session as a client sees it, built from its tree or from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from netaclaw.chat.v1.event_pb2 import ChatEvent, SubagentEvent, TokenUpdate
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, EntryState, Part, Session, ToolCallPart, ToolCallState
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse
from netaclaw.session.v1.subagent_pb2 import SubagentBatch, SubagentBatchBody, SubagentTaskState
from netaclaw_client.drafts import Draft, ToolOutput

MAX_BATCH_EVENTS = 200
"""A batch entry keeps this many process events; the oldest are dropped."""

_RUNNING_TASK_STATES = frozenset(
    {SubagentTaskState.SUBAGENT_TASK_STATE_QUEUED, SubagentTaskState.SUBAGENT_TASK_STATE_RUNNING}
)
_RUNNING_CALL_STATES = frozenset({ToolCallState.TOOL_CALL_STATE_PENDING, ToolCallState.TOOL_CALL_STATE_RUNNING})


class Gap(Exception):
    """A durable event came too early: watch again from `last`."""

    def __init__(self, last: int, seq: int) -> None:
        super().__init__(f"event {seq} does not follow event {last}")
        self.last = last
        self.seq = seq


@dataclass(slots=True)
class SessionView:
    """One session as a client sees it.

    Durable events are applied in order, exactly once; what an entry already includes (its updated_seq) is not applied
    to it again, so a replay over current rows changes nothing. `subagent_projection` is computed by the store alone:
    while a batch runs, an entry keeps the projection that it last arrived with.
    """

    session_id: str = ""
    seq: int = 0
    """Of the last durable event that is included."""
    leaf_entry_id: str = ""
    session: Session = field(default_factory=Session)
    entries: dict[str, Entry] = field(default_factory=dict)
    """By id, in the order in which they came."""
    drafts: dict[tuple[str, str], Draft] = field(default_factory=dict)
    """What is being written, by (entry_id, task_id)."""
    tool_outputs: dict[str, ToolOutput] = field(default_factory=dict)
    """Output of running tools, by call_id."""
    tokens: TokenUpdate = field(default_factory=TokenUpdate)
    """The last live report of the running turn."""
    turn_end: ChatEvent | None = None
    """The last `done` or `error` event."""

    @classmethod
    def from_tree(cls, pages: Iterable[GetSessionTreeResponse]) -> Self:
        """The session as its tree stands; events after the first page's seq may be applied to it."""
        view = cls()
        for n, page in enumerate(pages):
            if n == 0:
                view.session.CopyFrom(page.session)
                view.session_id = page.session.session_id
                view.seq = page.session.seq
                view.leaf_entry_id = page.session.leaf_entry_id
            for entry in page.entries:
                view.entries[entry.entry_id] = _copy(entry)
        return view

    def apply(self, event: ChatEvent) -> bool:
        """Take one event; True when it was new.

        Durable events at or before `seq` are ignored. Raises Gap, unchanged, for one that leaves a hole.
        """
        if event.seq:
            if event.seq <= self.seq:
                return False
            if event.seq != self.seq + 1:
                raise Gap(self.seq, event.seq)
            self.seq = event.seq
        self.session_id = self.session_id or event.session_id
        kind = event.WhichOneof("event")
        change = _CHANGES.get(kind) if kind else None  # kinds of a later version count, and change nothing
        if change is not None:
            change(self, event)
        return True

    def batches(self) -> Iterator[Entry]:
        """Delegations as cards show them: the result entry where there is one, else the batch entry, in order."""
        results = {e.subagent_result.batch_entry_id: e for e in self._of(EntryKind.ENTRY_KIND_SUBAGENT_RESULT)}
        for entry in self._of(EntryKind.ENTRY_KIND_SUBAGENT_BATCH):
            yield results.get(entry.entry_id, entry)

    def text_of(self, entry_id: str) -> str:
        """Text of an assistant entry as it stands: the stored parts, else what is being written.

        Of a part above 64 KiB the stored entry has the first bytes; `read_content` has the whole.
        """
        entry = self.entries.get(entry_id)
        stored = "".join(p.text.text for p in entry.assistant.parts if p.HasField("text")) if entry is not None else ""
        draft = self.drafts.get((entry_id, ""))
        return draft.text if draft is not None and draft.started else stored

    def _of(self, kind: EntryKind) -> Iterator[Entry]:
        return (entry for entry in self.entries.values() if entry.kind == kind)

    def _put(self, event: ChatEvent, arrived: Entry) -> None:
        """Replace an entry, unless what is here is newer."""
        known = self.entries.get(arrived.entry_id)
        if known is not None and known.updated_seq > max(arrived.updated_seq, event.seq):
            return
        entry = _copy(arrived)
        if entry.updated_seq < event.seq:
            _stamp(entry, event)
        self.entries[entry.entry_id] = entry
        if entry.state != EntryState.ENTRY_STATE_STREAMING:
            self.drafts.pop((entry.entry_id, ""), None)

    def _outdated(self, entry_id: str, event: ChatEvent) -> Entry | None:
        """The entry that a durable event changes, stamped; None when it includes the event, or is not here."""
        entry = self.entries.get(entry_id)
        if entry is None or entry.updated_seq >= event.seq:
            return None
        _stamp(entry, event)
        return entry


def _stamp(entry: Entry, event: ChatEvent) -> None:
    entry.updated_seq = event.seq
    entry.update_time.CopyFrom(event.time)


def _copy(entry: Entry) -> Entry:
    """Events belong to whoever received them; the view changes its own copies."""
    copy = Entry()
    copy.CopyFrom(entry)
    return copy


def _entry_added(view: SessionView, event: ChatEvent) -> None:
    view._put(event, event.session_entry_added.entry)


def _entry_updated(view: SessionView, event: ChatEvent) -> None:
    view._put(event, event.session_entry_updated.entry)


def _entry_removed(view: SessionView, event: ChatEvent) -> None:
    entry_id = event.session_entry_removed.entry_id
    view.entries.pop(entry_id, None)
    for key in [key for key in view.drafts if key[0] == entry_id]:
        del view.drafts[key]


def _leaf_changed(view: SessionView, event: ChatEvent) -> None:
    view.leaf_entry_id = event.session_leaf_changed.leaf_entry_id


def _session_updated(view: SessionView, event: ChatEvent) -> None:
    view.session.CopyFrom(event.session_updated.session)


def _clarify_request(view: SessionView, event: ChatEvent) -> None:
    view._put(event, event.clarify_request.entry)


def _clarify_resolved(view: SessionView, event: ChatEvent) -> None:
    view._put(event, event.clarify_resolved.entry)


def _tool_call_started(view: SessionView, event: ChatEvent) -> None:
    _replace_call(view, event, event.tool_call_started.call)


def _tool_call_completed(view: SessionView, event: ChatEvent) -> None:
    call = event.tool_call_completed.call
    view.tool_outputs.pop(call.call_id, None)
    _replace_call(view, event, call)


def _replace_call(view: SessionView, event: ChatEvent, call: ToolCallPart) -> None:
    if event.task_id:
        return  # a child's calls are no parts of the anchor
    entry = view._outdated(event.entry_id, event)
    if entry is None:
        return
    for part in entry.assistant.parts:
        if part.HasField("tool_call") and part.tool_call.call_id == call.call_id:
            part.tool_call.CopyFrom(call)
            return
    entry.assistant.parts.append(Part(tool_call=call))


def _subagent_run_started(view: SessionView, event: ChatEvent) -> None:
    _replace_batch(view, event, event.subagent_run_started.batch)


def _subagent_run_completed(view: SessionView, event: ChatEvent) -> None:
    _replace_batch(view, event, event.subagent_run_completed.batch)


def _replace_batch(view: SessionView, event: ChatEvent, batch: SubagentBatch) -> None:
    _drop_ended(view, batch)
    entry = view._outdated(batch.batch_entry_id, event)
    if entry is not None:
        entry.subagent_batch.batch.CopyFrom(batch)


def _subagent_event(view: SessionView, event: ChatEvent) -> None:
    change = event.subagent_event
    _drop_ended(view, SubagentBatch(items=[change.item]))
    entry = view._outdated(change.batch_entry_id, event)
    if entry is None:
        return
    body = entry.subagent_batch
    for item in body.batch.items:
        if item.task_id == change.item.task_id:
            item.CopyFrom(change.item)
    body.batch.counts.CopyFrom(change.counts)
    body.batch.usage.CopyFrom(change.usage)
    if change.HasField("process_event"):
        body.events.append(change.process_event)
        del body.events[:-MAX_BATCH_EVENTS]
        body.latest_event.CopyFrom(change.process_event)
        body.process_event_count += 1
    if change.HasField("result"):
        _add_result(body, change)


def _add_result(body: SubagentBatchBody, change: SubagentEvent) -> None:
    """A task ended: its result and evidence take their places in task order."""
    order = {item.task_id: place for place, item in enumerate(body.batch.items)}
    body.final_results.append(change.result)
    body.final_results.sort(key=lambda final: order.get(final.task.task_id, len(order)))
    body.evidence_summaries.extend(change.evidence_summaries)
    body.evidence_summaries.sort(key=lambda fact: order.get(fact.task_id, len(order)))


def _drop_ended(view: SessionView, batch: SubagentBatch) -> None:
    ended = {item.task_id for item in batch.items if item.state not in _RUNNING_TASK_STATES}
    for key in [key for key in view.drafts if key[1] in ended]:
        del view.drafts[key]


def _stream_start(view: SessionView, event: ChatEvent) -> None:
    view.drafts.setdefault((event.entry_id, event.task_id), Draft()).start(event.assistant_stream_start)


def _stream_delta(view: SessionView, event: ChatEvent) -> None:
    draft = view.drafts.get((event.entry_id, event.task_id))
    if draft is not None:
        draft.add(event.assistant_stream_delta)


def _tool_result_streamed(view: SessionView, event: ChatEvent) -> None:
    change = event.tool_result_streamed
    view.tool_outputs.setdefault(change.call_id, ToolOutput()).add(change)


def _process_event(view: SessionView, event: ChatEvent) -> None:
    """A part keeps its last one; it is stored with the call's result, so this is for showing only."""
    entry = view.entries.get(event.entry_id)
    change = event.process_event.process_event
    for part in entry.assistant.parts if entry is not None and not event.task_id else ():
        call = part.tool_call
        if part.HasField("tool_call") and call.call_id == change.call_id and call.state in _RUNNING_CALL_STATES:
            call.last_process_event.CopyFrom(change)


def _token_update(view: SessionView, event: ChatEvent) -> None:
    view.tokens.CopyFrom(event.token_update)


def _turn_ended(view: SessionView, event: ChatEvent) -> None:
    view.turn_end = ChatEvent()
    view.turn_end.CopyFrom(event)
    view.drafts.clear()
    view.tool_outputs.clear()


_CHANGES: Mapping[str, Callable[[SessionView, ChatEvent], None]] = {
    "session_entry_added": _entry_added,
    "session_entry_updated": _entry_updated,
    "session_entry_removed": _entry_removed,
    "session_leaf_changed": _leaf_changed,
    "session_updated": _session_updated,
    "clarify_request": _clarify_request,
    "clarify_resolved": _clarify_resolved,
    "tool_call_started": _tool_call_started,
    "tool_call_completed": _tool_call_completed,
    "subagent_run_started": _subagent_run_started,
    "subagent_event": _subagent_event,
    "subagent_run_completed": _subagent_run_completed,
    "assistant_stream_start": _stream_start,
    "assistant_stream_delta": _stream_delta,
    "tool_result_streamed": _tool_result_streamed,
    "process_event": _process_event,
    "token_update": _token_update,
    "done": _turn_ended,
    "error": _turn_ended,
}
