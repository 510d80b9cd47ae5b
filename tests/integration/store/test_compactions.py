"""Compactions that nobody ends any more, and what summaries have cost that came to nothing."""

from __future__ import annotations

from netaclaw.chat.v1.event_pb2 import ChatEvent, CompactionDone, CompactionError, CompactionStart
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from tests.integration.store.driver import INSTANCE, OWNER, Store, append, event_write, metadata, refused

OTHER = "orchestrator-2"
BEGIN = event_write(ChatEvent(compaction_start=CompactionStart(manual=True, tokens_before=9)))


async def idle_session(store: Store) -> str:
    """A session whose only turn has ended."""
    turn = await store.new_turn()
    await turn.finish()
    return turn.session_id


async def lease(store: Store, session_id: str, instance: str = INSTANCE) -> int:
    request = j.AcquireSessionRequest(instance_id=instance, owner_id=OWNER, session_id=session_id)
    return (await store.journal.AcquireSession(request)).generation


def batch(session_id: str, generation: int, append_no: int, *writes: j.Write) -> j.AppendRequest:
    return j.AppendRequest(session_id=session_id, generation=generation, append_no=append_no, writes=writes)


async def claim(store: Store) -> j.ClaimDueResponse:
    return await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))


async def compaction_kinds(store: Store, session_id: str) -> list[str]:
    kinds = [str(event.WhichOneof("event")) for event in await store.replay(session_id)]
    return [kind for kind in kinds if kind.startswith("compaction")]


async def total(store: Store, session_id: str = "", turn_id: str = "") -> Usage:
    request = p.GetUsageRequest(session_id=session_id, turn_id=turn_id)
    return (await store.sessions.GetUsage(request, metadata=metadata())).total


async def test_what_failed_summaries_have_cost_is_added_to_the_session(store: Store) -> None:
    session_id = await idle_session(store)
    generation = await lease(store, session_id)
    spent = Usage(input_tokens=100, output_tokens=7, cached_input_tokens=5, reasoning_tokens=3, model_calls=1)
    counts = j.Write(usage=j.UsageWrite(usage=spent))
    await append(store, batch(session_id, generation, 1, counts))
    request = batch(session_id, generation, 2, counts, j.Write(usage=j.UsageWrite(usage=Usage(cost_micros=11))))
    await append(store, request, request)  # a repeat counts once
    expected = Usage(
        input_tokens=200,
        output_tokens=14,
        cached_input_tokens=10,
        reasoning_tokens=6,
        model_calls=2,
        cost_micros=11,
    )
    assert await total(store, session_id) == expected
    assert await total(store) == expected
    [row] = await store.query("SELECT turn_id FROM turn")
    assert await total(store, session_id, row["turn_id"]) == Usage()


async def test_a_compaction_whose_owner_died_is_ended_once_and_its_call_counted(store: Store) -> None:
    await store.beat(OTHER)
    session_id = await idle_session(store)
    generation = await lease(store, session_id)
    begun = await append(store, batch(session_id, generation, 1, BEGIN))
    await claim(store)
    assert await compaction_kinds(store, session_id) == ["compaction_start"], "its owner lives"
    await store.query("UPDATE instance SET expire_time = now() - interval '1 s' WHERE instance_id = $1", INSTANCE)
    await claim(store)
    await claim(store)
    [_, ended] = await store.replay(session_id, begun.last_seq - 1)
    assert ended.seq == begun.last_seq + 1
    assert "has stopped in the middle" in ended.compaction_error.message
    assert (await total(store, session_id)) == Usage(model_calls=1, estimated_calls=1)
    await store.beat()
    async with refused(Reason.REASON_STALE_GENERATION):  # the dead owner, come back
        done = ChatEvent(compaction_done=CompactionDone(tokens_before=9))
        await append(store, batch(session_id, generation, 2, event_write(done)))


async def test_a_compaction_is_ended_where_another_owner_has_the_session_already(store: Store) -> None:
    await store.beat(OTHER)
    session_id = await idle_session(store)
    await append(store, batch(session_id, await lease(store, session_id), 1, BEGIN))
    await store.beat()  # a new process of the same instance
    generation = await lease(store, session_id, OTHER)
    await claim(store)
    assert await compaction_kinds(store, session_id) == ["compaction_start", "compaction_error"]
    await append(store, batch(session_id, generation, 1, BEGIN))  # the new owner goes on
    failed = ChatEvent(compaction_error=CompactionError(message="no"))
    await append(store, batch(session_id, generation, 2, event_write(failed)))
    await claim(store)
    kinds = ["compaction_start", "compaction_error"]
    assert await compaction_kinds(store, session_id) == kinds * 2


async def test_a_turn_that_is_claimed_in_its_compaction_is_told_that_it_has_ended(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    start = ChatEvent(
        turn_id=turn.begun.turn_id, entry_id=turn.anchor_id, compaction_start=CompactionStart(tokens_before=9)
    )
    await turn.append(event_write(start))
    await store.beat()
    [claimed] = (await claim(store)).turns
    ended = (await store.replay(turn.session_id))[-1]
    assert ended.HasField("compaction_error")
    assert (ended.turn_id, ended.entry_id) == (turn.begun.turn_id, turn.anchor_id)
    assert claimed.session.seq == ended.seq
    assert await total(store, turn.session_id) == Usage(), "whoever takes the turn over counts its call"


async def test_the_end_is_noticed(store: Store) -> None:
    await store.beat(OTHER)
    session_id = await idle_session(store)
    begun = await append(store, batch(session_id, await lease(store, session_id), 1, BEGIN))
    await store.beat()
    notices = store.journal.Notices(j.NoticesRequest(instance_id=OTHER))
    await notices.initial_metadata()
    await claim(store)
    async for response in notices:
        told = {notice.session_id: notice.seq for notice in response.notices}
        if told.get(session_id, 0) > begun.last_seq:
            break
    notices.cancel()
