"""Messages that wait for a running turn."""

from __future__ import annotations

from collections.abc import Sequence

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest, DeleteAgentRequest
from netaclaw.chat.v1 import event_pb2 as v
from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE, WHEN_BUSY_INTERRUPT, WHEN_BUSY_STEER, WhenBusy
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest, GetSessionTreeResponse, QueuedMessage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import INSTANCE, OWNER, Store, Turn, metadata, refused


async def _wait(
    turn: Turn, content: str, when_busy: WhenBusy = WHEN_BUSY_ENQUEUE, **fields: str
) -> j.BeginTurnResponse:
    return await turn.store.begin(turn.session_id, content, when_busy=when_busy, **fields)


async def _next(turn: Turn) -> j.BeginTurnResponse:
    return await turn.store.begin(turn.session_id, "", from_queue=True)


def _retract(turn: Turn, request_id: str, owner: str = OWNER) -> j.RetractMessageRequest:
    return j.RetractMessageRequest(owner_id=owner, session_id=turn.session_id, request_id=request_id)


async def _shown(turn: Turn) -> Sequence[QueuedMessage]:
    request = GetSessionTreeRequest(session_id=turn.session_id)
    answer: GetSessionTreeResponse = await turn.store.sessions.GetSessionTree(request, metadata=metadata(OWNER))
    return answer.queued_messages


async def test_a_waiting_message_is_kept_once_with_its_receipt(store: Store) -> None:
    turn = await store.new_turn()
    first = await _wait(turn, "later", request_id="q")
    again = await _wait(turn, "later", request_id="q")
    assert first.outcome == again.outcome == j.BEGIN_TURN_OUTCOME_QUEUED
    assert first.turn_start_seq == again.turn_start_seq == 4
    assert len(await store.query("SELECT FROM queued_message")) == 1
    events = await store.replay(turn.session_id, after_seq=first.turn_start_seq)
    assert events == list(first.events)
    assert events[0].message_receipt == v.MessageReceipt(request_id="q", state=v.RECEIPT_STATE_QUEUED)
    async with refused(Reason.REASON_REQUEST_ID_REUSED):
        await _wait(turn, "other", request_id="q")


async def test_turns_begin_from_the_queue_in_order_interrupting_messages_first(store: Store) -> None:
    turn = await store.new_turn()
    await _wait(turn, "one")
    await _wait(turn, "two", request_id="two")
    await _wait(turn, "now", WHEN_BUSY_INTERRUPT)
    async with refused(Reason.REASON_TURN_RUNNING):
        await _next(turn)
    contents = []
    for _ in range(3):
        await turn.finish()
        turn = Turn(store, await _next(turn))
        assert turn.begun.outcome == j.BEGIN_TURN_OUTCOME_STARTED
        receipt, user = turn.begun.events[:2]
        assert receipt.message_receipt.state == v.RECEIPT_STATE_TAKEN
        assert receipt.message_receipt.request_id == turn.begun.request_id
        assert receipt.turn_id == turn.begun.turn_id
        assert await store.replay(turn.session_id, after_seq=turn.begun.turn_start_seq) == list(turn.begun.events)
        contents.append(user.session_entry_added.entry.user.text)
    assert contents == ["now", "one", "two"]
    assert (await _wait(turn, "two", request_id="two")).outcome == j.BEGIN_TURN_OUTCOME_JOINED
    await turn.finish()
    assert (await _next(turn)).outcome == j.BEGIN_TURN_OUTCOME_EMPTY


async def test_a_message_whose_agent_and_entry_are_gone_is_still_answered(store: Store) -> None:
    turn = await store.new_turn()
    agents = await store.agents.CreateAgent(CreateAgentRequest(agent=Agent(name="a")), metadata=metadata())
    await turn.finish()
    branch = Turn(store, await store.begin(turn.session_id, "a branch"))
    await branch.finish()
    last = Turn(store, await store.begin(turn.session_id, "beside it", leaf_entry_id=turn.anchor_id))
    await _wait(last, "later", agent_id=agents.agent.agent_id, leaf_entry_id=branch.anchor_id)
    await last.finish()
    await store.agents.DeleteAgent(DeleteAgentRequest(agent_id=agents.agent.agent_id), metadata=metadata())
    names = {"owner_id": OWNER, "session_id": turn.session_id}
    lease = await store.journal.AcquireSession(j.AcquireSessionRequest(instance_id=INSTANCE, **names))
    gone = j.DeleteBranchRequest(generation=lease.generation, entry_id=branch.user_id, **names)
    assert (await store.journal.DeleteBranch(gone)).deleted_count == 2
    begun = await _next(last)
    assert begun.agent.name == "assistant"
    assert begun.events[1].session_entry_added.entry.parent_entry_id == last.anchor_id


async def test_a_message_that_names_an_agent_or_entry_that_is_not_there_does_not_wait(store: Store) -> None:
    turn = await store.new_turn()
    foreign = await store.new_turn(owner_id="bob")
    for agent_id in (new_id(), foreign.begun.agent.agent_id):
        async with refused(Reason.REASON_AGENT_NOT_FOUND):
            await _wait(turn, "later", agent_id=agent_id)
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await _wait(turn, "later", WHEN_BUSY_STEER, agent_name="nobody")
    for entry_id in (new_id(), foreign.anchor_id):
        async with refused(Reason.REASON_ENTRY_NOT_FOUND):
            await _wait(turn, "later", WHEN_BUSY_INTERRUPT, leaf_entry_id=entry_id)
    assert not await store.query("SELECT FROM queued_message")


async def test_a_message_enters_the_running_turn_once(store: Store) -> None:
    turn = await store.new_turn()
    await _wait(turn, "steer", WHEN_BUSY_STEER, request_id="s")
    take = j.Write(queue_take=j.QueueTakeWrite(request_id="s", turn_id=turn.begun.turn_id))
    taken = await turn.append(take)
    assert taken.events[0].message_receipt == v.MessageReceipt(request_id="s", state=v.RECEIPT_STATE_TAKEN)
    assert not (await turn.append(take)).events
    joined = await _wait(turn, "steer", WHEN_BUSY_STEER, request_id="s")
    assert (joined.outcome, joined.turn_id) == (j.BEGIN_TURN_OUTCOME_JOINED, turn.begun.turn_id)
    await turn.finish()
    assert (await _next(turn)).outcome == j.BEGIN_TURN_OUTCOME_EMPTY
    assert (await _wait(turn, "steer", request_id="s")).outcome == j.BEGIN_TURN_OUTCOME_JOINED


async def test_the_tree_names_what_waits_until_it_is_taken(store: Store) -> None:
    turn = await store.new_turn()
    await _wait(turn, "first", request_id="a")
    await _wait(turn, "ü" * 3000, request_id="b")
    await _wait(turn, "steer", WHEN_BUSY_STEER, request_id="c")
    await turn.append(j.Write(queue_take=j.QueueTakeWrite(request_id="c", turn_id=turn.begun.turn_id)))
    shown = await _shown(turn)
    assert [(each.request_id, each.text) for each in shown] == [("a", "first"), ("b", "ü" * 1024)]
    await store.journal.RetractMessage(_retract(turn, "a"))
    await turn.finish()
    await _next(turn)
    assert not await _shown(turn)


async def test_a_waiting_message_is_taken_back_and_a_taken_one_is_not(store: Store) -> None:
    turn = await store.new_turn()
    for name in ("a", "b"):
        await _wait(turn, name, request_id=name)
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.RetractMessage(_retract(turn, "a", "bob"))
    response = await store.journal.RetractMessage(_retract(turn, "a"))
    assert response.events[0].message_receipt.state == v.RECEIPT_STATE_RETRACTED
    async with refused(Reason.REASON_NOT_FOUND):
        await store.journal.RetractMessage(_retract(turn, "a"))
    await turn.finish()
    assert (await _next(turn)).request_id == "b"
    async with refused(Reason.REASON_NOT_FOUND):
        await store.journal.RetractMessage(_retract(turn, "b"))


async def test_a_message_that_was_taken_back_begins_nothing_when_it_is_sent_again(store: Store) -> None:
    turn = await store.new_turn()
    first = await _wait(turn, "never", request_id="r")
    await store.journal.RetractMessage(_retract(turn, "r"))
    again = await _wait(turn, "never", request_id="r")
    assert (again.outcome, again.turn_start_seq) == (j.BEGIN_TURN_OUTCOME_RETRACTED, first.turn_start_seq)
    async with refused(Reason.REASON_REQUEST_ID_REUSED):
        await _wait(turn, "other", request_id="r")
    assert not await _shown(turn)
    take = j.Write(queue_take=j.QueueTakeWrite(request_id="r", turn_id=turn.begun.turn_id))
    assert not (await turn.append(take)).events
    await turn.finish()
    assert (await _next(turn)).outcome == j.BEGIN_TURN_OUTCOME_EMPTY
    assert (await _wait(turn, "never", request_id="r")).outcome == j.BEGIN_TURN_OUTCOME_RETRACTED


async def test_the_queue_has_a_limit(store: Store) -> None:
    turn = await store.new_turn()
    for n in range(100):
        await _wait(turn, str(n))
    async with refused(Reason.REASON_LIMIT_REACHED) as errors:
        await _wait(turn, "one too many")
    assert errors[0].metadata == {"limit": "queued_messages", "value": "100"}


async def test_who_takes_over_a_turn_learns_what_waits(store: Store) -> None:
    turn = await store.new_turn()
    await _wait(turn, "one", request_id="1")
    await _wait(turn, "two", WHEN_BUSY_STEER, request_id="2")
    await store.query("UPDATE instance SET expire_time = now() - interval '1 s'")
    await store.beat("orchestrator-2")
    claimed = (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id="orchestrator-2"))).turns[0]
    assert [(each.request_id, each.content, each.when_busy) for each in claimed.queued] == [
        ("1", "one", WHEN_BUSY_ENQUEUE),
        ("2", "two", WHEN_BUSY_STEER),
    ]
    assert list(claimed.presets) == [turn.begun.agent]
