"""Large texts of entries: they rest apart, in pieces; the entry keeps a preview and the name of the whole.

In memory an entry holds whole texts, since that is what a model reads; `at_rest` is what is written and published.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry, TextPart, ThinkingPart, ToolResult
from netaclaw.session.v1.session_service_pb2 import ReadContentRequest
from netaclaw.store.v1.journal_service_pb2 import ContentWrite, Write
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.journal import translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

log = logging.getLogger(__name__)

INLINE_BYTES = 64 * 1024
"""A longer text always rests apart."""
CROWDED_BYTES = 640 * 1024
"""An entry travels in one message of at most 1 MiB: beyond this size it takes no more results but as previews."""
PREVIEWS_BYTES = 128 * 1024
"""Of all results of an entry together, where they rest apart."""
PIECE_BYTES = 256 * 1024
_READ_BYTES = 512 * 1024

Holder: TypeAlias = TextPart | ThinkingPart | ToolResult
"""What may name a content. Texts are in `text`, results in `content`."""


def set_aside(entry: Entry, settled: Collection[str] = ()) -> list[Write]:
    """Name a content for each text that is too long for the entry; answers the writes that store them.

    The texts stay whole in this entry; those that were named before are not written again. Results of the calls in
    `settled` were shown in the entry before: they stay there, since nothing would tell of the change.
    """
    writes: list[Write] = []
    for holder in _holders(entry):
        if not holder.content_id and _longer(_text(holder), INLINE_BYTES):
            writes.extend(_store(entry.entry_id, holder))
    for result in _new_results(entry, settled):
        if at_rest(entry).ByteSize() > CROWDED_BYTES and _longer(result.content, _preview_bytes(entry, result)):
            writes.extend(_store(entry.entry_id, result))
    return writes


def inline_results(entry: Entry) -> set[str]:
    """The calls whose results stand in the entry, whole."""
    calls = (part.tool_call for part in entry.assistant.parts if part.HasField("tool_call"))
    return {call.call_id for call in calls if call.HasField("result") and not call.result.content_id}


def at_rest(entry: Entry) -> Entry:
    """The entry as it is written: in the place of each text that rests apart, its first bytes."""
    written = Entry()
    written.CopyFrom(entry)
    for holder in _holders(written):
        if holder.content_id:
            raw = _text(holder).encode()
            _set_text(holder, raw[: _preview_bytes(entry, holder)].decode(errors="ignore"))
    return written


class Contents:
    """Reads texts that rest apart."""

    def __init__(self, sessions: SessionServiceAsyncStub) -> None:
        self._sessions = sessions

    async def fill(self, owner_id: str, session_id: str, entries: Iterable[Entry]) -> None:
        """Make the texts of these entries whole, in place. Raises NetaclawError when the store cannot be asked."""
        for entry in entries:
            for holder in _holders(entry):
                if holder.content_id and len(_text(holder).encode()) < holder.size_bytes:
                    try:
                        _set_text(holder, await self._read(owner_id, session_id, holder.content_id))
                    except NetaclawError as error:
                        if error.reason != Reason.REASON_CONTENT_NOT_FOUND:
                            raise
                        log.warning("content is missing: its preview stands for it", extra={"session_id": session_id})

    async def _read(self, owner_id: str, session_id: str, content_id: str) -> str:
        data = b""
        while True:
            request = ReadContentRequest(
                session_id=session_id, content_id=content_id, offset=len(data), limit_bytes=_READ_BYTES
            )
            with translated():
                response = await self._sessions.ReadContent(request, metadata=calls.outgoing(owner_id))
            data += response.chunk.data
            if len(data) >= response.chunk.size_bytes or not response.chunk.data:
                return data.decode()


def pieces(text: str, limit: int = PIECE_BYTES) -> Iterator[str]:
    """The text in runs of at most `limit` bytes of UTF-8, cut between characters."""
    raw = text.encode()
    start = 0
    while start < len(raw):
        end = min(start + limit, len(raw))
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        yield raw[start:end].decode()
        start = end


def _store(entry_id: str, holder: Holder) -> Iterator[Write]:
    text = _text(holder)
    holder.content_id = new_id()
    holder.size_bytes = len(text.encode())
    for piece in pieces(text):
        yield Write(content=ContentWrite(content_id=holder.content_id, entry_id=entry_id, text=piece))


def _new_results(entry: Entry, settled: Collection[str]) -> list[ToolResult]:
    new = inline_results(entry).difference(settled) if entry.ByteSize() > CROWDED_BYTES else set()
    return [part.tool_call.result for part in entry.assistant.parts if part.tool_call.call_id in new]


def _holders(entry: Entry) -> Iterator[Holder]:
    if entry.WhichOneof("body") != "assistant":
        return
    for part in entry.assistant.parts:
        kind = part.WhichOneof("part")
        if kind == "text":
            yield part.text
        elif kind == "thinking":
            yield part.thinking
        elif kind == "tool_call" and part.tool_call.HasField("result"):
            yield part.tool_call.result


def _text(holder: Holder) -> str:
    return holder.content if isinstance(holder, ToolResult) else holder.text


def _set_text(holder: Holder, text: str) -> None:
    if isinstance(holder, ToolResult):
        holder.content = text
    else:
        holder.text = text


def _preview_bytes(entry: Entry, holder: Holder) -> int:
    """An answer can be found by its first 32 KiB; of thoughts and results less is shown, of very many still less."""
    if isinstance(holder, TextPart):
        return 32 * 1024
    return min(2 * 1024, PREVIEWS_BYTES // max(len(entry.assistant.parts), 1))


def _longer(text: str, limit: int) -> bool:
    return len(text) > limit or (len(text) * 4 > limit and len(text.encode()) > limit)
