"""Delegations rest in rows: what entries show of them is bounded, and the whole is read in pages."""

from __future__ import annotations

from typing import Any

import pytest

from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from netaclaw_store.pages import MAX_RESPONSE_BYTES
from tests.integration.store.driver import OWNER, Store, Turn, entry_write, metadata, refused

LONG = "x" * 1000


async def delegate(turn: Turn, count: int, context: str = "") -> tuple[str, list[s.SubagentTask]]:
    """A batch of queued tasks: its id and they."""
    tasks = [
        s.SubagentTask(
            task_id=new_id(),
            name=f"t{n}",
            sort_order=n,
            state=s.SUBAGENT_TASK_STATE_QUEUED,
            goal=f"goal {n}",
            context=context,
        )
        for n in range(count)
    ]
    batch_id = new_id()
    entry = e.Entry(
        entry_id=batch_id,
        parent_entry_id=turn.anchor_id,
        turn_id=turn.begun.turn_id,
        kind=e.ENTRY_KIND_SUBAGENT_BATCH,
        state=e.ENTRY_STATE_STREAMING,
        subagent_batch=s.SubagentBatchBody(batch=s.SubagentBatch(batch_entry_id=batch_id, title="a batch")),
    )
    await turn.append(entry_write(entry))
    for start in range(0, count, 20):
        await turn.append(*(row(turn, batch_id, task) for task in tasks[start : start + 20]))
    return batch_id, tasks


def row(turn: Turn, batch_id: str, task: s.SubagentTask, **more: object) -> j.Write:
    return j.Write(
        subagent_task=j.SubagentTaskWrite(
            task=task,
            parent_entry_id=turn.anchor_id,
            batch_entry_id=batch_id,
            **more,  # type: ignore[arg-type]  # fields of the message
        )
    )


def steps(turn: Turn, batch_id: str, task_id: str, first: int, count: int, **more: object) -> list[j.Write]:
    return [
        j.Write(
            subagent_steps=j.SubagentStepsWrite(
                parent_entry_id=turn.anchor_id,
                turn_id=turn.begun.turn_id,
                batch_entry_id=batch_id,
                task_id=task_id,
                first_n=n,
                process_events=[
                    s.ProcessEvent(task_id=task_id, type="tool_call", call_id=f"c{each}", content=LONG)
                    for each in range(n, min(n + 100, first + count))
                ],
                **more,  # type: ignore[arg-type]  # fields of the message
            )
        )
        for n in range(first, first + count, 100)
    ]


async def finish(turn: Turn, batch_id: str, tasks: list[s.SubagentTask], output: str) -> str:
    """End all tasks and write the result entry; its id."""
    for task in tasks:
        task.state = s.SUBAGENT_TASK_STATE_COMPLETED
        task.summary = output
        task.usage.CopyFrom(Usage(input_tokens=2, model_calls=1))
        result = s.SubagentFinalResult(final_output=output, duration_ms=5)
        facts = [s.EvidenceSummary(task_id=task.task_id, kind="command", title="exit code 0")]
        await turn.append(row(turn, batch_id, task, result=result, evidence_summaries=facts))
    entry = e.Entry(
        entry_id=new_id(),
        parent_entry_id=turn.anchor_id,
        turn_id=turn.begun.turn_id,
        kind=e.ENTRY_KIND_SUBAGENT_RESULT,
        state=e.ENTRY_STATE_COMPLETE,
        subagent_result=s.SubagentResultBody(batch_entry_id=batch_id),
    )
    await turn.append(entry_write(entry))
    return entry.entry_id


async def tree(store: Store, session_id: str) -> list[p.GetSessionTreeResponse]:
    request = p.GetSessionTreeRequest(session_id=session_id, page_size=1000)
    pages = []
    while True:
        pages.append(await store.sessions.GetSessionTree(request, metadata=metadata()))
        if not pages[-1].next_page_token:
            return pages
        request.page_token = pages[-1].next_page_token


async def test_ten_thousand_process_events_are_read_in_pages_below_the_limit(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, tasks = await delegate(turn, 2)
    for first in range(0, 10_000, 400):
        await turn.append(*steps(turn, batch_id, tasks[first // 400 % 2].task_id, first, 400))
    result_id = await finish(turn, batch_id, tasks, "all of it")

    pages = await tree(store, turn.session_id)
    assert all(page.ByteSize() <= MAX_RESPONSE_BYTES for page in pages)
    [result] = [entry for page in pages for entry in page.entries if entry.entry_id == result_id]
    shown = result.subagent_result
    assert (len(shown.process_events), shown.process_event_count) == (200, 10_000)
    assert [event.call_id for event in shown.process_events] == [f"c{n}" for n in range(9_800, 10_000)]

    found: list[str] = []
    request = p.ListProcessEventsRequest(session_id=turn.session_id, batch_entry_id=batch_id, page_size=1000)
    while True:
        page = await store.sessions.ListProcessEvents(request, metadata=metadata())
        assert page.ByteSize() <= MAX_RESPONSE_BYTES
        found += [event.call_id for event in page.process_events]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert found == [f"c{n}" for n in range(10_000)]

    only = p.ListProcessEventsRequest(
        session_id=turn.session_id, batch_entry_id=batch_id, task_id=tasks[1].task_id, page_size=3
    )
    page = await store.sessions.ListProcessEvents(only, metadata=metadata())
    assert [event.call_id for event in page.process_events] == ["c400", "c401", "c402"]


@pytest.mark.parametrize("count", [1, 8, 100])
async def test_entries_of_a_large_batch_fit_a_message_and_the_whole_is_read_by_task(store: Store, count: int) -> None:
    turn = await store.new_turn()
    batch_id, tasks = await delegate(turn, count, context="c" * 20_000)
    await turn.append(*steps(turn, batch_id, tasks[0].task_id, 0, 300))
    output = "é" * 40_000
    await finish(turn, batch_id, tasks, output)
    pages = await tree(store, turn.session_id)
    assert all(page.ByteSize() <= MAX_RESPONSE_BYTES for page in pages)
    entries = {entry.kind: entry for page in pages for entry in page.entries}
    result = entries[e.ENTRY_KIND_SUBAGENT_RESULT]
    assert len(result.subagent_result.final_results) == len(result.subagent_projection.task_panels) == count
    assert result.subagent_result.batch.counts.completed == count
    assert result.subagent_result.batch.usage == Usage(input_tokens=2 * count, model_calls=count)
    final = result.subagent_result.final_results[-1]
    assert final.shortened
    assert output.startswith(final.final_output.rstrip("…"))
    request = p.GetSubagentResultRequest(session_id=turn.session_id, task_id=tasks[-1].task_id)
    whole = await store.sessions.GetSubagentResult(request, metadata=metadata())
    assert (whole.result.final_output, whole.task.context) == (output, "c" * 20_000)
    assert [fact.title for fact in whole.evidence_summaries] == ["exit code 0"]


async def test_delegations_of_an_entry_are_read_whole_and_without_the_rest_of_the_tree(store: Store) -> None:
    turn = await store.new_turn()
    large, many = await delegate(turn, 12, "x" * 60_000)
    other, (task,) = await delegate(turn, 1)
    for batch_id, call_id, of in ((large, "c1", many), (other, "c2", [task])):
        for each in of:
            await turn.append(row(turn, batch_id, each, tool_call_id=call_id))
    result = e.Entry(
        entry_id=new_id(),
        parent_entry_id=turn.anchor_id,
        tool_call_id="c2",
        kind=e.ENTRY_KIND_SUBAGENT_RESULT,
        state=e.ENTRY_STATE_COMPLETE,
        subagent_result=s.SubagentResultBody(batch_entry_id=other),
    )
    await turn.append(entry_write(result))
    told = [many[3].task_id, task.task_id, many[3].task_id]
    for task_id in told:
        event = v.ChatEvent(entry_id=turn.anchor_id, task_id=task_id, steer_receipt=v.SteerReceipt(request_id="r"))
        await turn.append(j.Write(event=j.EventWrite(event=event)))

    request = j.ReadDelegationsRequest(owner_id=OWNER, session_id=turn.session_id, parent_entry_id=turn.anchor_id)
    pages = [page async for page in store.journal.ReadDelegations(request)]
    heads = [(page.batch_entry_id, page.tool_call_id, page.title, page.result_written) for page in pages]
    assert heads == [(large, "c1", "a batch", False)] * 2 + [(other, "c2", "a batch", True)]
    assert [task for page in pages[:2] for task in page.tasks] == many
    assert list(pages[2].tasks) == [task]
    receipts = [[each.task_id for each in page.steer_receipts] for page in pages]
    assert sorted(receipts, key=len) == [[], [task.task_id], [many[3].task_id] * 2]
    assert pages[2].steer_receipts[0].receipt == v.SteerReceipt(request_id="r")
    assert all(page.ByteSize() <= 512 * 1024 + 1024 for page in pages)
    request.parent_entry_id = new_id()
    assert [page async for page in store.journal.ReadDelegations(request)] == []
    request.owner_id = "bob"
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await anext(aiter(store.journal.ReadDelegations(request)), None)


async def test_a_task_that_has_not_ended_has_a_state_and_no_result(store: Store) -> None:
    turn = await store.new_turn()
    _, tasks = await delegate(turn, 1)
    request = p.GetSubagentResultRequest(session_id=turn.session_id, task_id=tasks[0].task_id)
    found = await store.sessions.GetSubagentResult(request, metadata=metadata())
    assert (found.task.state, found.HasField("result")) == (s.SUBAGENT_TASK_STATE_QUEUED, False)


async def test_nothing_of_a_delegation_is_read_by_another_owner(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, tasks = await delegate(turn, 1)
    bob = metadata("bob")
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        request = p.GetSubagentResultRequest(session_id=turn.session_id, task_id=tasks[0].task_id)
        await store.sessions.GetSubagentResult(request, metadata=bob)
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        listing = p.ListProcessEventsRequest(session_id=turn.session_id, batch_entry_id=batch_id)
        await store.sessions.ListProcessEvents(listing, metadata=bob)
    other = await store.new_turn()
    async with refused(Reason.REASON_TASK_NOT_FOUND):
        elsewhere = p.GetSubagentResultRequest(session_id=other.session_id, task_id=tasks[0].task_id)
        await store.sessions.GetSubagentResult(elsewhere, metadata=metadata())
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        missing = p.ListProcessEventsRequest(session_id=other.session_id, batch_entry_id=batch_id)
        await store.sessions.ListProcessEvents(missing, metadata=metadata())


async def test_a_transcript_that_is_written_anew_loses_what_stood_behind(store: Store) -> None:
    turn = await store.new_turn()
    _, [task] = await delegate(turn, 1)

    def message(n: int, text: str, *, is_last: bool = False) -> j.Write:
        parts = [e.Part(text=e.TextPart(text=text))]
        written = j.SubagentEntryWrite(task_id=task.task_id, n=n, message=e.Message(parts=parts), is_last=is_last)
        return j.Write(subagent_entry=written)

    await turn.append(*(message(n, f"first {n}") for n in range(4)))
    await turn.append(message(0, "again 0", is_last=True))
    await turn.append(message(1, "again 1"))
    request = p.ListSubagentEntriesRequest(session_id=turn.session_id, task_id=task.task_id)
    listed = await store.sessions.ListSubagentEntries(request, metadata=metadata())
    assert [entry.message.parts[0].text.text for entry in listed.entries] == ["again 0", "again 1"]

    await turn.append(
        message(2, "lost"), message(0, "third 0", is_last=True), message(1, "third 1"), message(2, "third 2")
    )
    listed = await store.sessions.ListSubagentEntries(request, metadata=metadata())
    assert [entry.message.parts[0].text.text for entry in listed.entries] == ["third 0", "third 1", "third 2"]


async def test_steps_of_one_write_are_events_of_their_own_and_the_last_one_has_the_result(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, [task, _] = await delegate(turn, 2)
    counts, usage = s.SubagentCounts(total=2, running=1, queued=1), Usage(input_tokens=7)
    told: dict[str, Any] = {"counts": counts, "usage": usage}
    task.state = s.SUBAGENT_TASK_STATE_COMPLETED
    result = s.SubagentFinalResult(final_output="done")
    response = await turn.append(
        row(turn, batch_id, task, result=result),
        *steps(turn, batch_id, task.task_id, 0, 3, **told, ended=True),
        j.Write(subagent_steps=_told(turn, batch_id, task.task_id, told)),
    )
    events = [event.subagent_event for event in response.events]

    assert [event.process_event.call_id for event in events] == ["c0", "c1", "c2", ""]
    assert [event.HasField("result") for event in events] == [False, False, True, False]
    assert [event.HasField("process_event") for event in events] == [True, True, True, False]
    assert all((event.counts, event.usage) == (counts, usage) for event in events)
    assert all(event.item.state == task.state for event in events)
    assert {(event.entry_id, event.turn_id, event.task_id) for event in response.events} == {
        (turn.anchor_id, turn.begun.turn_id, task.task_id)
    }
    replayed = await store.replay(turn.session_id, after_seq=response.events[0].seq - 1)
    assert [event.subagent_event.process_event for event in replayed] == [event.process_event for event in events]
    assert [event.subagent_event.HasField("result") for event in replayed] == [False, False, True, False]
    assert [event.task_id for event in replayed] == [task.task_id] * 4


async def test_steps_that_are_too_many_or_have_no_place_are_refused(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, [task] = await delegate(turn, 1)
    many = steps(turn, batch_id, task.task_id, 0, 100)
    many[0].subagent_steps.process_events.add()
    nowhere = steps(turn, batch_id, task.task_id, 0, 1)
    nowhere[0].subagent_steps.first_n = -1
    nameless = steps(turn, batch_id, task.task_id, 0, 1)
    nameless[0].subagent_steps.task_id = "no id"
    for wrong, field in ((many, "process_events"), (nowhere, "first_n"), (nameless, "task_id")):
        async with refused(Reason.REASON_INVALID_FIELD) as found:
            await turn.append(*wrong)
        assert found[0].violations[0][0] == f"writes[0].subagent_steps.{field}"


def _told(turn: Turn, batch_id: str, task_id: str, told: dict[str, Any]) -> j.SubagentStepsWrite:
    return j.SubagentStepsWrite(
        parent_entry_id=turn.anchor_id,
        turn_id=turn.begun.turn_id,
        batch_entry_id=batch_id,
        task_id=task_id,
        first_n=3,
        **told,
    )
