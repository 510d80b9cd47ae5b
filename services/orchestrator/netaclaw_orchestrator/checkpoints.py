"""Text of running answers, written down in short intervals, so that a crash loses at most half a second of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import grpc

from netaclaw.chat.v1.event_pb2 import StreamChannel
from netaclaw.store.v1.journal_service_pb2 import AppendRequest, AppendResponse, Draft
from netaclaw_orchestrator.background import Background

if TYPE_CHECKING:  # the stubs' async faces and the sessions exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub
    from netaclaw_orchestrator.live_session import LiveSession

log = logging.getLogger(__name__)

INTERVAL_S = 0.3
MAX_DRAFT_BYTES = 256 * 1024
"""Of a longer text the beginning is kept; the answer itself is whole once it is finished."""
MAX_REQUEST_BYTES = 768 * 1024

DraftCall = grpc.aio.StreamStreamCall[AppendRequest, AppendResponse]


class Checkpoints(Background):
    """Writes drafts of all owned sessions together, not waiting for the disk; a lost one is replaced by the next."""

    def __init__(self, journal: JournalServiceAsyncStub, owned: Callable[[], Iterable[LiveSession]]) -> None:
        self._journal = journal
        self._owned = owned
        self._call: DraftCall | None = None

    async def close(self) -> None:
        await super().close()
        if self._call is not None:
            self._call.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)  # the tick itself
            for drafts in _requests(_drafts(self._owned())):
                await self._write(AppendRequest(drafts=drafts))

    async def _write(self, request: AppendRequest) -> None:
        try:
            if self._call is None or self._call.done():
                self._call = self._journal.Append()
            await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            log.info("drafts not written")
            self._call = None


def _drafts(owned: Iterable[LiveSession]) -> Iterator[Draft]:
    for live in owned:
        for (entry_id, task_id), state in live.publisher.dirty_streams():
            for channel, text in (
                (StreamChannel.STREAM_CHANNEL_TEXT, state.text),
                (StreamChannel.STREAM_CHANNEL_THINKING, state.thinking),
            ):
                if text:
                    yield Draft(
                        session_id=live.session_id,
                        generation=live.writer.generation,
                        entry_id=entry_id,
                        task_id=task_id,
                        channel=channel,
                        attempt=state.attempt,
                        text="".join(text).encode()[:MAX_DRAFT_BYTES].decode(errors="ignore"),
                    )


def _requests(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """Drafts in groups that fit into one message each."""
    group: list[Draft] = []
    size = 0
    for draft in drafts:
        if group and size + draft.ByteSize() > MAX_REQUEST_BYTES:
            yield group
            group, size = [], 0
        group.append(draft)
        size += draft.ByteSize()
    if group:
        yield group
