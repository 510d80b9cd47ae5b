"""The session's one writer: order, and what a waiter that goes away leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.session.v1.subagent_pb2 import SubagentTask
from netaclaw.store.v1.journal_service_pb2 import (
    AppendRequest,
    AppendResponse,
    LeafWrite,
    SubagentEntryWrite,
    SubagentTaskWrite,
    Write,
)
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.publisher import Publisher


class Store:
    """The Append stream of a store that answers when it is let."""

    def __init__(self) -> None:
        self.requests: list[AppendRequest] = []
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()

    def Append(self) -> Any:
        return self

    async def write(self, request: AppendRequest) -> None:
        self.requests.append(request)
        self.asked.set()

    async def read(self) -> AppendResponse:
        await self.opened.wait()
        return AppendResponse(append_no=self.requests[-1].append_no)

    def cancel(self) -> None:
        return


def writer(store: Store) -> JournalWriter:
    stub: Any = store
    return JournalWriter(stub, Publisher("s", lambda seq: None), owner_id="o", session_id="s", generation=1)


def leaf(name: str) -> Write:
    return Write(leaf=LeafWrite(leaf_entry_id=name))


def task(task_id: str, activity: str) -> Write:
    return Write(subagent_task=SubagentTaskWrite(task=SubagentTask(task_id=task_id, activity=activity)))


def message(task_id: str, n: int, entry_id: str) -> Write:
    return Write(subagent_entry=SubagentEntryWrite(task_id=task_id, n=n, message=Message(entry_id=entry_id)))


@pytest.mark.parametrize("posted", [True, False])
async def test_a_waiter_that_is_cancelled_takes_nothing_back_and_stops_nothing(posted: bool) -> None:
    store = Store()
    journal = writer(store)

    async def wait() -> None:
        if posted:
            await journal.post(leaf("one"))
        else:
            await journal.append(leaf("one"))

    waiting = asyncio.create_task(wait())
    await store.asked.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    after = journal.post(leaf("two"))
    store.opened.set()
    await after

    assert [write.leaf.leaf_entry_id for each in store.requests for write in each.writes] == ["one", "two"]
    await journal.close()


async def test_of_a_row_that_is_written_again_in_one_append_the_last_version_is_sent() -> None:
    store = Store()
    journal = writer(store)
    store.opened.set()
    journal.post(task("a", "1"), leaf("x"))
    journal.post(task("b", "1"), message("a", 0, "old"), message("a", 1, "other"))
    await journal.append(task("a", "2"), message("a", 0, "new"), message("b", 0, "b's"))

    [request] = store.requests
    assert list(request.writes) == [
        leaf("x"),
        task("b", "1"),
        message("a", 1, "other"),
        task("a", "2"),
        message("a", 0, "new"),
        message("b", 0, "b's"),
    ]
    await journal.close()
