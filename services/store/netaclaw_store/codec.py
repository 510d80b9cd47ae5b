"""Rows and messages: the one place where columns become protos and back."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.agent.v1.agent_pb2 import Agent, ThinkingLevel
from netaclaw.session.v1.entry_pb2 import (
    CLARIFY_STATE_OPEN,
    Entry,
    Session,
)
from netaclaw_store.projection import project

if TYPE_CHECKING:  # the type of a repeated field has no name at run time
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

Row = Mapping[str, Any]

_MAX_SEARCH_TEXT = 32_768
_MAX_TITLE = 80
_NUL_SUBSTITUTE = "�"


@lru_cache(maxsize=256)
def timestamp(moment: datetime) -> Timestamp:
    """Exact to the microsecond, as the database keeps it. Shared: rows of one transaction have one time; copy it."""
    utc = moment.astimezone(UTC)
    return Timestamp(seconds=calendar.timegm(utc.timetuple()), nanos=utc.microsecond * 1000)


def moment(stamp: Timestamp) -> datetime:
    """Exact to the microsecond; nanoseconds are cut."""
    return datetime.fromtimestamp(stamp.seconds, UTC).replace(microsecond=stamp.nanos // 1000)


def storable(text: str) -> str:
    """Text for a text column, which cannot hold NUL."""
    return text.replace("\0", _NUL_SUBSTITUTE)


def title_from(content: str) -> str:
    """A session's title from its first message: one line of at most 80 characters."""
    line = " ".join(storable(content[: _MAX_TITLE * 8]).split())
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1].rstrip() + "…"


def session_from(row: Row) -> Session:
    """A session from the columns that `session_columns` names."""
    return Session(
        session_id=row["session_id"],
        title=row["title"],
        workspace=row["workspace"],
        agent_id=row["agent_id"],
        leaf_entry_id=row["leaf_entry_id"],
        seq=row["seq"],
        thinking_level=ThinkingLevel.Name(row["thinking_level"]),
        running_turn_id=row["running_turn_id"],
        needs_attention=row["needs_attention"],
        etag=str(row["etag_no"]),
        create_time=timestamp(row["create_time"]),
        update_time=timestamp(row["update_time"]),
        forked_from_session_id=row["forked_from_session_id"],
    )


def entry_body(entry: Entry) -> bytes:
    """What the body column keeps: the entry without what stands in columns that others may change."""
    kept = Entry()
    kept.CopyFrom(entry)
    for field in (
        *("session_id", "parent_entry_id", "label", "updated_seq", "create_time", "update_time"),
        "subagent_projection",
    ):
        kept.ClearField(field)
    return kept.SerializeToString()


def entry_from(session_id: str, row: Row) -> Entry:
    """An entry from a row, not projected."""
    entry = Entry.FromString(row["body"])
    entry.session_id = session_id
    entry.parent_entry_id = row["parent_entry_id"]
    entry.label = row["label"]
    entry.updated_seq = row["updated_seq"]
    entry.create_time.CopyFrom(timestamp(row["create_time"]))
    entry.update_time.CopyFrom(timestamp(row["update_time"]))
    return entry


def projected(entry: Entry) -> Entry:
    """The entry itself, as clients see it."""
    project(entry)
    return entry


def add_entries(
    session_id: str, rows: Iterable[Row], entries: RepeatedCompositeFieldContainer[Entry]
) -> Sequence[Entry]:
    """Append the entries of `tree_page` rows, built where they stand and not projected; answers what was appended.

    What neighbours have in common is merged in one stroke: entries of one transaction have one time.
    """
    created = updated = None
    common = b""
    added: list[Entry] = []
    for row in rows:
        _, parent_entry_id, label, updated_seq, create_time, update_time, body = row.values()
        if create_time != created or update_time != updated:
            created, updated = create_time, update_time
            merged = Entry(session_id=session_id, create_time=timestamp(created), update_time=timestamp(updated))
            common = merged.SerializeToString()
        entry = entries.add()
        entry.MergeFromString(body)
        entry.MergeFromString(common)
        entry.updated_seq = updated_seq
        if parent_entry_id:
            entry.parent_entry_id = parent_entry_id
        if label:
            entry.label = label
        added.append(entry)
    return added


def search_text(entry: Entry) -> str:
    """What a search finds an entry by."""
    body = entry.WhichOneof("body")
    text = ""
    if body == "user":
        text = entry.user.text
    elif body == "assistant":
        text = "\n".join(part.text.text for part in entry.assistant.parts if part.WhichOneof("part") == "text")
    elif body == "compaction":
        text = entry.compaction.summary
    elif body == "branch_summary":
        text = entry.branch_summary.summary
    return storable(text[:_MAX_SEARCH_TEXT])


def open_question(entry: Entry) -> bool:
    """Whether the entry waits for a person."""
    return entry.WhichOneof("body") == "clarify" and entry.clarify.state == CLARIFY_STATE_OPEN


def agent_body(agent: Agent) -> bytes:
    """What the body column keeps of an agent."""
    kept = Agent()
    kept.CopyFrom(agent)
    for field in ("agent_id", "name", "published", "etag", "create_time", "update_time"):
        kept.ClearField(field)
    return kept.SerializeToString(deterministic=True)


def agent_from(row: Row) -> Agent:
    """An agent from a row."""
    agent = Agent.FromString(row["body"])
    agent.agent_id = row["agent_id"]
    agent.name = row["name"]
    agent.published = row["published"]
    agent.etag = str(row["etag_no"])
    agent.create_time.CopyFrom(timestamp(row["create_time"]))
    agent.update_time.CopyFrom(timestamp(row["update_time"]))
    return agent
