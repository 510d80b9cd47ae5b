"""What is answered fits a message, however large what it is made of may be."""

from __future__ import annotations

from netaclaw.agent.v1 import agent_service_pb2 as p
from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE, WHEN_BUSY_STEER
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.entry_pb2 import ENTRY_KIND_ASSISTANT, Session
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from netaclaw_store.checks import MAX_CONTENT_BYTES
from tests.integration.store.driver import INSTANCE, OWNER, Store, Turn, entry_write, metadata, text
from tests.integration.store.test_delegations import delegate, row

OTHER = "orchestrator-2"
PROMPT = "字" * 65_536
"""As long as a prompt may be: 192 KiB."""


async def _publish(store: Store, count: int) -> None:
    for number in range(count):
        made = await store.agents.CreateAgent(
            p.CreateAgentRequest(agent=Agent(name=f"a{number:03}", system_prompt=PROMPT)), metadata=metadata()
        )
        request = p.PublishAgentRequest(agent_id=made.agent.agent_id, published=True)
        await store.agents.PublishAgent(request, metadata=metadata())


async def _orphans(store: Store) -> None:
    """Every instance dies, and another one is there to take over."""
    await store.query("UPDATE instance SET expire_time = now() - interval '1 s'")
    await store.beat(OTHER)


async def _claim(store: Store, limit: int = 0) -> j.ClaimDueResponse:
    return await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER, limit=limit))


async def test_turns_begin_and_are_taken_over_whatever_the_published_agents_weigh(store: Store) -> None:
    await _publish(store, 24)
    fresh = await store.new_turn()
    await fresh.finish()
    again = Turn(store, await store.begin(fresh.session_id))
    shown = [preset.name for preset in again.begun.presets]
    assert shown == [preset.name for preset in fresh.begun.presets]
    assert shown == [f"a{number:03}" for number in range(len(shown))]
    assert shown
    await _orphans(store)
    assert [preset.name for preset in (await _claim(store)).turns[0].presets] == shown


async def test_orphaned_turns_are_claimed_in_answers_that_fit(store: Store) -> None:
    await _publish(store, 6)
    begun = [(await store.new_turn()).begun.turn_id for _ in range(6)]
    await _orphans(store)
    claimed: list[str] = []
    while turns := (await _claim(store, limit=10)).turns:
        claimed += [turn.turn_id for turn in turns]
    assert claimed == begun


async def test_a_turn_is_taken_over_with_a_queue_that_does_not_fit(store: Store) -> None:
    turn = await store.new_turn()
    content = "x" * MAX_CONTENT_BYTES
    for number in range(20):
        kind = WHEN_BUSY_STEER if number % 2 else WHEN_BUSY_ENQUEUE
        await store.begin(turn.session_id, content, when_busy=kind, request_id=str(number))
    await _orphans(store)
    (claimed,) = (await _claim(store)).turns
    assert [each.request_id for each in claimed.queued] == [str(number) for number in range(20)]
    whole = [each for each in claimed.queued if each.content]
    assert {each.content for each in whole} == {content}
    assert {each.when_busy for each in claimed.queued if not each.content} == {WHEN_BUSY_ENQUEUE}
    assert whole[1].when_busy == WHEN_BUSY_STEER


async def test_the_owner_of_a_session_with_a_large_batch_is_told(store: Store) -> None:
    turn = await store.new_turn()
    batch_id = new_id()
    tasks = [
        s.SubagentTask(
            task_id=new_id(), sort_order=n, state=s.SUBAGENT_TASK_STATE_RUNNING, goal="g" * 8192, context="c" * 65_536
        )
        for n in range(100)
    ]
    for start in range(0, len(tasks), 10):
        await turn.append(*(row(turn, batch_id, task) for task in tasks[start : start + 10]))
    request = j.GetOwnerRequest(owner_id=OWNER, session_id=turn.session_id)
    answer = await store.journal.GetOwner(request)
    assert answer.instance_id == INSTANCE
    assert [task.task_id for task in answer.open_tasks] == [task.task_id for task in tasks]


async def test_an_append_whose_events_do_not_fit_is_answered_without_them(store: Store) -> None:
    turn = await store.new_turn()
    batch_id, (task,) = await delegate(turn, 1, "c" * 65_536)
    task.goal = "g" * 8192
    writes = [row(turn, batch_id, task)]
    for first in range(0, 300, 100):
        events = [s.ProcessEvent(task_id=task.task_id, type="tool_call") for _ in range(100)]
        writes.append(
            j.Write(
                subagent_steps=j.SubagentStepsWrite(
                    parent_entry_id=turn.anchor_id,
                    turn_id=turn.begun.turn_id,
                    batch_entry_id=batch_id,
                    task_id=task.task_id,
                    first_n=first,
                    process_events=events,
                )
            )
        )
    before = turn.events[-1].seq
    answer = await turn.append(*writes)
    assert answer.repeated_append
    assert not answer.events
    assert [event.seq for event in await store.replay(turn.session_id, before)] == list(range(before + 1, before + 301))
    assert answer.last_seq == before + 300


async def test_labels_on_large_entries_are_set_and_told_as_far_as_there_is_room(store: Store) -> None:
    turn = await store.new_turn()
    await turn.append(entry_write(turn.assistant(text("x" * 900_000))))
    await turn.finish()
    session_id = turn.session_id
    for _ in range(4):
        more = Turn(store, await store.begin(session_id))
        await more.append(entry_write(more.assistant(text("x" * 900_000))))
        await more.finish()
    entries = [entry.entry_id for entry in await store.tree(session_id) if entry.kind == ENTRY_KIND_ASSISTANT]
    request = j.UpdateSessionRequest(owner_id=OWNER, session=Session(session_id=session_id))
    for entry_id in entries:
        request.labels.add(entry_id=entry_id, label="kept")
    answer = await store.journal.UpdateSession(request)
    told = [event.session_entry_updated.entry.entry_id for event in answer.events]
    assert told == entries[: len(told)]
    assert told
    replayed = await store.replay(session_id, answer.session.seq - len(entries))
    assert [event.session_entry_updated.entry.entry_id for event in replayed] == entries
